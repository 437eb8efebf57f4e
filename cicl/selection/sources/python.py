"""Python files: modules, classes, functions and methods with exact spans.

Statements are walked, without recursion; expressions are not. What a unit refers to is read from its
lines by pattern, which costs a tenth of a walk over every expression, and only names that the file
imports or defines are kept.
"""

import ast
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from cicl.selection.records import Span, UnitKind
from cicl.selection.sources.facts import Import, Mark, UnitFacts
from cicl.selection.sources.marks import marks_in_docstring, replacement_in
from cicl.selection.sources.names import MODULE, is_test_path
from cicl.text import replace_surrogates

__all__ = ["PARSE_ERRORS", "PythonFacts", "extract_python"]

PARSE_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What `ast.parse` raises on files that people really have; `ValueError` covers bad encodings."""

MAX_TITLE_CHARS = 200
MAX_REFERENCES = 200
"""A unit that names more than this is a registry; its later names say little."""

_DOTTED = re.compile(r"\.?[A-Za-z_][\w.]*")
"""A name with its attributes; one that follows a dot belongs to an expression that has no name."""
_SUPER_CALL = re.compile(r"\bsuper\([^()\n]*\)\.")
_HEADER_TOKEN = re.compile(
    r"'''.*?'''|\"\"\".*?\"\"\"|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|#[^\n]*|[()\[\]{}:]", re.DOTALL
)
_DEPRECATION = re.compile(
    r"deprecated?$|(Pending)?DeprecationWarning$|RemovedIn\w*Warning$|\w*DeprecationWarning$"
)
_MAY_MARK = re.compile("deprecat|obsolet|supersed|replac", re.IGNORECASE)
_CALLED_ATTRIBUTE = re.compile(r"[\w)\]]\.([A-Za-z_]\w*)\(")

_LEAVES = (ast.Expr, ast.Assign, ast.Return, ast.AugAssign, ast.AnnAssign, ast.Raise, ast.Assert, ast.Pass)
"""The commonest statements that hold no other."""

_SELVES = frozenset({"self", "cls", "super"})

_IMPORTS = (ast.Import, ast.ImportFrom)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class PythonFacts:
    """What a Python file says by itself."""

    units: tuple[UnitFacts, ...]
    """By first line; `<module>` comes first, and only where the file has lines of its own."""
    imports: tuple[Import, ...]


@dataclass(slots=True)
class _Open:
    """A definition while its file is being read."""

    node: _Definition
    name: str
    parent: "_Open | None"
    span: Span
    inner: list[Span] = field(default_factory=list)
    defines: list[str] = field(default_factory=list)


def extract_python(path: str, text: str, lines: Sequence[str]) -> PythonFacts:
    """Return the symbols and imports of a file whose text is `text`, split into `lines`.

    Raises one of `PARSE_ERRORS` where Python itself cannot read it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text)
    opened, imports, outline = _walk(tree, lines)
    known = _known_names(opened, imports)
    in_tests = is_test_path(path)
    units = [_symbol(item, lines, known, in_tests) for item in opened]
    module = _module(tree, outline, lines, known, in_tests)
    if module is not None:
        units.insert(0, module)
    units.sort(key=lambda unit: (unit.span.start, -unit.span.end, unit.name))
    return PythonFacts(units=tuple(units), imports=tuple(imports))


@dataclass(slots=True)
class _Outline:
    """The module's own part: where definitions lie and what is assigned between them."""

    inner: list[Span] = field(default_factory=list)
    defines: list[str] = field(default_factory=list)


def _walk(tree: ast.Module, lines: Sequence[str]) -> tuple[list[_Open], list[Import], _Outline]:
    opened: list[_Open] = []
    imports: list[Import] = []
    outline = _Outline()
    used: dict[str, int] = {}
    stack: list[tuple[ast.stmt, _Open | None, bool]] = [(node, None, False) for node in reversed(tree.body)]
    while stack:
        node, parent, in_function = stack.pop()
        if isinstance(node, _LEAVES):
            if not in_function:
                (parent.defines if parent else outline.defines).extend(_assigned(node))
            continue
        if isinstance(node, _IMPORTS):
            imports.extend(_imports(node))
            continue
        if not in_function and isinstance(node, _DEFINITIONS):
            name = _unique(f"{parent.name}.{node.name}" if parent else node.name, used)
            item = _Open(node, name, parent, _span(node, lines))
            opened.append(item)
            (parent.inner if parent else outline.inner).append(item.span)
            parent, in_function = item, not isinstance(node, ast.ClassDef)
        inner = [(child, parent, in_function) for child in _statements(node)]
        stack.extend(reversed(inner))
    return opened, imports, outline


