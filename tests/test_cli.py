"""The command line as a user meets it: most of it in processes of its own."""

import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import toktok
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cicl
from cicl.cli import main
from cicl.testing.fixtures import InstanceFactory

FILES = {
    "src/parse.py": "import os\n\ndef parse_line(line):\n    '''Parse a line.'''\n    return line.split()\n",
    "src/render.py": "from parse import parse_line\n\ndef render(line):\n    return parse_line(line)[0]\n",
    "README.md": "# Lines\n\nA line is parsed by words.\n",
    "logo.png": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4,
}
TASK = "parse_line drops the last word of a line"
NOT_THERE = "quantum teleportation of llamas"
JUDGES = """
from cicl.testing import ScriptedJudge

YES = {"action_shift": 0.9, "necessity": 0.9, "expected_outcome_uplift": 0.9}

class Eager(ScriptedJudge):
    def __init__(self):
        super().__init__(default=YES, name="eager")

class Broken(ScriptedJudge):
    def judge(self, *args):
        return [{"necessity": 3}] * len(args[1])
"""
EAGER = ("--judge", "stub_judges:Eager")
"""A judge that wants everything: what is tested here does not wait for the weights of `proxy`."""

Run = subprocess.CompletedProcess[str]


@pytest.fixture
def tree(cicl_instance: InstanceFactory) -> Path:
    root = cicl_instance(FILES).root
    assert root is not None
    return root


@pytest.fixture(scope="session")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a module of judges; put on the module path of every process that is started here."""
    folder = tmp_path_factory.mktemp("judges")
    (folder / "stub_judges.py").write_text(JUDGES)
    return folder


@pytest.fixture
def run(tree: Path, judges: Path) -> Callable[..., Run]:
    """Run the command in the tree."""

    def start(*arguments: str, input: str | None = None, cwd: Path = tree, **environment: str) -> Run:
        return subprocess.run(
            [sys.executable, "-m", "cicl", *arguments],
            cwd=cwd,
            input=input,
            capture_output=True,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": str(judges), **environment},
        )

    return start


def complaint(shown: Run) -> str:
    """What a command says that ends on purpose: one line on stderr, nothing on stdout, no traceback."""
    return _one_complaint(shown.returncode, shown.stdout, shown.stderr)


def _one_complaint(code: int, out: str, err: str) -> str:
    assert code == 1, err
    assert out == ""
    assert err.startswith("cicl: ")
    assert err.count("\n") == 1, err
    return err.removeprefix("cicl: ").rstrip("\n")


@pytest.fixture
def refusal(
    tree: Path, judges: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Run the command in this process, and return what it complains of."""
    monkeypatch.syspath_prepend(judges)
    monkeypatch.chdir(tree)

    def refuse(*arguments: str) -> str:
        code = main(arguments)
        return _one_complaint(code, *capsys.readouterr())

    return refuse


# -- select --


def test_select_prints_the_text_of_the_pack_and_nothing_else(run: Callable[..., Run], tree: Path) -> None:
    shown = run("select", TASK, "--budget", "900", *EAGER)
    assert shown.returncode == 0
    assert shown.stderr == ""
    assert shown.stdout.startswith('<context from="cicl"')
    assert "## src/parse.py:3-5" in shown.stdout
    (counted,) = toktok.batch_count([shown.stdout], "o200k_base")
    assert 0 < counted <= 900


def test_the_text_is_the_same_in_every_format(run: Callable[..., Run]) -> None:
    plain = run("select", TASK, *EAGER).stdout
    data = json.loads(run("select", TASK, *EAGER, "--json").stdout)
    table = run("select", TASK, *EAGER, "--explain").stdout
    assert data["text"] == plain
    assert data["tokens"] == toktok.batch_count([plain], "o200k_base")[0]
    assert f"{len(data['cards'])} of {len(data['judgments'])} candidates, {data['tokens']} of 4000" in table
    assert table.rstrip().count(data["receipt"][:12]) == 1


@pytest.mark.parametrize("form", ["json", "explain"])
def test_the_same_call_prints_the_same_bytes_whatever_the_hash_seed(
    run: Callable[..., Run], form: str
) -> None:
    arguments = ["select", TASK, *EAGER, f"--{form}"]
    shown = {run(*arguments, PYTHONHASHSEED=seed).stdout for seed in ("0", "1", "random")}
    assert len(shown) == 1
    assert shown != {""}


