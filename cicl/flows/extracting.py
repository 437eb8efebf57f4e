"""Extracting many files at once, in worker processes where that pays."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from cicl.flows.worker import Memory, extract_batch
from cicl.pieces import PieceTable, common_pieces
from cicl.selection.corpus import Corpus
from cicl.selection.merging import merge_corpus
from cicl.selection.segments import Segment
from cicl.selection.sources.files import FileEntry, Limits
from cicl.storage.arrays import read_arrays
from cicl.text import digest_text
from cicl.tokens import counter_for

__all__ = ["extract_files"]

PAYS_FROM_BYTES = 1_000_000
"""Below this a second interpreter takes longer to start than it saves."""
BATCH_BYTES = 2_000_000
MAX_WORKERS = 8


@dataclass(slots=True)
class _Work:
    """Batches still to do, and what came back; shared by the threads that drive one worker each."""

    root: Path
    limits: Limits
    encoding: str
    folder: Path
    total: int
    progress: Callable[[int, int], None] | None
    batches: deque[list[FileEntry]] = field(default_factory=deque)
    segments: list[Segment] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    pieces: set[str] = field(default_factory=set)
    done: int = 0
    lock: Lock = field(default_factory=Lock)


def extract_files(
    root: Path,
    entries: Sequence[FileEntry],
    limits: Limits,
    pieces: PieceTable | None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Segment, Mapping[str, str]]:
    """Return one segment of the files that are text, and the reason by path for the others.

    `workers` is the number of processes, by default one a core; 1 stays in this process. What `pieces` does
    not know of the files is learned.
    """
    count = min(workers or os.cpu_count() or 1, MAX_WORKERS)
    encoding = pieces.encoding if pieces is not None else ""
    if count < 2 or sum(entry.size for entry in entries) < PAYS_FROM_BYTES:
        batch = extract_batch(root, sorted(entries), limits, encoding, Memory())
        _learn(pieces, batch.pieces)
        return batch.segment, batch.skipped
    with tempfile.TemporaryDirectory(prefix="cicl-") as folder:
        work = _Work(root, limits, encoding, Path(folder), len(entries), progress, _batches(entries))
        with ThreadPoolExecutor(count + 1) as drivers:
            if pieces is not None:
                drivers.submit(counter_for(encoding).count, "")  # loads its vocabulary while others read
            for driven in [drivers.submit(_drive, work) for _ in range(count)]:
                driven.result()
        _learn(pieces, work.pieces)
        ordered = sorted(work.segments, key=lambda segment: segment.paths[:1])
        return merge_corpus(Corpus(ordered)), work.skipped


def _learn(pieces: PieceTable | None, found: set[str] | frozenset[str]) -> None:
    if pieces is not None and (found or not len(pieces)):
        pieces.learn(found | common_pieces(), counter_for(pieces.encoding))
        pieces.save()


def _batches(entries: Sequence[FileEntry]) -> deque[list[FileEntry]]:
    batches: deque[list[FileEntry]] = deque([[]])
    size = 0
    for entry in sorted(entries):
        if size > BATCH_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(entry)
        size += entry.size
    return batches


def _drive(work: _Work) -> None:
    """Feed one worker process until no batch is left; a batch that kills it is cut in two."""
    process = _start()
    try:
        while True:
            with work.lock:
                if not work.batches:
                    return
                batch = work.batches.popleft()
            if not _run(process, batch, work):
                _stop(process)
                process = _start()
    finally:
        _stop(process)


def _start() -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen(
        [sys.executable, "-m", "cicl.flows.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        env=environment,
    )


def _stop(process: "subprocess.Popen[str]") -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    process.kill()
    process.wait()


def _run(process: "subprocess.Popen[str]", batch: list[FileEntry], work: _Work) -> bool:
    out = work.folder / f"{digest_text(batch[0].path)}-{len(batch)}.bin"
    order = {
        "root": str(work.root),
        "entries": batch,
        "limits": [work.limits.max_file_bytes, work.limits.max_line_chars],
        "encoding": work.encoding,
        "out": str(out),
    }
    found = _ask(process, order, out)
    with work.lock:
        if found is None:
            _retry(batch, work)
            return False
        segment, meta = found
        work.segments.append(segment)
        work.skipped.update(meta["skipped"])
        work.pieces.update(meta["pieces"])
        work.done += len(batch)
        if work.progress is not None:
            work.progress(work.done, work.total)
    return True


def _ask(
    process: "subprocess.Popen[str]", order: Mapping[str, object], out: Path
) -> tuple[Segment, dict[str, dict[str, str]]] | None:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        answered = process.stdout.readline()
    except (OSError, ValueError):
        return None
    read = read_arrays(out) if answered else None
    return (Segment.from_arrays(read[0]), read[1]) if read else None


def _retry(batch: list[FileEntry], work: _Work) -> None:
    if len(batch) == 1:
        work.skipped[batch[0].path] = "reading it ended the process that read it"
        work.done += 1
    else:
        middle = len(batch) // 2
        work.batches.extend([batch[:middle], batch[middle:]])