def _span(node: _Definition, lines: Sequence[str]) -> Span:
    first = min((item.lineno for item in node.decorator_list), default=node.lineno)
    while node.decorator_list and first > 1 and not lines[first - 1].lstrip().startswith("@"):
        first -= 1  # a decorator in brackets begins on a later line than its sign
    return Span(first, node.end_lineno or node.lineno)


def _unique(name: str, used: dict[str, int]) -> str:
    """A property and its setter share a name; ids may not."""
    used[name] = used.get(name, 0) + 1
    return name if used[name] == 1 else f"{name}#{used[name]}"


def _statements(node: ast.stmt) -> Iterator[ast.stmt]:
    yield from getattr(node, "body", ())
    for block in ("handlers", "cases"):
        for clause in getattr(node, block, ()):
            yield from clause.body
    for block in ("orelse", "finalbody"):
        yield from getattr(node, block, ())


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for item in node.names:
            bound = item.asname or item.name.partition(".")[0]
            yield Import(item.name, "", bound if item.asname else item.name, node.lineno)
        return
    module = "." * node.level + (node.module or "")
    for item in node.names:
        yield Import(module, item.name, "" if item.name == "*" else item.asname or item.name, node.lineno)


def _assigned(node: ast.stmt) -> Iterator[str]:
    targets: Iterable[ast.expr] = ()
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        targets = (node.target,)
    for target in targets:
        for item in target.elts if isinstance(target, ast.Tuple | ast.List) else (target,):
            if isinstance(item, ast.Name):
                yield item.id


def _known_names(opened: Iterable[_Open], imports: Iterable[Import]) -> frozenset[str]:
    names = {item.alias.partition(".")[0] for item in imports if item.alias}
    names.update(item.node.name for item in opened if item.parent is None)
    return frozenset(names | _SELVES)


def _symbol(item: _Open, lines: Sequence[str], known: frozenset[str], in_tests: bool) -> UnitFacts:
    node, span = item.node, item.span
    docstring = _docstring_span(node)
    own = _subtract(span, item.inner)
    code = _subtract(span, [*item.inner, *docstring])
    is_class = isinstance(node, ast.ClassDef)
    kind: UnitKind = "test" if in_tests else "symbol"
    role = "class" if is_class else "method" if item.parent else "function"
    return UnitFacts(
        name=item.name,
        kind=kind,
        role=role,
        span=span,
        own=own if item.inner else (),
        doc=docstring,
        title=_signature(node, lines),
        summary=_summary(node),
        marks=_marks(node, lines, docstring),
        bases=_dotted_all(node.bases) if isinstance(node, ast.ClassDef) else (),
        decorators=_dotted_all(node.decorator_list),
        defines=tuple(dict.fromkeys(item.defines)),
        references=_references(lines, code, known, node.name),
        parameters=() if isinstance(node, ast.ClassDef) else _parameters(node),
    )


def _module(
    tree: ast.Module, outline: _Outline, lines: Sequence[str], known: frozenset[str], in_tests: bool
) -> UnitFacts | None:
    whole = Span(1, max(1, len(lines)))
    own = _subtract(whole, outline.inner)
    if not any(line.strip() for span in own for line in lines[span.start - 1 : span.end]):
        return None
    docstring = _docstring_span(tree)
    return UnitFacts(
        name=MODULE,
        kind="test" if in_tests else "symbol",
        role="module",
        span=whole,
        own=own if outline.inner else (),
        doc=docstring,
        summary=_summary(tree),
        marks=_docstring_marks(lines, docstring),
        defines=tuple(dict.fromkeys(outline.defines)),
        references=_references(lines, _subtract(whole, [*outline.inner, *docstring]), known, ""),
    )


def _docstring_span(node: ast.Module | _Definition) -> tuple[Span, ...]:
    if not node.body or not isinstance(node.body[0], ast.Expr):
        return ()
    value = node.body[0].value
    if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
        return ()
    return (Span(value.lineno, value.end_lineno or value.lineno),)


def _subtract(span: Span, inner: Sequence[Span]) -> tuple[Span, ...]:
    rest: list[Span] = []
    start = span.start
    for hole in sorted(inner):
        if hole.start > start:
            rest.append(Span(start, hole.start - 1))
        start = max(start, hole.end + 1)
    if start <= span.end:
        rest.append(Span(start, span.end))
    return tuple(rest)


def _take(lines: Sequence[str], spans: Iterable[Span]) -> list[str]:
    return [line for span in spans for line in lines[span.start - 1 : span.end]]