def test_the_default_judge_is_deterministic_too(run: Callable[..., Run]) -> None:
    shown = {run("select", TASK, "--json", PYTHONHASHSEED=seed).stdout for seed in ("2", "random")}
    assert len(shown) == 1


def test_the_json_is_one_object_with_the_notes_in_it(run: Callable[..., Run]) -> None:
    shown = run("select", NOT_THERE, "--json")
    data = json.loads(shown.stdout)
    assert shown.returncode == 0
    assert data["cards"] == []
    assert data["skipped_files"][0]["path"] == "logo.png"
    assert "nothing was selected" in data["notes"][0]


def test_an_empty_pack_is_an_answer_with_a_note(run: Callable[..., Run]) -> None:
    shown = run("select", NOT_THERE)
    assert shown.returncode == 0
    assert "Nothing found here would change the next action" in shown.stdout
    assert shown.stderr == "cicl: nothing was selected: no unit holds a word of the task\n"
    tiny = run("select", NOT_THERE, "--budget", "3")
    assert (tiny.returncode, tiny.stdout) == (0, "")
    assert "nothing was selected" in tiny.stderr


TEXTS = st.text(
    st.characters(codec="utf-8") | st.sampled_from("\ud800\udfff\x1b\u2028{}%<>|`'\"\\"), max_size=60
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXTS)
def test_the_json_is_valid_for_every_task(tree: Path, capsys: pytest.CaptureFixture[str], task: str) -> None:
    assert main(["select", "--repo", str(tree), "--json", "--", f"parse_line {task}"]) == 0
    data = json.loads(capsys.readouterr().out)
    data["text"].encode()
    assert data["task"].startswith("parse_line")


def test_a_task_that_is_no_text_is_a_task(tree: Path) -> None:
    """Bytes that are not UTF-8 reach Python as lone surrogates."""
    shown = subprocess.run(
        [sys.executable.encode(), b"-m", b"cicl", b"select", b"parse_line \xff\xed\xa0\x80", b"--json"],
        cwd=tree,
        capture_output=True,
    )
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["task"] == "parse_line \ufffd\ufffd\ufffd\ufffd"


def test_the_task_may_come_from_a_file_or_from_stdin(run: Callable[..., Run], tmp_path: Path) -> None:
    plain = run("select", TASK, *EAGER).stdout
    (tmp_path / "task.md").write_bytes(b"\xef\xbb\xbf" + TASK.encode())
    assert run("select", "--task-file", str(tmp_path / "task.md"), *EAGER).stdout == plain
    assert run("select", "--task-file", "-", *EAGER, input=TASK).stdout == plain


def test_the_task_is_given_once(refusal: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "task.md").write_text(TASK)
    for arguments in ((), (TASK, "--task-file", str(tmp_path / "task.md"))):
        assert refusal("select", *arguments).startswith("give the task once")


def test_a_task_file_that_cannot_be_read_is_named(refusal: Callable[..., str], tmp_path: Path) -> None:
    said = refusal("select", "--task-file", "gone.md")
    assert said == "the task file gone.md cannot be read: No such file or directory"
    assert "Is a directory" in refusal("select", "--task-file", str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--judge", "solomon"], "no judge is called 'solomon'; installed: proxy"),
        (["--judge", "no_such_module:Judge"], "judge 'no_such_module:Judge' cannot be made"),
        (["--judge", "stub_judges:Broken"], "the field no_context_action is missing"),
        (["--encoding", "klingon"], "unknown encoding 'klingon'; known are"),
        (["--budget", "-1"], "the budget is -1 tokens; it must be 0 or more"),
        (["--rounds", "0"], "rounds is 0"),
        (["--retrieval", "psychic"], "retrieval 'psychic' is unknown; there are fielded, rank-bm25"),
        (["--repo", "gone"], "gone"),
        (["--repo", "README.md"], "README.md"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(
    refusal: Callable[..., str], arguments: list[str], said: str
) -> None:
    assert said in refusal("select", TASK, *arguments)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"budget = [", "cannot be read as TOML"),
        (b"\xff\xfe", "cannot be read as TOML"),
        (b"bugdet = 1", "unknown option 'bugdet'"),
        (b"budget = -4", "option 'budget' is -4; it must be 0 or more"),
        (b"encoding = 'klingon'", "unknown encoding 'klingon'"),
        (b"judge = 'stub_judges:Eager'", "names code"),
    ],
)
def test_settings_that_cannot_be_used_are_said_in_one_line(
    refusal: Callable[..., str], tree: Path, text: bytes, said: str
) -> None:
    (tree / "cicl.toml").write_bytes(text)
    assert said in refusal("select", TASK)


