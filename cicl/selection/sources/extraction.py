"""The one door from a file's bytes to its facts, its terms and its links.

A further language is one extractor and one line in `extract_units`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from cicl.selection.sources.decoding import split_lines
from cicl.selection.sources.documents import extract_document
from cicl.selection.sources.facts import OF_FILE, Extraction, FileFacts, Import, Link, UnitFacts
from cicl.selection.sources.generated import generated_mark
from cicl.selection.sources.instructions import extract_instructions
from cicl.selection.sources.names import (
    MODULE,
    absolute_module,
    link_key,
    local_name,
    module_key,
    module_names,
    referred_names,
    written_names,
)
from cicl.selection.sources.python import PARSE_ERRORS, extract_python

__all__ = ["extract", "extract_units"]

PYTHON_SUFFIXES = frozenset({".py", ".pyi", ".pyw"})


def extract(path: str, text: str, digest: str) -> Extraction:
    """Return what the file `path`, whose decoded text has lines ended by a line feed, contributes."""
    facts = extract_units(path, text, split_lines(text), digest)
    return Extraction(facts, text, tuple(dict.fromkeys(_links(facts))))


def extract_units(path: str, text: str, lines: Sequence[str], digest: str) -> FileFacts:
    """Return the facts of one file; a Python file that does not parse is read as lines, with its problem."""
    language, imports, problem = "document", tuple[Import, ...](), ""
    units = extract_instructions(path, text)
    if units is not None:
        language = "instructions"
    elif PurePosixPath(path).suffix in PYTHON_SUFFIXES:
        try:
            python = extract_python(path, text, lines)
            language, units, imports = "python", python.units, python.imports
        except PARSE_ERRORS as error:
            problem = (
                f"read as plain lines: Python cannot parse it ({type(error).__name__}: {_first_line(error)})"
            )
    if units is None:
        units = extract_document(path, text)
    mark = generated_mark(lines)
    return FileFacts(
        path=path,
        digest=digest,
        language=language,
        lines=len(lines),
        units=units,
        imports=imports,
        marks=(mark,) if mark else (),
        problem=problem,
    )


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0][:120]


def _links(facts: FileFacts) -> Iterable[Link]:
    if facts.language == "python":
        for name in module_names(facts.path):
            yield link_key("module", name), OF_FILE
        for name in _imported(facts):
            yield module_key("import", name), OF_FILE
    for originals in facts.aliases.values():
        for original in originals:
            yield link_key("alias", original), OF_FILE
    yield link_key("file", PurePosixPath(facts.path).name), OF_FILE
    aliases = facts.aliases
    for place, unit in enumerate(facts.units):
        for kind, names in (
            ("define", _defined(unit)),
            ("refer", _referred(unit, aliases)),
            ("state", _stated(unit)),
        ):
            for name in names:
                yield link_key(kind, name), place


def _imported(facts: FileFacts) -> Iterable[str]:
    names: dict[str, None] = {}
    for item in facts.imports:
        module = absolute_module(facts.path, item.module)
        names[module] = None
        if item.name and item.name != "*":
            names[f"{module}.{item.name}" if module else item.name] = None
    return tuple(names)


def _defined(unit: UnitFacts) -> Iterable[str]:
    if unit.kind in ("symbol", "test"):
        if unit.name != MODULE:
            yield local_name(unit.name)
        yield from unit.defines


def _referred(unit: UnitFacts, aliases: Mapping[str, Collection[str]]) -> Iterable[str]:
    names: dict[str, None] = {}
    for written in (*unit.references, *unit.bases, *unit.decorators):
        for name in referred_names(written, aliases):
            names[name] = None
    if unit.kind == "test":
        names.update(dict.fromkeys(unit.parameters))
    return names


def _stated(unit: UnitFacts) -> Iterable[str]:
    if not (unit.marks or unit.requires or unit.supersedes):
        return ()
    written = [*unit.requires, *unit.supersedes, *(mark.replacement for mark in unit.marks)]
    return tuple(dict.fromkeys(name for item in written for name in written_names(item)))