def _signature(node: _Definition, lines: Sequence[str]) -> str:
    last = min(node.body[0].lineno, node.lineno + 11)
    header = "".join(_header("\n".join(lines[node.lineno - 1 : last])))
    return " ".join(header.split()).replace("( ", "(").replace(", )", ")")[:MAX_TITLE_CHARS]


def _header(text: str) -> Iterator[str]:
    """Yield the parts of a header without its comments; its colon is the first one outside brackets."""
    depth, start = 0, 0
    for token in _HEADER_TOKEN.finditer(text):
        if token[0] in "([{":
            depth += 1
        elif token[0] in ")]}":
            depth -= 1
        elif token[0][0] == "#":
            yield text[start : token.start()]
            start = token.end()
        elif token[0] == ":" and depth <= 0:
            yield text[start : token.start()]
            return
    yield text[start:]


def _summary(node: ast.Module | _Definition) -> str:
    docstring = ast.get_docstring(node, clean=False) or ""
    paragraph = docstring.strip().partition("\n\n")[0]
    sentence = " ".join(paragraph.split()).partition(". ")[0]
    return replace_surrogates(sentence[:MAX_TITLE_CHARS].rstrip("."))


def _marks(node: _Definition, lines: Sequence[str], docstring: tuple[Span, ...]) -> tuple[Mark, ...]:
    marks = list(_docstring_marks(lines, docstring))
    for decorator in node.decorator_list:
        name = _dotted(decorator)
        if _says_deprecated(name.rpartition(".")[2]):
            message = _first_text(decorator)
            marks.append(Mark("stale", decorator.lineno, message or f"@{name}", replacement_in(message)))
    for statement in node.body[:4]:
        warning = _warning_message(statement)
        if warning is not None:
            marks.append(Mark("stale", statement.lineno, warning, replacement_in(warning)))
    return tuple(marks)


def _warning_message(statement: ast.stmt) -> str | None:
    """The text of an unconditional ``warnings.warn("...", SomeDeprecationWarning)``."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    call = statement.value
    if _dotted(call.func).rpartition(".")[2] != "warn":
        return None
    given = [*call.args[1:], *(item.value for item in call.keywords)]
    if not any(_says_deprecated(_dotted(item).rpartition(".")[2]) for item in given):
        return None
    return _first_text(call) or "warns that it is deprecated"


def _docstring_marks(lines: Sequence[str], docstring: tuple[Span, ...]) -> tuple[Mark, ...]:
    if not docstring:
        return ()
    text = _take(lines, docstring)
    # Most docstrings hold none of these words; reading them closely took a tenth of the time.
    return marks_in_docstring(text, docstring[0].start) if _MAY_MARK.search("\n".join(text)) else ()


def _says_deprecated(name: str) -> bool:
    return _DEPRECATION.match(name) is not None


def _first_text(node: ast.expr) -> str:
    if not isinstance(node, ast.Call) or not node.args:
        return ""
    parts = [
        item.value
        for item in ast.walk(node.args[0])
        if isinstance(item, ast.Constant) and isinstance(item.value, str)
    ]
    return replace_surrogates(" ".join(" ".join(parts).split())[:MAX_TITLE_CHARS])


def _dotted_all(nodes: Iterable[ast.expr]) -> tuple[str, ...]:
    return tuple(name for name in (_dotted(node) for node in nodes) if name)


def _dotted(node: ast.expr) -> str:
    """`a.b.c` of an attribute chain, a call or a subscript on one; empty for other expressions."""
    parts: list[str] = []
    while True:
        if isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Name):
            return ".".join([node.id, *reversed(parts)])
        else:
            return ""


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[str, ...]:
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return tuple(item.arg for item in named if item.arg not in ("self", "cls"))


def _references(
    lines: Sequence[str], spans: Iterable[Span], known: frozenset[str], own_name: str
) -> tuple[str, ...]:
    text = "\n".join(_take(lines, spans))
    for keyword in ("def", "class") if own_name else ():
        text = text.replace(f"{keyword} {own_name}", keyword, 1)
    if "super(" in text:
        text = _SUPER_CALL.sub("super.", text)
    found: dict[str, None] = {}
    for name in dict.fromkeys(_DOTTED.findall(text)):
        written = name.rstrip(".")
        if written.partition(".")[0] in known and written not in _SELVES:
            found[written] = None
    for name in dict.fromkeys(_CALLED_ATTRIBUTE.findall(text)):
        found["." + name] = None
    return tuple(found)[:MAX_REFERENCES]