@pytest.mark.parametrize("arguments", [(), ("select", "--budget", "many"), ("paint",), ("judges",)])
def test_wrong_usage_is_exit_code_2(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("usage: ")


@pytest.mark.parametrize("arguments", [("--rounds", "2"), ("--retrieval", "rank-bm25")])
def test_the_judge_may_be_asked_twice_and_plain_bm25_be_chosen(
    run: Callable[..., Run], arguments: tuple[str, str]
) -> None:
    shown = run("select", TASK, *EAGER, *arguments)
    assert shown.returncode == 0
    assert "do: inspect src/parse.py::parse_line" in shown.stdout


def test_an_open_file_may_be_named_as_it_is_seen_from_here(run: Callable[..., Run], tree: Path) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=tree, check=True)
    for path in ("parse.py", "src/parse.py", str(tree / "src" / "parse.py")):
        shown = run("select", TASK, "--open", path, "--json", cwd=tree / "src")
        data = json.loads(shown.stdout)
        assert "in_open_file" in {seen["name"] for seen in data["evidence"]["src/parse.py::parse_line"]}
    shown = run("select", TASK, "--open", "gone.py")
    assert "the open file gone.py is not known here" in shown.stderr


def test_a_session_is_not_sent_the_same_twice(run: Callable[..., Run]) -> None:
    first = run("select", TASK, *EAGER, "--session", "one")
    again = run("select", TASK, *EAGER, "--session", "one")
    other = run("select", TASK, *EAGER, "--session", "two")
    assert "## src/parse.py:3-5" in first.stdout
    assert "## src/parse.py:3-5" not in again.stdout
    assert other.stdout == first.stdout


# -- where the output goes --


def test_a_reader_that_leaves_early_sees_no_traceback(tree: Path, judges: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(judges)}
    command = [sys.executable, "-m", "cicl", "select", TASK, *EAGER, "--json"]
    with subprocess.Popen(
        command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()  # before anything was written, as `| true` does
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_full_disk_under_the_output_is_said(tree: Path, judges: Path) -> None:
    with open("/dev/full", "w") as full:
        shown = subprocess.run(
            [sys.executable, "-m", "cicl", "select", TASK],
            cwd=tree,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert shown.returncode == 1
    assert shown.stderr.splitlines()[-1] == "cicl: the output cannot be written: No space left on device"
    assert "Traceback" not in shown.stderr


def test_without_an_output_nothing_breaks(tree: Path) -> None:
    for closed in (">&-", "<&-", "2>&-"):
        command = f'"{sys.executable}" -m cicl select "{TASK}" {closed}'
        shown = subprocess.run(["sh", "-c", command], cwd=tree, capture_output=True, text=True)
        assert shown.returncode == 0, shown.stderr
    command = f'"{sys.executable}" -m cicl select --task-file - <&-'
    shown = subprocess.run(["sh", "-c", command], cwd=tree, capture_output=True, text=True)
    assert (shown.returncode, shown.stderr.count("\n")) == (1, 1)


def test_progress_is_for_terminals_only(cicl_instance: InstanceFactory) -> None:
    words = "some text that makes the tree large enough for more than one process\n" * 4000
    root = cicl_instance({f"{number}.txt": words for number in range(5)}).root
    quiet = subprocess.run(
        [sys.executable, "-m", "cicl", "index"], cwd=root, capture_output=True, text=True, check=True
    )
    assert quiet.stderr == ""
    shutil.rmtree(Path(os.environ["CICL_HOME"]) / "instances")
    mine, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "cicl", "index"], cwd=root, stdout=subprocess.DEVNULL, stderr=theirs
    ):
        os.close(theirs)
        seen = b""
        while chunk := _read(mine):
            seen += chunk
    os.close(mine)
    assert b"\rreading 5 of 5 files" in seen


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1000)
    except OSError:  # what Linux says when the other side has closed
        return b""


# -- where the state goes --


