"""Settings: where state is kept, and the options of a project.

A project may set options in `cicl.toml` or in `[tool.cicl]` of `pyproject.toml`, at its root. Both are read
as data; no option can make cicl run anything.
"""

import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cicl.errors import ConfigurationError
from cicl.tokens import DEFAULT_ENCODING

__all__ = ["DEFAULT_BUDGET", "DEFAULT_ENCODING", "Settings", "load_settings", "state_folder"]

DEFAULT_BUDGET = 4000

HOME_VARIABLE = "CICL_HOME"
"""Environment variable that moves the state folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Options of a project."""

    budget: int = DEFAULT_BUDGET
    """Tokens; 0 or more."""
    encoding: str = DEFAULT_ENCODING
    judge: str = "proxy"
    """The name of an installed judge; from a project's file never a `package.module:Class`."""
    retrieval: str = "fielded"
    """`fielded` or `rank-bm25`."""
    submodules: bool = True
    """Whether repositories inside the repository are read."""
    max_file_bytes: int = 1_500_000
    max_line_chars: int = 5_000


def state_folder() -> Path:
    """Return the folder that holds all state: `CICL_HOME`, or the platform's folder for user data.

    Raises `ConfigurationError` for a `CICL_HOME` that begins with the home of a user who does not exist.
    """
    home = os.environ.get(HOME_VARIABLE)
    if home:
        try:
            return Path(home).expanduser()
        except RuntimeError as error:
            raise ConfigurationError(f"{HOME_VARIABLE} is {home!r}: {error}; give a whole path") from error
    from platformdirs import user_data_path

    return user_data_path("cicl", appauthor=False)


def load_settings(root: Path) -> Settings:
    """Return the options of the project at `root`; defaults where there are none.

    A link is not followed: it could lead out of the project. Raises `ConfigurationError` for a file that
    cannot be read or is no TOML, an unknown option and a value that cannot be used.
    """
    for name, path in (("cicl.toml", ()), ("pyproject.toml", ("tool", "cicl"))):
        file = root / name
        if file.is_file() and not file.is_symlink():
            table = _read_table(file, path)
            if table is not None:
                return _validate(table, file)
    return Settings()


_TABLE = re.compile(rb"^\s*\[\s*tool\s*\.\s*([\"']?)cicl\1\s*\]", re.MULTILINE)


def _read_table(file: Path, path: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the table at `path`; None where the file has none, or is wrong in what is not ours."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from error
    if path and path[-1].encode() not in data:
        return None  # most projects: not worth importing a parser
    import tomllib

    try:
        table: Any = tomllib.loads(data.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        if path and not _TABLE.search(data):
            return None
        raise ConfigurationError(f"{file} cannot be read as TOML: {error}") from error
    for key in path:
        if not isinstance(table, dict) or key not in table:
            return None
        table = table[key]
    if not isinstance(table, dict):
        raise ConfigurationError(f"{file}: {'.'.join(path)} must be a table of options")
    return table


_KINDS = {bool: "true or false", int: "a whole number", str: "text"}


def _validate(table: dict[str, Any], file: Path) -> Settings:
    known = asdict(Settings())
    for name, value in table.items():
        if name not in known:
            raise ConfigurationError(f"{file}: unknown option {name!r}; known are {', '.join(known)}")
        kind = type(known[name])
        if type(value) is not kind:
            raise ConfigurationError(f"{file}: option {name!r} is {value!r}; it must be {_KINDS[kind]}")
        if isinstance(value, int) and value < 0:
            raise ConfigurationError(f"{file}: option {name!r} is {value}; it must be 0 or more")
    settings = Settings(**table)
    if ":" in settings.judge:  # it would import, and so run, what a cloned project names
        raise ConfigurationError(f"{file}: option 'judge' names code; give that by --judge {settings.judge}")
    return settings
