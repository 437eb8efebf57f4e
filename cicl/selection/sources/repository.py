"""Which directory an instance is, and the key its state is kept under."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cicl.errors import RepositoryError
from cicl.selection.sources import git

__all__ = ["Repository", "find_root", "identify"]

POINTER_BYTES = 64 * 1024
"""A `.git` file holds one path; whatever is larger is something else."""


@dataclass(frozen=True, slots=True)
class Repository:
    """One work tree, or one directory without git."""

    root: Path
    """Real path."""
    common_dir: Path | None
    """Real path of the git directory that all worktrees of this repository share; None without git."""
    key: str
    """32 hexadecimal digits, the same for every spelling of the path; each worktree has its own."""


def find_root(path: str | os.PathLike[str]) -> Path:
    """Return the real path of the directory that `path` belongs to as an instance.

    That is the top of its work tree, or `path` itself where git knows of none, does not trust it, or ignores
    `path` in it: a project in the ignored part of a home directory under git is not that home directory.
    Raises `RepositoryError` when `path` is no directory that can be read, or is git's own.
    """
    start = _read_directory(path)
    top = next((parent for parent in (start, *start.parents) if os.path.lexists(parent / ".git")), start)
    if top == start:
        return start
    return top if git.is_ignored(str(top), start.relative_to(top).as_posix()) is False else start


def identify(root: Path) -> Repository:
    """Return the identity of `root`, as `find_root` returned it. Git itself is not needed."""
    real = Path(os.path.realpath(root))
    common = _find_common_dir(real)
    parts = [normalise_case(common) if common else "", normalise_case(real)]
    digest = hashlib.blake2b(b"\0".join(os.fsencode(part) for part in parts), digest_size=16)
    return Repository(real, common, digest.hexdigest())


def is_same_entry(first: str, second: str) -> bool:
    """Return whether two paths name one directory entry, symlinks not followed; False when one is absent."""
    try:
        return os.path.samestat(os.lstat(first), os.lstat(second))
    except OSError:
        return False


def normalise_case(path: Path, same: Callable[[str, str], bool] = is_same_entry) -> str:
    """Return `path` with those of its names folded that the file system itself reads without case.

    One path may cross file systems of both kinds, so every name is tried where it stands.
    """
    return os.path.join(*(_fold_name(parent, name, same) for parent, name in _split_names(path)))


def _fold_name(parent: str, name: str, same: Callable[[str, str], bool]) -> str:
    swapped = name.swapcase()
    if swapped == name or not same(os.path.join(parent, name), os.path.join(parent, swapped)):
        return name
    return name.casefold()


def _split_names(path: Path) -> Iterator[tuple[str, str]]:
    parent = ""
    for name in path.parts:
        yield parent, name
        parent = os.path.join(parent, name)


def _read_directory(path: str | os.PathLike[str]) -> Path:
    try:
        start = Path(path).resolve(strict=True)
        with os.scandir(start) as entries:
            names = {entry.name for entry in entries}
    except NotADirectoryError:
        raise RepositoryError(f"{os.fspath(path)} is a file; give the directory that holds it") from None
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: a loop of symlinks, before 3.13
        reason = getattr(error, "strerror", None) or str(error)
        raise RepositoryError(f"{os.fspath(path)} cannot be read: {reason}; give a directory") from None
    if {"HEAD", "objects", "refs"} <= names:
        raise RepositoryError(
            f"{start} is git's own directory or a bare repository, which holds no files to read; "
            "give a work tree, for instance one made by `git worktree add`"
        )
    return start


def _find_common_dir(root: Path) -> Path | None:
    # gitrepository-layout(5): `.git` is a directory, or in a worktree or submodule a file that names it.
    entry = root / ".git"
    try:
        mode = entry.stat().st_mode
    except OSError:
        return None
    if stat.S_ISDIR(mode):
        return Path(os.path.realpath(entry))
    pointer = _read_pointer(entry)
    if pointer is None or not pointer.startswith("gitdir:"):
        return None
    directory = root / pointer.removeprefix("gitdir:").strip()
    shared = _read_pointer(directory / "commondir")
    return Path(os.path.realpath(directory / shared.strip() if shared else directory))


def _read_pointer(path: Path) -> str | None:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > POINTER_BYTES:
            return None
        return os.fsdecode(path.read_bytes()).replace("\0", "")
    except OSError:
        return None
