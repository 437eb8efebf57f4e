"""Engine: the library's front, one thin verb over each flow."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from cicl.config import Settings, load_settings
from cicl.errors import ConfigurationError, StoreError
from cicl.flows.instance import Instance, TreeInstance, open_graph
from cicl.flows.selecting import SelectOptions, select
from cicl.selection.graph import InstanceGraph
from cicl.selection.judging import Judge, load_judge
from cicl.selection.records import ContextPack, Receipt, Task
from cicl.selection.retrieval import Backend
from cicl.selection.sources.repository import find_root, identify
from cicl.text import replace_surrogates

if TYPE_CHECKING:
    import networkx as nx

    from cicl.flows.indexing import Indexed, Progress
    from cicl.flows.inspecting import Status

__all__ = ["Engine", "open"]

BACKENDS: tuple[Backend, ...] = ("fielded", "rank-bm25")


class Engine:
    """Chooses what a coding agent reads, in one instance.

    Made by `cicl.open`. An engine may live as long as its host; each call sees the tree as it then is, and
    pays for what changed. It may be used from one thread at a time.
    """

    def __init__(self, tree: TreeInstance | None, graph: InstanceGraph | None, settings: Settings) -> None:
        self._tree = tree
        self._graph = graph
        self.settings = settings

    @property
    def root(self) -> Path | None:
        """The directory, None for a graph built by hand."""
        return self._tree.repository.root if self._tree is not None else None

    @property
    def instance_id(self) -> str:
        """What receipts are filed under; empty for a graph built by hand that was given none."""
        if self._tree is not None:
            return self._tree.repository.key
        return self._by_hand.graph.instance_id

    @property
    def instance(self) -> Instance:
        """The instance as it is now; the same object while nothing changes."""
        if self._tree is not None:
            return self._tree.refresh(_backend(self.settings.retrieval))
        return self._by_hand

    @cached_property
    def _by_hand(self) -> Instance:
        assert self._graph is not None
        return open_graph(self._graph, _backend(self.settings.retrieval))

    @property
    def graph(self) -> "nx.MultiDiGraph[str]":
        """All units and edges as a frozen networkx graph.

        Every edge is worked out, which takes seconds on a large tree; `engine.instance.graph` answers for
        one unit at a time.
        """
        return self.instance.graph.to_networkx()

    def select(
        self,
        task: str | Task,
        *,
        budget: int | None = None,
        encoding: str | None = None,
        judge: str | Judge | None = None,
        open_files: Iterable[str] = (),
        session: str | None = None,
        rounds: int = 1,
    ) -> ContextPack:
        """Choose what the agent reads next, and leave a receipt.

        `budget` is in tokens of `encoding`. With `session`, what that session was given before and has not
        changed is not sent again. A past that cannot be read and a receipt that cannot be kept are said in
        the pack's notes. Raises `ConfigurationError` for a negative budget or an unknown encoding,
        `JudgeError` for a judge that cannot be used.
        """
        budget = self.settings.budget if budget is None else budget
        if budget < 0:
            raise ConfigurationError(f"the budget is {budget} tokens; it must be 0 or more")
        if rounds < 1:
            raise ConfigurationError(f"rounds is {rounds}; the judge is asked at least once")
        task = self._task(task, open_files)
        judge = load_judge(judge or self.settings.judge)
        instance = self.instance
        delivered, notes = self._delivered(session)
        options = SelectOptions(
            budget=budget, encoding=encoding or self.settings.encoding, rounds=rounds, delivered=delivered
        )
        pack = select(instance, task, judge, options)
        return self._file(replace(pack, notes=(*pack.notes, *notes)), session)

    def record(self, receipt: str, *, actions: Sequence[str], outcome: str) -> None:
        """Record what the agent did with a pack, and how it ended.

        An action names files by their path from the root or by the whole path.
        Becomes a `trace` unit, and a `strategy` unit when the outcome is a success, with `remembers` edges to
        what was acted on; the next `select` can choose them. Raises `ReceiptNotFound` for a receipt that was
        not given here, `ConfigurationError` for an outcome or action that is no text, `StoreError` when the
        journal cannot be written.
        """
        tree = self._require_tree()
        actions = [actions] if isinstance(actions, str) else list(actions)
        if not isinstance(outcome, str) or not outcome.strip():
            raise ConfigurationError(
                f"the outcome is {outcome!r}; say `solved`, `failed`, or a word of your own"
            )
        if not all(isinstance(item, str) for item in actions):
            raise ConfigurationError(
                "an action is no text; give what the agent did, in words, one item a step"
            )
        home = os.path.join(tree.repository.root, "")
        tree.journal.append_outcome(receipt, [item.replace(home, "") for item in actions], outcome, _now())

    def index(self) -> "Indexed":
        """Read what changed now, so that the next `select` is quick. Raises `StoreError` without a tree."""
        return self._require_tree().index()

    def status(self) -> "Status":
        """Return what is indexed, skipped and recorded; the store takes in the journal first."""
        from cicl.flows.inspecting import inspect

        return inspect(self._require_tree())

    def _require_tree(self) -> TreeInstance:
        if self._tree is None:
            raise StoreError("a graph built by hand has no state on disk; open a directory instead")
        return self._tree

    def _task(self, task: str | Task, open_files: Iterable[str]) -> Task:
        given = task if isinstance(task, Task) else Task(text=task)
        opened = dict.fromkeys(self._relative(path) for path in (*given.open_files, *open_files))
        return replace(given, text=replace_surrogates(given.text), open_files=tuple(opened))

    def _relative(self, path: str) -> str:
        """Paths may be given as the user sees them: relative to the root, or absolute."""
        if self.root is None:
            return path
        if os.path.isabs(path):
            path = os.path.relpath(os.path.realpath(path), self.root)
        return os.path.normpath(path).replace(os.sep, "/")

    def _delivered(self, session: str | None) -> tuple[Mapping[str, str], tuple[str, ...]]:
        """What a session was given before, by id, and what to say when that is not known."""
        if session is None:
            return {}, ()
        if self._tree is None:
            return {}, ("a graph built by hand has no sessions; name what was delivered in the task",)
        try:
            return self._tree.journal.delivered(session), ()
        except StoreError as error:
            return {}, (f"what this session was given before is not known: {error}",)

    def _file(self, pack: ContextPack, session: str | None) -> ContextPack:
        if self._tree is None:
            return pack
        receipt = Receipt(
            id=pack.receipt,
            instance_id=self.instance_id,
            session=session,
            task=pack.task.text,
            unit_ids=tuple(card.unit_id for card in pack.cards),
            tokens=pack.tokens,
            created_at=_now(),
        )
        digests = {item.unit.id: item.unit.digest for item in pack.candidates}
        self._tree.counters.save()
        try:
            self._tree.journal.append_receipt(receipt, digests)
        except StoreError as error:
            return replace(pack, notes=(*pack.notes, f"the receipt was not kept: {error}"))
        return pack


def open(
    where: str | os.PathLike[str] | InstanceGraph = ".",
    *,
    settings: Settings | None = None,
    progress: "Progress | None" = None,
) -> Engine:
    """Open a directory, or a graph built by hand.

    Git is used when it is there: the instance is the work tree that holds `where`. Nothing is read yet.
    `settings` default to the project's own. `progress` is called while many files are read. Raises
    `RepositoryError` for a path that is no readable directory, `ConfigurationError` for settings that cannot
    be used.
    """
    if isinstance(where, InstanceGraph):
        return Engine(None, where, settings or Settings())
    root = find_root(where)
    settings = settings or load_settings(root)
    return Engine(TreeInstance(identify(root), settings, progress), None, settings)


def _backend(name: str) -> Backend:
    for backend in BACKENDS:
        if backend == name:
            return backend
    raise ConfigurationError(f"retrieval {name!r} is unknown; there are {', '.join(BACKENDS)}")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