def test_without_a_place_for_state_there_is_an_answer_and_a_note(
    run: Callable[..., Run], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    shown = run("select", TASK, *EAGER, "--session", "one", CICL_HOME=str(tmp_path / "file" / "state"))
    assert shown.returncode == 0
    assert "## src/parse.py:3-5" in shown.stdout
    assert "the index could not be saved" in shown.stderr
    assert "the receipt was not kept" in shown.stderr
    assert shown.stderr.count("\n") == shown.stderr.count("cicl: ")


def test_a_work_directory_that_is_gone_is_said_in_one_line(run: Callable[..., Run], tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f'rmdir "{gone}" && exec "{sys.executable}" -m cicl select "{TASK}"'
    shown = subprocess.run(["sh", "-c", command], cwd=gone, capture_output=True, text=True)
    complaint(shown)


def test_two_commands_at_once_give_the_same_answer(tree: Path, judges: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(judges)}
    command = [sys.executable, "-m", "cicl", "select", TASK, *EAGER]
    running = [subprocess.Popen(command, cwd=tree, env=environment, stdout=subprocess.PIPE) for _ in range(3)]
    answers = {process.communicate()[0] for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(answers) == 1


# -- the other commands --


def test_index_says_what_was_read_and_what_was_skipped(run: Callable[..., Run], tree: Path) -> None:
    first = run("index")
    assert first.stdout.startswith(f"{tree}: 3 files, ")
    assert "; 4 read in " in first.stdout
    assert "  skipped  logo.png: binary" in first.stdout
    again = json.loads(run("index", str(tree), "--json").stdout)
    assert list(again) == ["root", "files", "parts", "extracted", "seconds", "skipped_files", "notes"]
    assert (again["root"], again["files"], again["extracted"]) == (str(tree), 3, 0)
    assert [item["path"] for item in again["skipped_files"]] == ["logo.png"]


def test_index_shows_the_most_frequent_reasons_and_counts_the_rest(
    capsys: pytest.CaptureFixture[str], cicl_instance: InstanceFactory
) -> None:
    files = {f"a{number}.bin": b"\0\1\2" * (100 + number) for number in range(20)}
    files |= {f"many{number}.bin": b"\0\0\0\0" * 100 for number in range(5)}
    root = cicl_instance(files).root
    assert main(["index", str(root)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "  skipped  many0.bin, many1.bin and 3 more: binary: runs of NUL bytes"
    assert lines[-1] == "  skipped  9 more for other reasons; --json has them all"
    assert len(lines) == 1 + 12 + 1


def test_status_says_where_the_state_is_and_what_is_in_it(run: Callable[..., Run], tree: Path) -> None:
    before = json.loads(run("status", "--json").stdout)
    assert (before["files"], before["stale"], before["receipts"], before["outcomes"]) == (0, 4, 0, 0)
    receipt = json.loads(run("select", TASK, *EAGER, "--json").stdout)["receipt"]
    cicl.open(tree).record(receipt, actions=["edit src/parse.py"], outcome="solved")
    (tree / "README.md").write_text("# Other\n")
    after = json.loads(run("status", "--json").stdout)
    assert (after["files"], after["receipts"], after["outcomes"]) == (3, 1, 1)
    assert after["stale"] == 1
    assert after["root"] == str(tree)
    assert after["folder"].startswith(os.environ["CICL_HOME"])
    assert after["state_bytes"] > 0
    shown = run("status")
    assert shown.returncode == 0
    assert f"root       {tree}\n" in shown.stdout
    assert "receipts   1, outcomes 1\n" in shown.stdout
    assert "  skipped  logo.png: binary" in shown.stdout


def test_status_of_a_store_that_cannot_be_opened_is_said_in_one_line(
    run: Callable[..., Run], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    complaint(run("status", CICL_HOME=str(tmp_path / "file" / "state")))


def test_judges_lists_what_is_installed(run: Callable[..., Run]) -> None:
    assert "proxy            cicl_judges.proxy:ProxyJudge  (default)" in run("judges", "list").stdout
    rows = json.loads(run("judges", "list", "--json").stdout)["judges"]
    assert {"name": "proxy", "from": "cicl_judges.proxy:ProxyJudge", "default": True} in rows


def test_the_version_is_the_packages(run: Callable[..., Run]) -> None:
    shown = run("--version")
    assert (shown.returncode, shown.stdout) == (0, f"cicl {cicl.__version__}\n")


def test_a_path_with_a_line_break_begins_no_line(
    cicl_instance: InstanceFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    root = cicl_instance({"a\nb\x1b.bin": b"\0\0\0\0" * 100}).root
    assert main(["index", str(root)]) == 0
    shown = capsys.readouterr().out
    assert shown.count("\n") == 2
    assert "\x1b" not in shown
