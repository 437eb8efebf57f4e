"""What is known of an instance: for `cicl index` and `cicl status`."""

import contextlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cicl.config import state_folder
from cicl.flows.indexing import count_stale
from cicl.flows.instance import TreeInstance
from cicl.selection.records import Skipped
from cicl.storage.store import Store

__all__ = ["Status", "inspect"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The state of one instance."""

    root: Path
    folder: Path
    """Where its state is kept."""
    state_bytes: int
    files: int
    parts: int
    stale: int
    """Files that the next select has to read."""
    receipts: int
    outcomes: int
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...]

    def to_data(self) -> dict[str, Any]:
        """Return values that JSON can hold."""
        data = asdict(self)
        del data["skipped"]
        paths = {"root": str(self.root), "folder": str(self.folder)}
        return {**data, **paths, "skipped_files": [item._asdict() for item in self.skipped]}


def inspect(tree: TreeInstance) -> Status:
    """Return the status of an instance, after the store has taken in its journal.

    Nothing is indexed: what stands in the snapshot is counted, and what it lacks. Raises `StoreError` when
    the store cannot be opened.
    """
    survey = count_stale(tree.repository.root, tree.snapshots, tree.limits, tree.settings.submodules)
    with Store.open(state_folder() / "store.sqlite3") as store:
        store.absorb(tree.journal)
        counts = store.counts(tree.repository.key)
    return Status(
        root=tree.repository.root,
        folder=tree.folder,
        state_bytes=_weigh(tree.folder),
        files=survey.files,
        parts=survey.parts,
        stale=survey.stale,
        receipts=counts.receipts,
        outcomes=counts.outcomes,
        skipped=survey.skipped,
        notes=survey.notes,
    )


def _weigh(folder: Path) -> int:
    """Return the bytes of all files; another process may take one away meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total
