"""Snapshots on disk: what was last known of a tree, and the segments that hold it.

A segment file is named after what it holds and in which format, and never changes; one small file names the
segments that count. Readers and writers of one instance need no lock: the last snapshot that was put in
place wins, and whatever it names is there.
"""

import contextlib
import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cicl import __version__
from cicl.selection.segments import Segment
from cicl.storage.arrays import read_arrays, write_arrays

__all__ = ["SnapshotFiles", "TreeState"]

FORMAT = f"3 {__version__}"
"""Facts of another version are not read: its extractors may have said something else."""
KEEP_SECONDS = 3600
"""Segments that no snapshot names any more are kept this long for readers that still open them."""


@dataclass(frozen=True, slots=True)
class TreeState:
    """What was known of a tree when it was last indexed."""

    paths: tuple[str, ...]
    stats: NDArray[np.int64]
    """Size, mtime and ctime in nanoseconds; shape (paths, 3)."""
    unreadable: Mapping[str, str]
    """Reason by path, of listed files that turned out not to be text."""
    segments: tuple[str, ...]
    """Names of the segments, oldest first."""
    indexed_at_ns: int
    """When the listing was taken: a file changed at that very time may have changed after it was read."""
    partly: Mapping[str, str]
    """Reason by path, of files that were read as plain lines."""
    limits: tuple[int, ...]
    """Under which files were refused: under others they may not be."""


class SnapshotFiles:
    """The snapshot of one instance in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._seen_whole: set[str] = set()

    def load(self) -> tuple[TreeState, list[Segment]] | None:
        """Return the last snapshot; None when there is none that this version can read."""
        found = read_arrays(self._head)
        if found is None or found[1].get("format") != FORMAT:
            return None
        arrays, meta = found
        try:
            segments = [self._read_segment(name) for name in meta["segments"]]
            text = arrays["paths"].tobytes().decode()
            paths = tuple(text.split("\0")) if text else ()
            state = TreeState(
                paths,
                arrays["stats"],
                meta["unreadable"],
                tuple(meta["segments"]),
                meta["indexed_at_ns"],
                meta["partly"],
                tuple(meta["limits"]),
            )
        except (KeyError, ValueError, TypeError):
            return None
        return (state, segments) if len(state.stats) == len(paths) else None

    def save_segment(self, segment: Segment) -> str:
        """Write a segment unless it is there already, whole; return its name. Raises `OSError`."""
        name = _name(segment)
        path = self._segment_path(name)
        if not path.exists() or (name not in self._seen_whole and read_arrays(path) is None):
            self.directory.mkdir(parents=True, exist_ok=True)
            write_arrays(path, segment.to_arrays(), {"format": FORMAT})
        self._seen_whole.add(name)
        return name

    def save(self, state: TreeState) -> None:
        """Put a snapshot in place; raises `OSError`."""
        self.directory.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, NDArray[Any]] = {
            "paths": np.frombuffer("\0".join(state.paths).encode(), np.uint8),
            "stats": state.stats,
        }
        meta = {
            "format": FORMAT,
            "segments": list(state.segments),
            "unreadable": dict(state.unreadable),
            "indexed_at_ns": state.indexed_at_ns,
            "partly": dict(state.partly),
            "limits": list(state.limits),
        }
        write_arrays(self._head, arrays, meta)
        self._forget_others(state.segments)

    @property
    def _head(self) -> Path:
        return self.directory / "snapshot.bin"

    def _segment_path(self, name: str) -> Path:
        return self.directory / f"segment-{name}.bin"

    def _read_segment(self, name: str) -> Segment:
        found = read_arrays(self._segment_path(name))
        self._seen_whole.discard(name)
        if found is None or found[1].get("format") != FORMAT:
            raise ValueError(f"segment {name} is not there")
        self._seen_whole.add(name)
        return Segment.from_arrays(found[0])

    def _forget_others(self, names: Sequence[str]) -> None:
        wanted = {self._segment_path(name) for name in names}
        for path in sorted([*self.directory.glob("segment-*.bin"), *self.directory.glob(".writing-*")]):
            with contextlib.suppress(OSError):
                if path in wanted:
                    os.utime(path)  # so that its time says when a snapshot last named it
                elif time.time() - path.stat().st_mtime > KEEP_SECONDS:
                    os.unlink(path)


def _name(segment: Segment) -> str:
    digest = hashlib.blake2b(FORMAT.encode(), digest_size=12)
    for path, content in zip(segment.paths, segment.digests, strict=True):
        digest.update(f"{path}\0{content}\0".encode())
    return digest.hexdigest()
