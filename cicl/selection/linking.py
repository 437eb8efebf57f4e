"""Linking: from names as written in one file to the units they mean in another.

Nothing is resolved ahead of time. A name is looked up in the corpus when somebody asks, so a changed file
costs that file, and what is resolved is the same whether the corpus was built at once or piece by piece.
"""

import sys
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import PurePosixPath
from typing import NamedTuple

from cicl.selection.corpus import Corpus
from cicl.selection.sources.facts import FileFacts, UnitFacts
from cicl.selection.sources.names import MODULE, link_key, module_key, module_parts, relative_place

__all__ = ["Linker", "Target"]

MAX_HOPS = 20
"""Re-exports and base classes are followed this far; longer chains are accidents."""
MAX_SAME_NAME = 3
"""A method name defined more often than this does not say whose method is called."""

CERTAIN = 1.0
THROUGH_REEXPORT = 0.9
THROUGH_BASE = 0.8
BY_NAME_ONLY = 0.4
"""Divided by the number of definitions of that name."""


class Target(NamedTuple):
    """What a name means: a file (`part` is None) or a part of it, and how sure that is."""

    file: int
    part: int | None
    weight: float


class Linker:
    """Resolves names over a corpus, remembering what it has resolved."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self._modules: dict[tuple[str, str | None], int | None] = {}

    def find_module(self, name: str, file: int | None) -> int | None:
        """Return the file that `name`, absolute or relative to `file`, imports; None when it is not here.

        Without `file` the name is somebody's words, and may leave out the first packages.
        """
        folder = self.corpus.path(file).rpartition("/")[0] if file is not None else None
        key = (name, folder)
        if key not in self._modules:
            self._modules[key] = self._find_module(name, folder)
        return self._modules[key]

    def _find_module(self, name: str, folder: str | None) -> int | None:
        if name.startswith("."):
            return self._find_relative(name, folder)
        ranked = [
            (rank, row)
            for row in self.corpus.find_files(module_key("module", name))
            if (rank := self._rank(self.corpus.path(row), name, folder)) is not None
        ]
        return min(ranked)[1] if ranked else None

    def _find_relative(self, name: str, folder: str | None) -> int | None:
        place = relative_place(f"{folder}/_" if folder else "_", name) if folder is not None else None
        if place is None:
            return None
        paths = [f"{place}/__init__.py" if place else "__init__.py"]
        if name.strip("."):
            paths += [f"{place}.py", f"{place}.pyi"]
        return next((row for path in paths if (row := self.corpus.file_row(path)) is not None), None)

    def _rank(self, path: str, name: str, folder: str | None) -> tuple[bool, int, int, str] | None:
        """How strange it is that `name` means `path`; None where Python would not find it there.

        The folder that the name starts from is on the path of imports: near the importing file, not itself
        a package, and not one that hides the standard library from files elsewhere.
        """
        parts = module_parts(path)
        start = parts[: max(0, len(parts) - name.count(".") - 1)]
        if folder is None:
            return False, 0, len(start), path
        shared = _count_shared(start, folder.split("/"))
        packaged = self._is_package(start)
        if packaged and "." not in name:
            return None
        if name.partition(".")[0] in sys.stdlib_module_names and shared < len(start):
            return None
        return packaged, -shared, len(start), path

    def _is_package(self, parts: Sequence[str]) -> bool:
        folder = "/".join(parts)
        return bool(folder) and any(
            self.corpus.file_row(f"{folder}/__init__{suffix}") is not None for suffix in (".py", ".pyi")
        )

    def imported_files(self, file: int) -> list[Target]:
        """Return the files that a file imports, through re-exports to where the name is defined."""
        facts = self.corpus.facts(file)
        found: dict[int, float] = {}
        for item in facts.imports:
            module = self.find_module(item.module, file)
            inner = (
                self.find_module(_join(item.module, item.name), file) if item.name not in ("", "*") else None
            )
            if inner is not None:
                found[inner] = CERTAIN
                continue
            if module is None:
                continue
            found.setdefault(module, CERTAIN)
            for target in self._find_in_file(item.name, module) if item.name not in ("", "*") else ():
                if target.file != module:
                    found[target.file] = max(found.get(target.file, 0.0), THROUGH_REEXPORT)
        found.pop(file, None)
        return [Target(row, None, weight) for row, weight in found.items()]

    def resolve(self, file: int, unit: UnitFacts, name: str) -> list[Target]:
        """Return what `name`, as written inside `unit` of `file`, means; empty when it is not here."""
        head, _, rest = name.partition(".")
        if not head:
            return self._by_name_only(rest, file)
        if head in ("self", "cls", "super"):
            owner = unit.name.rpartition(".")[0] if unit.role == "method" else unit.name
            member = rest.partition(".")[0]
            return self._find_member(file, owner, member, inherited=head == "super") if member else []
        return self.find_dotted(name, file)

    def find_dotted(self, name: str, file: int) -> list[Target]:
        """Return what a dotted name means at the top level of `file`."""
        facts = self.corpus.facts(file)
        head, _, rest = name.partition(".")
        for item in facts.imports:
            if not item.name and item.alias.partition(".")[0] == head:  # ``import a.b`` binds ``a``
                whole = name if item.alias == item.module else item.module + name[len(item.alias) :]
                return self.find_qualified(whole, file)
        return self._descend(self._find_in_file(head, file), rest)

    def find_qualified(self, name: str, file: int | None = None) -> list[Target]:
        """Return what an absolute dotted name means: the longest module that is here, then its members.

        `file` is where it is imported; without it see `find_module`.
        """
        parts = name.split(".")
        for end in range(len(parts), 0, -1):
            module = self.find_module(".".join(parts[:end]), file) if parts[0] else None
            if module is not None:
                if end == len(parts):
                    return [Target(module, None, CERTAIN)]
                found = self._find_in_file(parts[end], module)
                return self._descend(found, ".".join(parts[end + 1 :])) if found else []
        return []

    def _descend(self, targets: Iterable[Target], rest: str) -> list[Target]:
        """Follow the attributes `rest` from what the first name meant."""
        result = list(targets)
        for name in rest.split(".") if rest else ():
            members: list[Target] = []
            for target in result:
                members.extend(self._members(target, name))
            if not members:
                return result
            result = members
        return result

    def _members(self, target: Target, name: str) -> list[Target]:
        if target.part is None:
            return [
                item._replace(weight=item.weight * target.weight)
                for item in self._find_in_file(name, target.file)
            ]
        owner = self.corpus.part_facts(target.part)
        if owner.role != "class":
            return []
        found = self._find_member(target.file, owner.name, name)
        return [item._replace(weight=item.weight * target.weight) for item in found]

    def _find_in_file(
        self, name: str, file: int, seen: set[tuple[str, int]] | None = None, hops: int = 0
    ) -> list[Target]:
        """Return what a top-level `name` of a file means, through its imports.

        `seen` holds the names and files already looked at: imports may form a circle.
        """
        facts = self.corpus.facts(file)
        place = _top_level(facts, name)
        if place is not None:
            return [Target(file, self.corpus.parts_of(file)[place], CERTAIN)]
        seen = set() if seen is None else seen
        if hops >= MAX_HOPS or (name, file) in seen:
            return []
        seen.add((name, file))
        imported = [(item.module, item.name) for item in facts.imports if item.name and item.alias == name]
        starred = [(item.module, name) for item in facts.imports if item.name == "*"]
        for module, original in (*imported, *starred):
            if found := self._follow(module, original, file, seen, hops):
                return found
        return []

    def _follow(
        self, module: str, name: str, file: int, seen: set[tuple[str, int]], hops: int
    ) -> list[Target]:
        """Return what ``from module import name`` brings: what the module defines, or a module inside it."""
        target = self.find_module(module, file)
        if target is not None and target != file:
            found = self._find_in_file(name, target, seen, hops + 1)
            if found and hops:
                return [item._replace(weight=min(item.weight, THROUGH_REEXPORT)) for item in found]
            if found:
                return found
        inner = self.find_module(_join(module, name), file)
        return [Target(inner, None, CERTAIN)] if inner is not None and inner != file else []

    def _find_member(
        self,
        file: int,
        owner: str,
        name: str,
        seen: set[tuple[str, int]] | None = None,
        hops: int = 0,
        inherited: bool = False,
    ) -> list[Target]:
        """Return the method or attribute `name` of the class `owner`, through its bases.

        With `inherited`, of its bases only.
        """
        seen = set() if seen is None else seen
        if hops >= MAX_HOPS or (owner, file) in seen:
            return []
        seen.add((owner, file))
        wanted = f"{owner}.{name}"
        bases: tuple[str, ...] = ()
        for place, unit in enumerate(self.corpus.facts(file).units):
            if not inherited and (unit.name == wanted or (unit.name == owner and name in unit.defines)):
                return [Target(file, self.corpus.parts_of(file)[place], CERTAIN)]
            if unit.name == owner:
                bases = unit.bases
        for base in bases:
            for target in self.find_dotted(base, file):
                if target.part is None:
                    continue
                above = self.corpus.part_facts(target.part).name
                if found := self._find_member(target.file, above, name, seen, hops + 1):
                    return [item._replace(weight=min(item.weight, THROUGH_BASE)) for item in found]
        return []

    def _by_name_only(self, name: str, file: int) -> list[Target]:
        parts = self.corpus.find_parts(link_key("define", name))
        if not 0 < len(parts) <= MAX_SAME_NAME:
            return []
        return [Target(self.corpus.file_of(part), part, BY_NAME_ONLY / len(parts)) for part in parts]

    def find_fixture(self, name: str, file: int) -> Target | None:
        """Return the pytest fixture `name` as `file` sees it: its own, or one of a `conftest.py` above."""
        folder = PurePosixPath(self.corpus.path(file)).parent
        homes = [file] + [
            row
            for parent in (folder, *folder.parents)
            if (row := self.corpus.file_row(str(parent / "conftest.py"))) is not None
        ]
        for home in homes:
            for place, unit in enumerate(self.corpus.facts(home).units):
                if unit.name == name and any("fixture" in item for item in unit.decorators):
                    return Target(home, self.corpus.parts_of(home)[place], CERTAIN)
        return None


def _count_shared(one: Sequence[str], other: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _join(module: str, name: str) -> str:
    return module + name if not module or module.endswith(".") else f"{module}.{name}"


def _top_level(facts: FileFacts, name: str) -> int | None:
    module = None
    for place, unit in enumerate(facts.units):
        if unit.name == name:
            return place
        if unit.name == MODULE and name in unit.defines:
            module = place
    return module
