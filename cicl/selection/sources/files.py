"""Which files an instance consists of."""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from cicl.selection.records import Skipped
from cicl.selection.sources import git, plaintree

__all__ = ["DEFAULT_LIMITS", "FileEntry", "Limits", "Listing", "list_files", "read_file"]

OWN_PATHS = (".cicl",)
"""What cicl itself writes inside a tree. Listed, it would change the answer it belongs to."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How large what is read may be."""

    max_file_bytes: int = 1_500_000
    """Twice the largest text file of Django and sympy (709,050 bytes)."""
    max_line_chars: int = 5_000
    """Longer lines are machine-written: in Django and sympy no hand-written file has even half of its text in
    such lines, and every minified script and style sheet above 6 kB has more than nine tenths."""


DEFAULT_LIMITS = Limits()


class FileEntry(NamedTuple):
    """One regular file. Two equal entries are the same content, as far as a file system can tell."""

    path: str
    """Relative to the root, "/" between its parts, valid Unicode; may hold quotes and line breaks."""
    size: int
    """Bytes."""
    mtime_ns: int
    ctime_ns: int


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of an instance."""

    root: Path
    """Real path."""
    files: tuple[FileEntry, ...]
    """By path."""
    skipped: tuple[Skipped, ...]
    """What is there and will not be read, by path; a directory stands for all it holds."""
    notes: tuple[str, ...] = ()
    """What is true of the whole listing: that git did not answer, that ignore files were not honoured."""


def list_files(
    root: str | os.PathLike[str],
    *,
    submodules: bool = True,
    own: Iterable[str] = OWN_PATHS,
    limits: Limits = DEFAULT_LIMITS,
) -> Listing:
    """List what git tracks or does not ignore; without git, what a walk finds. No file is opened.

    `root` is what `find_root` returned. With `submodules`, repositories inside it are listed by their own
    git. `own` are paths relative to the root that are left out without a word.
    Tracked files that are not on disk are left out without a word as well.
    """
    survey = _Survey(os.path.realpath(root), submodules, frozenset(own), limits)
    pending = [""]
    while pending:
        pending.extend(survey.add_tree(pending.pop()))
    return survey.finish()


def read_file(
    root: str | os.PathLike[str], entry: FileEntry, limits: Limits = DEFAULT_LIMITS
) -> bytes | Skipped:
    """Read a listed file; `Skipped` when it can no longer be read or became what is not listed."""
    # Neither waiting for a pipe's writer nor following a link that replaced the file since it was listed.
    flags = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOFOLLOW", "O_BINARY"))
    try:
        descriptor = os.open(f"{os.fspath(root)}/{entry.path}", flags)
        try:
            return _read_whole(descriptor, entry.path, limits)
        finally:
            os.close(descriptor)
    except OSError as error:
        changed = error.errno == errno.ELOOP
        return Skipped(entry.path, "became a symlink" if changed else _cannot_read(error))


def _read_whole(descriptor: int, path: str, limits: Limits) -> bytes | Skipped:
    status = os.fstat(descriptor)
    if reason := _refuse_status(status, limits):
        return Skipped(path, reason)
    data = os.read(descriptor, status.st_size + 1)
    return data if len(data) == status.st_size else Skipped(path, "changed while it was read")


class _Survey:
    """Collects one listing; ends with `finish`."""

    def __init__(self, top: str, submodules: bool, own: frozenset[str], limits: Limits) -> None:
        self.top = top
        self.submodules = submodules
        self.own = own
        self.own_folders = tuple(f"{path}/" for path in sorted(own))
        self.limits = limits
        self.files: list[FileEntry] = []
        self.skipped: dict[str, str] = {}
        self.links: dict[str, str] = {}
        self.notes: list[str] = []
        self.real_folders: dict[str, bool] = {"": True}
        self.default_skips: dict[str, bool] = {"": False}

    def add_tree(self, start: str) -> list[str]:
        """Add one work tree or plain directory; return the repositories inside it, still to be added."""
        folder = self._locate(start)
        if os.path.lexists(f"{folder}/.git"):
            answer = git.list_tree(folder)
            if isinstance(answer, git.TreeListing):
                return self._add_git_tree(start, answer)
            self._note(start, f"{answer.reason}; the files were listed without it")
        return self._add_plain_tree(start)

    def finish(self) -> Listing:
        read = {entry.path for entry in self.files}
        if self.links:
            read.update(_find_ancestors(read))
        for path, target in self.links.items():
            end = "which is read itself" if target in read else "which is not read either"
            self.skipped[path] = f"a symlink to {target}, {end}"
        skipped = tuple(Skipped(path, reason) for path, reason in sorted(self.skipped.items()))
        return Listing(Path(self.top), tuple(sorted(self.files)), skipped, tuple(self.notes))

    def _add_git_tree(self, start: str, tree: git.TreeListing) -> list[str]:
        for warning in tree.warnings:
            self._note(start, f"git says: {warning}")
        prefix = f"{start}/" if start else ""
        if not all(entry.tracked for entry in tree.entries):
            # Where something is tracked, a new file beside it is code as well, whatever the directory's name.
            tracked = _find_ancestors(prefix + entry.path for entry in tree.entries if entry.tracked)
            self.default_skips.update(dict.fromkeys(tracked, False))
        nested = []
        for entry in tree.entries:
            path = prefix + entry.path
            if self._is_own(path) or not (entry.tracked or self._is_default(path)):
                continue
            if entry.repository:
                nested += self._admit_repository(path)
            else:
                self._add_path(path)
        return nested

    def _add_plain_tree(self, start: str) -> list[str]:
        walk = plaintree.walk_tree(self.top, start, self._is_own)
        self.skipped.update(walk.skipped)
        for path in self._apply_ignore_files(start, walk) if walk.ignore_files else walk.paths:
            self._add_path(path)
        return [path for folder in walk.repositories for path in self._admit_repository(folder)]

    def _apply_ignore_files(self, start: str, walk: plaintree.Walk) -> list[str]:
        cut = len(start) + 1 if start else 0
        ignored = git.find_ignored(self._locate(start), [path[cut:] for path in walk.paths])
        if isinstance(ignored, git.Refusal):
            self._note(start, f"{ignored.reason}; `.gitignore` files were not honoured")
            return walk.paths
        return [path for path in walk.paths if path[cut:] not in ignored]

    def _admit_repository(self, path: str) -> list[str]:
        """Return `[path]` when the repository inside is to be listed; otherwise say why not."""
        folder = self._locate(path)
        if not self.submodules:
            self._skip(path, "a repository of its own; submodules are switched off")
        elif not self._is_real_folder(path):
            self._skip(path, "a submodule that is no directory here")
        elif not _holds_anything(folder):
            self._skip(path, "a submodule that is not checked out; `git submodule update --init` does")
        else:
            return [path]
        return []

    def _add_path(self, path: str) -> None:
        try:
            status = os.lstat(f"{self.top}/{path}")
        except (FileNotFoundError, NotADirectoryError):
            return None  # tracked and deleted
        except OSError as error:
            return self._skip(path, _cannot_read(error))
        if not path.isascii() and path != plaintree.make_printable(path):
            return self._skip(path, "a name that is not UTF-8")
        if not self._is_real_folder(path.rpartition("/")[0]):
            return self._skip(path, "tracked below a directory that became a symlink")
        if stat.S_ISLNK(status.st_mode):
            return self._add_link(path)
        if reason := _refuse_status(status, self.limits):
            return self._skip(path, reason)
        self.files.append(FileEntry(path, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
        return None

    def _add_link(self, path: str) -> None:
        try:
            target = os.path.realpath(f"{self.top}/{path}", strict=True)
        except (OSError, ValueError):
            return self._skip(path, "a symlink that leads nowhere")
        inside = os.path.join(self.top, "")
        if target != self.top and not target.startswith(inside):
            return self._skip(path, "a symlink that leads out of the repository; it is not followed")
        relative = target[len(inside) :].replace(os.sep, "/")
        self.links[path] = plaintree.make_printable(relative) or "."
        return None

    def _is_own(self, path: str) -> bool:
        return path in self.own or path.startswith(self.own_folders)

    def _is_real_folder(self, folder: str) -> bool:
        """Whether no part of the path is a symlink, which might lead out of the root."""
        known = self.real_folders.get(folder)
        if known is not None:
            return known
        real = True
        for step in _descend(folder):
            if step not in self.real_folders:
                self.real_folders[step] = real and _is_folder(f"{self.top}/{step}")
            real = self.real_folders[step]
        return real

    def _is_default(self, path: str) -> bool:
        """Whether an untracked path lies in no directory that is skipped by default."""
        folder, _, _ = path.rpartition("/")
        known = self.default_skips.get(folder)
        if known is not None:
            return not known
        skipped = False
        for step in _descend(folder):
            if step not in self.default_skips:
                reason = None if skipped else plaintree.explain_skip(self.top, step)
                if reason:
                    self._skip(step, reason)
                self.default_skips[step] = skipped or bool(reason)
            skipped = self.default_skips[step]
        return not skipped

    def _locate(self, folder: str) -> str:
        return os.path.join(self.top, *folder.split("/")) if folder else self.top

    def _skip(self, path: str, reason: str) -> None:
        self.skipped[plaintree.make_printable(path)] = reason

    def _note(self, start: str, text: str) -> None:
        self.notes.append(f"{plaintree.make_printable(start)}: {text}" if start else text)


def _refuse_status(status: os.stat_result, limits: Limits) -> str | None:
    if not stat.S_ISREG(status.st_mode):
        return f"{_name_type(status.st_mode)}, not a regular file"
    if status.st_size > limits.max_file_bytes:
        return f"{status.st_size:,} bytes, more than the limit of {limits.max_file_bytes:,}"
    return None


def _name_type(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a directory" if stat.S_ISDIR(mode) else "a device"


def _cannot_read(error: OSError) -> str:
    return f"cannot be read: {error.strerror}"


def _is_folder(path: str) -> bool:
    try:
        return plaintree.is_real_folder(os.lstat(path))
    except OSError:
        return False


def _holds_anything(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(True for _ in entries)
    except OSError:
        return True  # the walk will say what is wrong with it


def _descend(folder: str) -> Iterator[str]:
    """Yield the directories on the way down to `folder`, and itself."""
    return accumulate(folder.split("/"), "{}/{}".format)


def _find_ancestors(paths: Iterable[str]) -> set[str]:
    found = {"."}
    for path in paths:
        while (path := path.rpartition("/")[0]) and path not in found:
            found.add(path)
    return found
