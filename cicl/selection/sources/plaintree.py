"""Walking a directory that no version control lists."""

import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

__all__ = ["Walk", "explain_skip", "is_real_folder", "make_printable", "walk_tree"]

VERSION_CONTROL = frozenset({".bzr", ".git", ".hg", ".jj", ".svn"})
"""Passed over without a word: nobody counts these among a project's files."""

SKIPPED_NAMES = {
    "__pycache__": "compiled files",
    ".eggs": "installed packages",
    ".idea": "an editor's state",
    ".mypy_cache": "a cache",
    ".nox": "virtual environments",
    ".pytest_cache": "a cache",
    ".ruff_cache": "a cache",
    ".tox": "virtual environments",
    ".venv": "a virtual environment",
    "bower_components": "installed packages",
    "node_modules": "installed packages",
    "venv": "a virtual environment",
}

SKIPPED_SUFFIXES = {".egg-info": "generated package metadata", ".dist-info": "generated package metadata"}

SKIPPED_MARKERS = {"pyvenv.cfg": "a virtual environment", "CACHEDIR.TAG": "a cache"}
"""Files by which a directory of any name says what it is (PEP 405; the cache directory tagging standard)."""

BUILD_NAMES = frozenset({"build", "dist", "target"})
BUILD_FILES = (
    "build.gradle",
    "Cargo.toml",
    "CMakeLists.txt",
    "Makefile",
    "package.json",
    "pom.xml",
    "pyproject.toml",
    "setup.py",
)
"""`build` is output beside one of these; elsewhere it may be code, as in `src/build` of PyPI's `build`."""

JUNCTION_TAG = 0xA0000003
"""`stat.IO_REPARSE_TAG_MOUNT_POINT`, which exists on Windows only."""


@dataclass(slots=True)
class Walk:
    """What a walk saw. Paths are relative to the top, with "/" between their parts."""

    paths: list[str] = field(default_factory=list)
    """Everything that is not a directory: files, links, pipes, devices."""
    repositories: list[str] = field(default_factory=list)
    """Directories below the start with a `.git` of their own; not entered."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Directories that were not entered, and why."""
    ignore_files: bool = False
    """A `.gitignore` was seen that is a regular file."""


def walk_tree(top: str, start: str, is_own: Callable[[str], bool]) -> Walk:
    """Walk from `start`, a directory relative to `top` ("" for `top` itself), never through a symlink.

    Paths for which `is_own` is true are left out without a word.
    """
    walk = Walk()
    visited: dict[tuple[int, int], str] = {}
    pending = [start]
    while pending:
        folder = pending.pop()
        reason = _refuse_folder(top, folder, visited) or _read_folder(
            top, folder, start, walk, pending, is_own
        )
        if reason:
            walk.skipped[make_printable(folder) or "."] = reason
    return walk


def explain_skip(top: str, folder: str) -> str | None:
    """Return why a directory that no one tracks is not read by default; None when it is read."""
    by_name = _explain_name(top, folder)
    return by_name or _explain_marker(
        name for name in SKIPPED_MARKERS if os.path.lexists(f"{top}/{folder}/{name}")
    )


def _explain_name(top: str, folder: str) -> str | None:
    parent, _, name = folder.rpartition("/")
    if name in BUILD_NAMES and any(os.path.lexists(f"{top}/{parent}/{file}") for file in BUILD_FILES):
        return "build output"
    by_suffix = (reason for suffix, reason in SKIPPED_SUFFIXES.items() if name.endswith(suffix))
    return SKIPPED_NAMES.get(name) or next(by_suffix, None)


def _explain_marker(names: Iterable[str]) -> str | None:
    return next((SKIPPED_MARKERS[name] for name in names if name in SKIPPED_MARKERS), None)


def is_real_folder(status: os.stat_result) -> bool:
    """Return whether what `os.lstat` saw is a directory, and neither a symlink nor a Windows junction."""
    return stat.S_ISDIR(status.st_mode) and getattr(status, "st_reparse_tag", 0) != JUNCTION_TAG


def make_printable(path: str) -> str:
    """Return `path` with bytes that are not UTF-8 escaped, so that it can be hashed, stored and shown."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _refuse_folder(top: str, folder: str, visited: dict[tuple[int, int], str]) -> str | None:
    try:
        status = os.lstat(f"{top}/{folder}")
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if not is_real_folder(status):
        return "a link to another directory; it is not followed"
    # Bind mounts make cycles that are no links.
    first = visited.setdefault((status.st_dev, status.st_ino), folder)
    return None if first == folder else f"the same directory as {make_printable(first) or '.'}"


def _read_folder(
    top: str, folder: str, start: str, walk: Walk, pending: list[str], is_own: Callable[[str], bool]
) -> str | None:
    try:
        with os.scandir(f"{top}/{folder}") as scan:
            entries = sorted(scan, key=_name_of)
            folders = {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    names = {entry.name for entry in entries}
    if folder != start:
        if ".git" in names:
            walk.repositories.append(folder)
            return None
        if reason := _explain_marker(sorted(names & SKIPPED_MARKERS.keys())):
            return reason
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if entry.name in VERSION_CONTROL or is_own(path):
            continue
        if entry.name not in folders:
            walk.paths.append(path)
            if entry.name == ".gitignore" and entry.is_file(follow_symlinks=False):
                walk.ignore_files = True
        elif reason := _explain_name(top, path):
            walk.skipped[make_printable(path)] = reason
        else:
            pending.append(path)
    return None


def _name_of(entry: os.DirEntry[str]) -> str:
    return entry.name
