"""Asking git about a tree that may be hostile.

A repository can carry its own `.git`, so its configuration is foreign input. Nothing git is asked here may
run a program that configuration names, reach the network, write, prompt, or answer for another tree.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

__all__ = ["Refusal", "TreeEntry", "TreeListing", "find_ignored", "is_ignored", "list_tree"]

TIMEOUT_SECONDS = 60.0
"""Ends a git that hangs, for instance on a named pipe called `.gitignore`; the listing itself takes tens of
milliseconds for 7,000 files."""

GITLINK = "160000"

HERE = "./"
"""Before a path, so that one that begins with a colon is no pattern."""

HARDENING = (
    "--no-pager",
    "-c",
    "core.fsmonitor=",  # any other value is a command that git runs; versions before 2.36 ran even `false`
    "-c",
    f"core.hooksPath={os.devnull}",
    "-c",
    "core.quotePath=off",
)

NO_SIDE_EFFECTS = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    # A partial clone fetches a missing `.gitignore` blob while it lists files, from a remote that may be
    # `ext::any command`. The first variable needs git 2.44; the second works everywhere, because no
    # transport has that name.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "LC_ALL": "C",
}

KEPT_VARIABLES = ("GIT_CONFIG_", "GIT_EXEC_PATH")
"""What the user may have set for every git: where its configuration lies, and `safe.directory` in it.
Every other `GIT_` variable belongs to a hook that we may run inside, and would point at that hook's tree."""


class Refusal(NamedTuple):
    """Git gave no answer."""

    reason: str
    """One line that ends without a full stop."""


class TreeEntry(NamedTuple):
    """One path as git sees it."""

    path: str
    """Relative to the top that was asked about; undecodable bytes are lone surrogates."""
    tracked: bool
    repository: bool
    """A submodule, or a repository inside this one that git does not look into."""


class TreeListing(NamedTuple):
    """Every path of a tree that its ignore rules let through."""

    entries: tuple[TreeEntry, ...]
    """Each path once, in no order."""
    warnings: tuple[str, ...]
    """What git could not read."""


def list_tree(top: str) -> TreeListing | Refusal:
    """Return what git tracks below `top`, and what it neither tracks nor ignores.

    `top` is the real path of the top of a work tree.
    """
    answer = _run(
        top,
        f"--work-tree={top}",  # the repository's own `core.worktree` could name any other directory
        "ls-files",
        "-z",
        "-t",
        "--stage",
        "--others",
        "--exclude-standard",
    )
    if isinstance(answer, Refusal):
        return answer
    if answer.returncode != 0:
        return _refusal(answer)
    entries = {entry.path: entry for entry in map(_parse_entry, _split(answer.stdout))}
    warnings = tuple(line.removeprefix("warning: ") for line in _messages(answer))
    return TreeListing(tuple(entries.values()), warnings)


def is_ignored(top: str, path: str) -> bool | Refusal:
    """Return whether the work tree at `top` ignores `path`, given relative to it."""
    answer = _run(top, f"--work-tree={top}", "check-ignore", "--quiet", "-z", "--stdin", stdin=_join([path]))
    if isinstance(answer, Refusal):
        return answer
    return answer.returncode == 0 if answer.returncode in (0, 1) else _refusal(answer)


def find_ignored(top: str, paths: Sequence[str]) -> frozenset[str] | Refusal:
    """Return those of `paths` that ignore files below `top` exclude, where `top` is in no repository."""
    with _empty_repository() as git_dir:
        if git_dir is None:
            return Refusal("there is no temporary directory that could be written to")
        where = (f"--git-dir={git_dir}", f"--work-tree={top}")
        answer = _run(top, *where, "check-ignore", "--no-index", "-z", "--stdin", stdin=_join(paths))
    if isinstance(answer, Refusal):
        return answer
    if answer.returncode not in (0, 1):
        return _refusal(answer)
    return frozenset(path.removeprefix(HERE) for path in _split(answer.stdout))


@contextmanager
def _empty_repository() -> Iterator[str | None]:
    # Laid out by hand: `git init` costs a process and copies the user's template.
    try:
        scratch = tempfile.TemporaryDirectory(prefix="cicl-ignore-")
    except OSError:
        yield None
        return
    with scratch as name:
        for part in ("objects", "refs"):
            Path(name, part).mkdir()
        Path(name, "HEAD").write_text("ref: refs/heads/none\n", encoding="ascii")
        yield name


def _run(top: str, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes] | Refusal:
    program = shutil.which("git")
    # A relative program comes from an empty or `.` entry of PATH, which would be the foreign tree itself.
    if program is None or not os.path.isabs(program):
        return Refusal("git is not installed")
    try:
        return subprocess.run(
            [program, *HARDENING, *arguments],
            cwd=top,
            env=_environment(top),
            input=stdin,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Refusal(f"git gave no answer within {TIMEOUT_SECONDS:.0f} seconds")
    except OSError as error:
        return Refusal(f"git could not be started: {error.strerror}")


def _environment(top: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_")
        or (name.startswith(KEPT_VARIABLES) and name != "GIT_CONFIG_PARAMETERS")
    }
    # With a broken `.git` here, git would go on to a repository further up and answer for that one.
    return kept | NO_SIDE_EFFECTS | {"GIT_CEILING_DIRECTORIES": os.path.dirname(top)}


def _refusal(answer: subprocess.CompletedProcess[bytes]) -> Refusal:
    messages = _messages(answer)
    if any("dubious ownership" in line for line in messages):
        return Refusal(
            "another user owns the repository, so git does not trust it; "
            "`git config --global --add safe.directory PATH` says that you do"
        )
    fatal = next((line for line in messages if line.startswith(("fatal: ", "error: "))), None)
    return Refusal(f"git failed: {fatal or f'exit code {answer.returncode}'}".rstrip("."))


def _messages(answer: subprocess.CompletedProcess[bytes]) -> list[str]:
    return [line for line in answer.stderr.decode("utf-8", "backslashreplace").splitlines() if line]


def _parse_entry(record: str) -> TreeEntry:
    # "? path" or "H mode object stage<tab>path", see git-ls-files(1).
    if record.startswith("? "):
        path = record[2:]
        return TreeEntry(path.rstrip("/"), tracked=False, repository=path.endswith("/"))
    description, _, path = record.partition("\t")
    return TreeEntry(path, tracked=True, repository=description[2:].startswith(GITLINK))


def _split(output: bytes) -> list[str]:
    return os.fsdecode(output).split("\0")[:-1]


def _join(paths: Sequence[str]) -> bytes:
    return b"".join(os.fsencode(f"{HERE}{path}\0") for path in paths)
