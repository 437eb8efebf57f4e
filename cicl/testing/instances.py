"""Instances built from a dict of files, whose state never reaches the user's home."""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from cicl.config import HOME_VARIABLE, Settings, load_settings
from cicl.engine import Engine
from cicl.flows.instance import TreeInstance
from cicl.selection.sources.repository import identify

__all__ = ["build_instance", "isolated_state", "make_instance"]

_GIT_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "cicl",
    "GIT_AUTHOR_EMAIL": "cicl@example.invalid",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "cicl",
    "GIT_COMMITTER_EMAIL": "cicl@example.invalid",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}
"""The user's own configuration must not sign, hook or rename a commit that a test makes."""


@contextmanager
def make_instance(
    files: Mapping[str, str | bytes],
    *,
    git: bool = False,
    settings: Settings | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Iterator[Engine]:
    """Open an instance of the files given, by path relative to its root.

    Text is written as UTF-8, line ends as they are. With `git` the files are one commit; its id is the same
    on every machine. All is gone at the end, except where `folder` says where the tree is to stand. Until
    then state is kept beside the tree, also that of other engines and of child processes. Raises
    `ValueError` for a path that leaves the root.
    """
    with tempfile.TemporaryDirectory(prefix="cicl-", ignore_cleanup_errors=True) as scratch:
        root = Path(scratch, "tree") if folder is None else Path(folder)
        with isolated_state(Path(scratch, "state")):
            yield build_instance(root, files, git=git, settings=settings)


@contextmanager
def isolated_state(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Keep all state in `folder` while it lasts, for this process and its children."""
    before = os.environ.get(HOME_VARIABLE)
    os.environ[HOME_VARIABLE] = os.fspath(folder)
    try:
        yield Path(folder)
    finally:
        if before is None:
            os.environ.pop(HOME_VARIABLE, None)
        else:
            os.environ[HOME_VARIABLE] = before


def build_instance(
    root: Path, files: Mapping[str, str | bytes], *, git: bool = False, settings: Settings | None = None
) -> Engine:
    """Write the files and return an engine over them; raises `ValueError` for a path that leaves `root`."""
    root.mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        _write(root, path, content)
    if git:
        _commit(root)
    settings = settings or load_settings(root)
    # Not `cicl.open`: a temporary folder inside a work tree would be taken for a part of it.
    return Engine(TreeInstance(identify(root), settings), None, settings)


def _write(root: Path, path: str, content: str | bytes) -> None:
    parts = PurePosixPath(path).parts
    if not parts or ".." in parts or PurePosixPath(path).is_absolute():
        raise ValueError(f"{path!r} is no path inside the instance; give one relative to its root")
    target = root.joinpath(*parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content.encode() if isinstance(content, str) else content)


def _commit(root: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    commands = (
        ("init", "--quiet", "--initial-branch=main"),
        ("add", "--all", "--force"),
        ("commit", "--quiet", "--allow-empty", "--message=files"),
    )
    for command in commands:
        subprocess.run(
            ["git", "-c", "core.autocrlf=false", *command],
            cwd=root,
            env={**environment, **_GIT_ENVIRONMENT},
            check=True,
            capture_output=True,
        )
