"""Names: how files and units are called by the code and the people that refer to them."""

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import PurePosixPath

from cicl.text import term_key

__all__ = [
    "MODULE",
    "absolute_module",
    "is_test_path",
    "link_key",
    "local_name",
    "module_key",
    "module_names",
    "module_parts",
    "referred_names",
    "relative_place",
    "written_name",
    "written_names",
]

MODULE = "<module>"
"""Local name of the unit that holds a file's lines outside every class and function."""

MAX_MODULE_PARTS = 7
"""Deeper module paths are looked up by their last parts."""

_PARTING = re.compile(r"::|[./]")
_TEST_PATH = re.compile(r"(^|/)(tests?|testing)/|(^|/)(test_[^/]*|[^/]*_tests?|conftest|tests?)\.\w+$")


def is_test_path(path: str) -> bool:
    """Say whether test code lives at `path`: in a tests folder, `test_x.py`, `x_test.py`, `conftest.py`."""
    return _TEST_PATH.search(path) is not None


@lru_cache(maxsize=2**17)
def link_key(kind: str, name: str) -> int:
    """Return the key of `name` among links of one kind.

    Kinds: `module` and `import` (dotted names), `file` (base names), `alias` (names that an import binds to
    another), `define`, `refer` and `state` (simple names that a unit defines, uses, or requires or replaces),
    `band` (likeness).
    """
    return term_key(f"\0{kind}\0{name}")


def module_key(kind: str, name: str) -> int:
    """Return the key of a dotted module name, however deep."""
    return link_key(kind, ".".join(name.split(".")[-MAX_MODULE_PARTS:]))


def module_parts(path: str) -> tuple[str, ...]:
    """Return the names of the folders above a Python file and its own; only folders for an `__init__.py`."""
    parts = PurePosixPath(path).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def module_names(path: str) -> tuple[str, ...]:
    """Return the dotted names by which a Python file may be imported, the longest first."""
    parts = module_parts(path)[-MAX_MODULE_PARTS:]
    return tuple(".".join(parts[start:]) for start in range(len(parts)))


def relative_place(path: str, module: str) -> str | None:
    """Return the path, without suffix, of a relative `module` in the file `path`; None above the root."""
    bare = module.lstrip(".")
    folders = path.split("/")[:-1]
    depth = len(folders) - (len(module) - len(bare) - 1)
    return "/".join([*folders[:depth], *filter(None, bare.split("."))]) if depth >= 0 else None


def absolute_module(path: str, module: str) -> str:
    """Return `module` with its leading dots resolved against the package that holds the file `path`."""
    place = relative_place(path, module) if module.startswith(".") else None
    return module if place is None else place.replace("/", ".")


def local_name(name: str) -> str:
    """Return the own name of a symbol by the local part of its id: `x` of `Class.x#2`."""
    return name.rpartition(".")[2].partition("#")[0]


def referred_names(written: str, aliases: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Return the simple names through which a dotted name, as written in code, may reach a definition.

    `aliases` gives the originals of each name that the file's imports bind to another.
    """
    head, _, rest = written.partition(".")
    heads = (head, *aliases.get(head, ())) if head not in ("self", "cls", "super") else ()
    return tuple(name for name in (*heads, *rest.split(".")) if name)


def written_name(written: str) -> str:
    """Return a name in prose, of a path, a unit id or a definition, without the marks around it."""
    return written.strip("`'\"() ,").rstrip(".").removesuffix("()")


def written_names(written: str) -> tuple[str, ...]:
    """Return the simple names by which a name in prose may reach a unit: its parts, and a file's name."""
    name = written_name(written)
    file = name.rpartition("/")[2]
    return tuple(dict.fromkeys(part for part in (file, *_PARTING.split(name)) if part))
