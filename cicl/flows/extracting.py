"""Extracting many files at once, in worker processes where that pays."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Lock

from cicl.flows.worker import Batch, Memory, extract_batch
from cicl.pieces import PieceTable, common_pieces
from cicl.selection.corpus import Corpus
from cicl.selection.merging import merge_corpus
from cicl.selection.segments import Segment
from cicl.selection.sources.files import FileEntry, Limits
from cicl.storage.arrays import read_arrays
from cicl.tokens import counter_for

__all__ = ["extract_files"]

PAYS_FROM_BYTES = 1_000_000
"""Below this a second interpreter takes longer to start than it saves."""
BATCH_BYTES = 2_000_000
MAX_WORKERS = 8
WORKER = (sys.executable, "-P", "-m", "cicl.flows.worker")
"""`-P`: a module in the current directory, which may be the tree that is read, is never imported."""


@dataclass(slots=True)
class _Work:
    """Batches still to do, and what came back; shared by the threads that drive one worker each."""

    root: Path
    limits: Limits
    encoding: str
    folder: Path
    total: int
    progress: Callable[[int, int], None] | None
    command: Sequence[str]
    batches: deque[list[FileEntry]] = field(default_factory=deque)
    segments: list[Segment] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    partly: dict[str, str] = field(default_factory=dict)
    pieces: set[str] = field(default_factory=set)
    done: int = 0
    stopped: bool = False
    numbers: Iterator[int] = field(default_factory=count)
    lock: Lock = field(default_factory=Lock)


def extract_files(
    root: Path,
    entries: Sequence[FileEntry],
    limits: Limits,
    pieces: PieceTable | None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    command: Sequence[str] = WORKER,
) -> Batch:
    """Return what the files yield together, as one batch.

    `workers` is the number of processes, by default one a core where that pays; 1 stays in this process, and
    so does what workers started by `command` cannot do. What `pieces` does not know of the files is learned.
    """
    processes = min(workers or os.cpu_count() or 1, MAX_WORKERS)
    encoding = pieces.encoding if pieces is not None else ""
    size = sum(entry.size for entry in entries)
    if processes < 2 or (workers is None and size < PAYS_FROM_BYTES):
        batch = extract_batch(root, sorted(entries), limits, encoding, Memory())
        _learn(pieces, batch.pieces)
        return batch
    with tempfile.TemporaryDirectory(prefix="cicl-") as folder:
        work = _Work(root, limits, encoding, Path(folder), len(entries), progress, command)
        work.batches = _batches(entries, min(BATCH_BYTES, size // (2 * processes)))
        with ThreadPoolExecutor(processes + 1) as drivers:
            if pieces is not None:
                drivers.submit(counter_for(encoding).count, "")  # loads its vocabulary while others read
            try:
                for driven in [drivers.submit(_drive, work) for _ in range(processes)]:
                    driven.result()
            finally:
                work.stopped = True  # where this thread was interrupted, the drivers need not go on
            learned = drivers.submit(_learn, pieces, work.pieces)  # counts while arrays are sorted
            merged = merge_corpus(Corpus(sorted(work.segments, key=lambda segment: segment.paths[:1])))
            learned.result()
        return Batch(merged, work.skipped, work.partly, frozenset(work.pieces))


def _learn(pieces: PieceTable | None, found: set[str] | frozenset[str]) -> None:
    if pieces is not None and (found or not len(pieces)):
        pieces.learn(found | common_pieces(), counter_for(pieces.encoding))
        pieces.save()


def _batches(entries: Sequence[FileEntry], batch_bytes: int) -> deque[list[FileEntry]]:
    batches: deque[list[FileEntry]] = deque([[]])
    size = 0
    for entry in sorted(entries):
        if size > batch_bytes:
            batches.append([])
            size = 0
        batches[-1].append(entry)
        size += entry.size
    return batches


def _drive(work: _Work) -> None:
    """Feed one worker process until no batch is left; a batch that ends it is cut in two.

    Only a worker that has answered is trusted: where none can be had, the batches are extracted here.
    """
    process = _start(work)
    try:
        while (batch := _take(work)) is not None:
            answer = _ask(process, batch, work) if process is not None else _extract_here(batch, work)
            if answer is not None:
                _store(answer, len(batch), work)
                continue
            if process is not None:
                _stop(process)
            process = _start(work)
            _retry(batch, work, guilty=process is not None)
    finally:
        if process is not None:
            _stop(process)


def _take(work: _Work) -> list[FileEntry] | None:
    with work.lock:
        return work.batches.popleft() if work.batches and not work.stopped else None


def _start(work: _Work) -> "subprocess.Popen[str] | None":
    """Start a worker and let it do nothing once; None where it cannot do even that."""
    paths = [*(path for path in sys.path if path), str(Path(__file__).parents[2])]
    try:
        process = subprocess.Popen(
            work.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            cwd=work.folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
    except OSError:
        return None
    if _ask(process, [], work) is None:
        _stop(process)
        return None
    return process


def _stop(process: "subprocess.Popen[str]") -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    process.kill()
    process.wait()


def _ask(process: "subprocess.Popen[str]", batch: list[FileEntry], work: _Work) -> Batch | None:
    assert process.stdin is not None
    assert process.stdout is not None
    out = work.folder / f"{next(work.numbers)}.bin"
    order = {
        "root": str(work.root),
        "entries": batch,
        "limits": [work.limits.max_file_bytes, work.limits.max_line_chars],
        "encoding": work.encoding,
        "out": str(out),
    }
    try:
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        answered = process.stdout.readline()
    except (OSError, ValueError):
        return None
    read = read_arrays(out) if answered == "done\n" else None
    if read is None:  # where the worker is well, the disk refused what it found
        return _extract_here(batch, work) if batch and answered == "done\n" else None
    arrays, meta = read
    return Batch(Segment.from_arrays(arrays), meta["skipped"], meta["partly"], frozenset(meta["pieces"]))


def _extract_here(batch: list[FileEntry], work: _Work) -> Batch:
    return extract_batch(work.root, batch, work.limits, work.encoding, Memory())


def _store(answer: Batch, files: int, work: _Work) -> None:
    with work.lock:
        work.segments.append(answer.segment)
        work.skipped.update(answer.skipped)
        work.partly.update(answer.partly)
        work.pieces.update(answer.pieces)
        _count(files, work)


def _count(files: int, work: _Work) -> None:
    work.done += files
    if work.progress is not None:
        work.progress(work.done, work.total)


def _retry(batch: list[FileEntry], work: _Work, guilty: bool) -> None:
    """Queue a batch again, in halves where it is the batch that ended its worker; give up a guilty file."""
    middle = len(batch) // 2 if guilty else 0
    with work.lock:
        if guilty and not middle:
            work.skipped[batch[0].path] = "reading it ended the process that read it"
            _count(1, work)
        else:
            work.batches.extend(half for half in (batch[:middle], batch[middle:]) if half)
