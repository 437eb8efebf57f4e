"""The command line: thin commands over the engine. Stdout is data, stderr is for people."""

import argparse
import contextlib
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cicl import __version__
from cicl.errors import CiclError, ConfigurationError

if TYPE_CHECKING:
    from cicl.engine import Engine
    from cicl.selection.records import Skipped

__all__ = ["main", "run"]

EXIT_EXPECTED = 1
"""Something the user can mend; the message says how."""
EXIT_INTERRUPTED = 130
"""Wrong usage is 2, which argparse gives."""
MAX_REASONS = 12
"""For skipped files that are shown."""


def run() -> None:
    """Run the command line and exit; the console script."""
    # This process is ours and short: no threads for algebra it does not do, no search for garbage.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()
    code = main(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)  # taking the interpreter apart, array by array, is time that somebody waits


def main(arguments: Sequence[str]) -> int:
    """Run one command; return its exit code."""
    options = _parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace", newline="\n")
    try:
        command: Callable[[argparse.Namespace], None] = options.command
        command(options)
    except CiclError as error:
        _tell(str(error))
        return EXIT_EXPECTED
    except BrokenPipeError:  # the reader has gone; there is nobody to tell
        return EXIT_EXPECTED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cicl", description="Choose what a coding agent reads before its next action."
    )
    parser.add_argument("--version", action="version", version=f"cicl {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_select(commands.add_parser("select", help="choose context for a task"))
    _add_index(commands.add_parser("index", help="read a repository now, so that the first select is quick"))
    _add_status(commands.add_parser("status", help="show what is indexed, skipped and recorded"))
    judges = commands.add_parser("judges", help="the judges that are installed")
    actions = judges.add_subparsers(required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list them")
    listing.add_argument("--json", action="store_true", help="print one JSON object")
    listing.set_defaults(command=_list_judges)
    return parser


def _add_select(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", nargs="?", help="what the agent is about to do, in words")
    parser.add_argument("--task-file", metavar="F", help="read the task from a file; - is standard input")
    parser.add_argument("--repo", metavar="PATH", default=".", help="the repository (default: here)")
    parser.add_argument("--budget", type=int, metavar="N", help="tokens of the text at most (default: 4000)")
    parser.add_argument("--encoding", metavar="E", help="whose tokens are counted (default: o200k_base)")
    parser.add_argument("--judge", metavar="NAME", help="see `cicl judges list` (default: proxy)")
    parser.add_argument(
        "--open",
        action="append",
        default=[],
        metavar="FILE",
        help="a file the agent has open; may be repeated",
    )
    parser.add_argument("--session", metavar="ID", help="never send this session the same card twice")
    parser.add_argument("--retrieval", metavar="NAME", help="fielded (default) or rank-bm25")
    parser.add_argument("--rounds", type=int, default=1, metavar="R", help="ask the judge up to R times")
    parser.add_argument("--explain", action="store_true", help="print why each unit is in or out")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(command=_select)


def _add_index(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", nargs="?", default=".", help="the repository (default: here)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(command=_index)


def _add_status(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", nargs="?", default=".", help="the repository (default: here)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(command=_status)


def _select(options: argparse.Namespace) -> None:
    from cicl.selection.explanation import explain, to_data

    task = _read_task(options)
    engine = _open(options.repo)
    if options.retrieval:
        engine.settings = replace(engine.settings, retrieval=options.retrieval)
    pack = engine.select(
        task,
        budget=options.budget,
        encoding=options.encoding,
        judge=options.judge,
        open_files=[_seen_from_here(path) for path in options.open],
        session=options.session,
        rounds=options.rounds,
    )
    if options.json:
        _write_json(to_data(pack))
    elif options.explain:
        _write(explain(pack))
    else:
        _write(pack.text)
        _tell(*pack.notes)


def _seen_from_here(path: str) -> str:
    """A path that is there from the current directory is meant so; any other from the root."""
    return os.path.abspath(path) if os.path.exists(path) else path


def _read_task(options: argparse.Namespace) -> str:
    if (options.task is None) == (options.task_file is None):
        raise ConfigurationError('give the task once: cicl select "TASK", or --task-file F')
    if options.task is not None:
        return str(options.task)
    try:
        data = _read_stdin() if options.task_file == "-" else Path(options.task_file).read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"the task file {options.task_file} cannot be read: {error.strerror}"
        ) from error
    return data.decode("utf-8-sig", "replace")


def _read_stdin() -> bytes:
    if sys.stdin is None:
        raise ConfigurationError("there is no standard input to read the task from; name a file")
    return sys.stdin.buffer.read()


def _index(options: argparse.Namespace) -> None:
    started = time.monotonic()
    indexed = _open(options.path).index()
    seconds = round(time.monotonic() - started, 3)
    if options.json:
        data = {
            "root": str(indexed.root),
            "files": indexed.files,
            "parts": indexed.parts,
            "extracted": indexed.extracted,
            "seconds": seconds,
            "skipped_files": [item._asdict() for item in indexed.skipped],
            "notes": list(indexed.notes),
        }
        _write_json(data)
        return
    _write_lines(
        f"{indexed.root}: {indexed.files} files, {indexed.parts} parts; {indexed.extracted} read in "
        f"{seconds} s, {len(indexed.skipped)} skipped",
        *_skipped_lines(indexed.skipped),
    )
    _tell(*indexed.notes)


def _status(options: argparse.Namespace) -> None:
    status = _open(options.path).status()
    if options.json:
        _write_json(status.to_data())
        return
    _write_lines(
        f"root       {status.root}",
        f"state      {status.folder}, {status.state_bytes / 1e6:.1f} MB",
        f"index      {status.files} files, {status.parts} parts; {status.stale} to be read again",
        f"receipts   {status.receipts}, outcomes {status.outcomes}",
        *_skipped_lines(status.skipped),
    )
    _tell(*status.notes)


def _skipped_lines(skipped: Sequence["Skipped"]) -> Iterator[str]:
    """What was skipped, by reason; the most frequent reasons first."""
    reasons: dict[str, list[str]] = {}
    for item in skipped:
        reasons.setdefault(item.reason, []).append(item.path)
    ordered = sorted(reasons.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    for reason, paths in ordered[:MAX_REASONS]:
        more = f" and {len(paths) - 2} more" if len(paths) > 2 else ""
        yield f"  skipped  {', '.join(paths[:2])}{more}: {reason}"
    rest = sum(len(paths) for _, paths in ordered[MAX_REASONS:])
    if rest:
        yield f"  skipped  {rest} more for other reasons; --json has them all"


def _list_judges(options: argparse.Namespace) -> None:
    from cicl.selection.judging import DEFAULT_JUDGE, find_judges

    rows = [
        {"name": name, "from": point.value, "default": name == DEFAULT_JUDGE}
        for name, point in find_judges().items()
    ]
    if options.json:
        _write_json({"judges": rows})
        return
    _write_lines(
        *(f"{row['name']:16} {row['from']}{'  (default)' if row['default'] else ''}" for row in rows)
    )


def _open(path: str) -> "Engine":
    from cicl.engine import open as open_engine

    return open_engine(path, progress=_progress if sys.stderr and sys.stderr.isatty() else None)


def _progress(done: int, total: int) -> None:
    end = "\n" if done == total else ""
    sys.stderr.write(f"\rreading {done} of {total} files{end}")
    sys.stderr.flush()


def _tell(*messages: str) -> None:
    """Say something to a person, each in one line."""
    from cicl.selection.rendering import one_line

    for message in messages if sys.stderr else ():
        print(f"cicl: {one_line(message)}", file=sys.stderr)


def _write_json(data: object) -> None:
    _write(json.dumps(data, ensure_ascii=False, indent=2, allow_nan=False) + "\n")


def _write_lines(*lines: str) -> None:
    from cicl.selection.rendering import one_line

    _write("".join(f"{one_line(line)}\n" for line in lines))


def _write(text: str) -> None:
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        _forget_output()
        if isinstance(error, BrokenPipeError):
            raise
        raise ConfigurationError(f"the output cannot be written: {error.strerror}") from error


def _forget_output() -> None:
    """Let what is left in the buffer go nowhere: the interpreter would complain once more at its end."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
