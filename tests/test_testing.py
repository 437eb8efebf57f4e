import contextlib
import http.server
import os
import random
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cicl.testing
from cicl.config import state_folder
from cicl.engine import Engine
from cicl.errors import JudgeError, JudgmentInvalid
from cicl.selection.graph import InstanceGraph
from cicl.selection.records import Candidate, ContextPack, ContextUnit, Judgment, Span, Task, Unjudged
from cicl.testing import (
    InstanceFactory,
    NetworkTouched,
    ScriptedJudge,
    assert_abstained,
    assert_card_complete,
    assert_not_selected,
    assert_selected,
    assert_within_budget,
    check_judge,
    deterministic_judge,
    make_instance,
    no_network,
)

ROOT = Path(__file__).parents[1]

TASK = "parse_header must strip the white space around the value"
HEADER, BODY = "src/parser.py::parse_header", "src/parser.py::parse_body"
FILES = {
    "src/parser.py": (
        "def parse_header(line):\n    name, _, value = line.partition(':')\n    return name, value\n\n\n"
        "def parse_body(text):\n    return text\n"
    ),
    "docs/headers.md": "# Headers\n\nA header line is split at its colon.\n",
}
GOOD = {"action_shift": 0.9, "necessity": 0.5, "expected_outcome_uplift": 0.9}
BAD = {"action_shift": 0.1, "negative_transfer_risk": 0.8}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with make_instance(FILES) as made:
        yield made


@pytest.fixture(scope="module")
def pack(engine: Engine) -> ContextPack:
    """`parse_header` is in; `parse_body` was refused; the rest has no judgment."""
    return engine.select(TASK, judge=ScriptedJudge({HEADER: GOOD, BODY: BAD}))


# make_instance


def test_an_instance_holds_the_files_given_and_is_gone_afterwards() -> None:
    with make_instance({**FILES, "a/b/latin.txt": b"caf\xe9 parse_header\n"}) as engine:
        assert engine.root is not None
        root = engine.root
        assert (root / "a/b/latin.txt").read_bytes() == b"caf\xe9 parse_header\n"
        assert {"src/parser.py", HEADER, "a/b/latin.txt"} <= set(engine.instance.graph)
    assert not root.exists()


def test_state_stays_beside_the_tree_while_it_lasts(engine: Engine) -> None:
    before = state_folder()
    with make_instance(FILES) as engine:
        engine.select(TASK)
        assert engine.root is not None
        assert engine.root.parent == state_folder().parent
        assert any(state_folder().rglob("*"))
    assert state_folder() == before


def test_state_moves_back_to_where_it_was_when_a_test_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CICL_HOME")
    with pytest.raises(ZeroDivisionError), make_instance({}):
        raise ZeroDivisionError
    assert "CICL_HOME" not in os.environ


def test_a_folder_given_stays_and_is_its_own_root_inside_a_work_tree(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    with make_instance(FILES, folder=tmp_path / "inner") as engine:
        assert engine.root == (tmp_path / "inner").resolve()
        assert_selected(engine.select(TASK, judge=ScriptedJudge({HEADER: GOOD})), HEADER)
    assert (tmp_path / "inner/src/parser.py").exists()


def test_git_makes_one_commit_that_is_the_same_everywhere() -> None:
    def commit() -> str:
        with make_instance({**FILES, ".gitignore": "*.log\n", "a.log": "kept"}, git=True) as engine:
            assert engine.root is not None
            shown = ["git", "-C", str(engine.root), "log", "--format=%H %an", "--name-only"]
            return subprocess.run(shown, capture_output=True, text=True, check=True).stdout

    assert commit() == commit()
    assert "cicl" in commit()
    assert "a.log" in commit()


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x", ""])
def test_a_path_that_leaves_the_root_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="no path inside the instance"), make_instance({path: ""}):
        pass


# Fixtures


def test_the_factory_makes_as_many_instances_as_asked_for(
    cicl_instance: InstanceFactory, cicl_state: Path
) -> None:
    one, other = cicl_instance(FILES), cicl_instance({"b.py": "x = 1\n"}, git=True)
    assert one.root != other.root
    assert HEADER in one.instance.graph
    assert HEADER not in other.instance.graph
    assert state_folder() == cicl_state


def run(code: str, *arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments, *(["-c", code] if code else [])], cwd=cwd, capture_output=True, text=True
    )


PAGE = (ROOT / "docs/testing.md").read_text("utf-8")
PYTHON = re.compile(r"^```python\n(.*?)^```", re.S | re.M)


def test_the_page_shows_what_its_snippets_print(tmp_path: Path) -> None:
    def numberless(text: str) -> str:
        return re.sub(r"\d+(\.\d+)?", "0", text)  # a score may move with the weights of the judge

    shown = run("\n".join(PYTHON.findall(PAGE)), cwd=tmp_path)
    said = re.findall(
        r"^```python\n(?:(?!^```).)*?^```\n(?:(?!^```).)*?^```text\n(.*?)^```", PAGE, re.S | re.M
    )
    printed = [text for text in said if numberless(text) in numberless(shown.stdout)]
    assert numberless(shown.stdout) == numberless("".join(printed)), shown.stderr


def test_the_documented_test_file_runs_by_pytest_plugins_alone(tmp_path: Path) -> None:
    tests = next(block for block in PYTHON.findall(PAGE) if "def test_" in block)
    (tmp_path / "conftest.py").write_text('import cicl.testing\npytest_plugins = ["cicl.testing"]\n')
    touching = "def test_touching(cicl_no_network):\n    import socket\n    try:\n        "
    touching += "socket.create_connection(('example.org', 80))\n    except BaseException:\n        pass\n"
    (tmp_path / "test_mine.py").write_text(f"{tests}\n\n{touching}")
    shown = run("", "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", cwd=tmp_path)
    assert f"{tests.count('def test_') + 1} passed, 1 error" in shown.stdout, shown.stdout
    assert "the network was touched: create_connection to ('example.org', 80)" in shown.stdout


def test_only_the_fixtures_need_pytest() -> None:
    code = (
        "import sys\nsys.modules['pytest'] = None\nfrom cicl.testing import *\n"
        "print(deterministic_judge().name)\nimport cicl.testing\ncicl.testing.cicl_instance"
    )
    shown = run(code)
    assert shown.stdout == "proxy\n"
    assert "ImportError: the fixtures of cicl.testing need pytest: pip install pytest" in shown.stderr


def test_the_names_are_sorted_and_all_load() -> None:
    assert cicl.testing.__all__ == sorted(cicl.testing.__all__)
    assert all(getattr(cicl.testing, name) is not None for name in dir(cicl.testing))
    with pytest.raises(AttributeError, match="no attribute 'assert_lucky'"):
        cicl.testing.assert_lucky  # noqa: B018


# Judges


def test_the_deterministic_judge_comes_by_its_entry_point() -> None:
    assert deterministic_judge().name == "proxy"


def test_a_scripted_judge_answers_by_unit_and_remembers_what_it_was_asked(engine: Engine) -> None:
    judge = ScriptedJudge({HEADER: GOOD, BODY: Unjudged("out of time")}, default={"confidence": 0.5})
    pack = engine.select(Task(text=TASK, open_files=("docs/headers.md",)), judge=judge)
    header, body = pack.judgments[HEADER], pack.judgments[BODY]
    assert isinstance(header, Judgment)
    assert (header.action_shift, header.negative_transfer_risk) == (0.9, 0.0)
    assert header.with_context_action == f"inspect {HEADER}"
    assert body == Unjudged("out of time")
    (call,) = judge.calls
    assert call.task.text == TASK
    assert HEADER in call.unit_ids
    assert [unit.id for unit in call.context] == ["docs/headers.md"]
    assert call.graph.unit(HEADER).kind == "symbol"


def test_a_unit_without_script_is_unjudged_and_never_zero(pack: ContextPack) -> None:
    assert pack.judgments["docs/headers.md"] == Unjudged("the script does not name this unit")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"action_shift": 1.2}, "unit a: action_shift is 1.2; it must lie in"),
        ({"shift": 0.5}, "unit a: a judgment has no field 'shift'"),
        ({"necessity": "high"}, "unit a: necessity is 'high'; it must be a number"),
    ],
)
def test_a_script_with_a_mistake_is_refused_at_once(answer: dict[str, Any], message: str) -> None:
    with pytest.raises(JudgmentInvalid, match=re.escape(message)):
        ScriptedJudge({"a": answer})


# Assertions on packs


def test_what_is_selected_passes(engine: Engine, pack: ContextPack) -> None:
    assert_selected(pack, HEADER)
    assert_not_selected(pack, BODY, "src/other.py")
    assert_within_budget(pack)
    for card in pack.cards:
        assert_card_complete(card, engine.instance.graph)


def test_a_missing_unit_is_named_with_its_reason_and_what_was_selected_instead(pack: ContextPack) -> None:
    with pytest.raises(AssertionError) as failed:
        assert_selected(pack, HEADER, BODY, "docs/headers.md", "src/parser.py::parse_heade")
    first, second, third, *rest = str(failed.value).splitlines()
    assert first.startswith(f"{BODY} was not selected: it may mislead: risk 0.80 against")
    assert "(action_shift 0.10, necessity 0.00," in first
    assert second == "docs/headers.md was not selected: not judged: the script does not name this unit"
    assert third.endswith(f"candidates found for the task; the nearest is {HEADER}")
    assert f"  {HEADER} (0." in "\n".join(rest)


def test_an_unwanted_unit_is_named_with_why_it_is_in(pack: ContextPack) -> None:
    with pytest.raises(AssertionError, match=re.escape(f"{HEADER} was selected: its score is 0.")):
        assert_not_selected(pack, BODY, HEADER)


def test_abstaining_passes_and_a_card_or_silence_does_not(engine: Engine, pack: ContextPack) -> None:
    empty = engine.select("zebra crossings in Brussels")
    assert_abstained(empty)
    with pytest.raises(AssertionError, match="selected: nothing\nnothing was selected"):
        assert_selected(empty, HEADER)
    with pytest.raises(AssertionError, match="the pack is not empty"):
        assert_abstained(pack)
    with pytest.raises(AssertionError, match="no note that says why"):
        assert_abstained(replace(empty, notes=()))


@pytest.mark.parametrize("encoding", ["o200k_base", "cl100k_base", "r50k_base"])
def test_a_pack_within_its_budget_passes_in_every_encoding(engine: Engine, encoding: str) -> None:
    for budget in (0, 60, 200, 4000):
        assert_within_budget(engine.select(TASK, budget=budget, encoding=encoding))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budget": 20}, "tokens of o200k_base by .*, the budget is 20; the pack says"),
        ({"tokens": 9999}, "the pack says 9999 tokens, its budget is 4000"),
        ({"tokens": 5}, "the pack says exactly 5 tokens"),
        ({"exact": False}, "the pack says at most"),
    ],
)
def test_a_pack_that_breaks_or_misstates_its_budget_fails(
    pack: ContextPack, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_within_budget(replace(pack, **change))


def test_cards_that_cost_more_than_their_text_fail(pack: ContextPack) -> None:
    card = replace(pack.cards[0], tokens=4000)
    with pytest.raises(AssertionError, match="the cards say more tokens"):
        assert_within_budget(replace(pack, cards=(card,)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trigger": " "}, "trigger is empty or a placeholder"),
        ({"consequence": "TBD"}, "consequence is empty or a placeholder"),
        ({"action": "Hopefully edit it"}, "starts with 'hopefully', which is no action verb"),
        ({"evidence": "the whole file"}, "the evidence quotes no line"),
        ({"evidence": "2| b\n1| a"}, "not in the order of its lines"),
        ({"evidence": "1| a\nb"}, "a line without a number: 'b'"),
        ({"span": Span(7, 9)}, "outside (7, 9)"),
        ({"evidence": "2|     invented = True"}, "line 2 is \"    name, _, value = line.partition(':')\""),
        ({"unit_id": "gone"}, "the graph has no such unit"),
    ],
)
def test_a_card_that_lacks_something_fails(
    engine: Engine, pack: ContextPack, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(AssertionError, match=re.escape(message)):
        assert_card_complete(replace(pack.cards[0], **change), engine.instance.graph)


# check_judge


class Honest:
    """Keeps the contract; each judge below breaks it in one place."""

    name = "honest"

    def judge(
        self,
        task: Task,
        candidates: Sequence[Candidate],
        context: Sequence[ContextUnit],
        graph: InstanceGraph,
    ) -> Any:
        return [self.answer(item, **self.fields(item)) for item in candidates]

    def fields(self, item: Candidate) -> dict[str, Any]:
        return {}

    def answer(self, item: Candidate, **fields: Any) -> Any:
        return replace(JUDGMENT, **fields) if fields else JUDGMENT


JUDGMENT = Judgment(
    no_context_action="search",
    with_context_action="read it",
    action_shift=0.5,
    necessity=0.5,
    expected_outcome_uplift=0.5,
    negative_transfer_risk=0.5,
    reason="it is there",
    confidence=0.5,
)


def breaks(message: str) -> Callable[[type[Honest]], type[Honest]]:
    def mark(judge: type[Honest]) -> type[Honest]:
        BROKEN.append((judge, message))
        return judge

    return mark


BROKEN: list[tuple[type[Honest], str]] = []


@breaks("answers_each_candidate: judge 'honest' gave 1 answers to")
class Forgetful(Honest):
    def judge(self, *arguments: Any) -> Any:
        return super().judge(*arguments)[:1]


@breaks("action_shift is 1.5; it must lie in [0, 1]")
class OutOfRange(Honest):
    def fields(self, item: Candidate) -> dict[str, Any]:
        return {"action_shift": 1.5}


@breaks("failed: ZeroDivisionError")
class Ranking(Honest):
    def judge(self, task: Task, candidates: Sequence[Candidate], *rest: Any) -> Any:
        return super().judge(task, candidates, *rest) if 1 / (len(candidates) - 1) else []


@breaks("a repository, check says_why: unit")
class Speechless(Honest):
    def fields(self, item: Candidate) -> dict[str, Any]:
        return {"with_context_action": " "}


@breaks("reason of its Unjudged is ''; it must be text")
class Shrugging(Honest):
    def answer(self, item: Candidate, **fields: Any) -> Unjudged:
        return Unjudged("")


@breaks("keeps_its_name: name was 'asked 0' before it was asked and 'asked 1' after")
class Renaming(Honest):
    asked = 0
    name = property(lambda self: f"asked {self.asked}")  # type: ignore[assignment]

    def judge(self, *arguments: Any) -> Any:
        self.asked += 1
        return super().judge(*arguments)


@breaks("keeps_its_name: name is 'two\\nlines'")
class Verbose(Honest):
    name = "two\nlines"


@breaks("prints_nothing: it wrote 'done\\n' to standard output")
class Printing(Honest):
    def judge(self, *arguments: Any) -> Any:
        print("done")
        return super().judge(*arguments)


@breaks("answers_alike_twice: unit")
class Guessing(Honest):
    random = random.Random(1)

    def fields(self, item: Candidate) -> dict[str, Any]:
        return {"necessity": self.random.random()}


@breaks("when asked again")
class Tiring(Honest):
    asked = 0

    def answer(self, item: Candidate, **fields: Any) -> Any:
        self.asked += 1
        return JUDGMENT if self.asked < 20 else Unjudged("enough")


@breaks("ignores_the_order: unit")
class Positional(Honest):
    def judge(self, task: Task, candidates: Sequence[Candidate], *rest: Any) -> Any:
        return [replace(JUDGMENT, confidence=1 / (1 + place)) for place, _ in enumerate(candidates)]


@breaks("units built by hand, check leaves_what_it_is_given: candidate")
class Scribbling(Honest):
    def answer(self, item: Candidate, **fields: Any) -> Any:
        if isinstance(item.unit.metadata, dict):
            item.unit.metadata["seen"] = True
        return JUDGMENT


@breaks("failed: AttributeError: 'tuple' object has no attribute 'sort'")
class Sorting(Honest):
    def judge(self, task: Task, candidates: Any, *rest: Any) -> Any:
        candidates.sort()


def test_a_judge_that_keeps_the_contract_passes() -> None:
    check_judge(Honest())


def test_the_proxy_passes_and_reads_what_the_agent_has() -> None:
    check_judge("proxy", counterfactual=True)


@pytest.mark.parametrize(("judge", "message"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_a_judge_that_breaks_the_contract_fails(judge: type[Honest], message: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(message)) as failed:
        check_judge(judge())
    assert str(failed.value).startswith("judge ")
    assert " breaks its contract on " in str(failed.value)


def test_a_judge_that_wants_what_the_agent_has_fails_only_where_it_claims_otherwise() -> None:
    class Repeating(Honest):
        def judge(self, task: Task, candidates: Sequence[Candidate], context: Any, graph: Any) -> Any:
            known = {unit.id for unit in context}
            return [replace(JUDGMENT, action_shift=float(item.unit.id in known)) for item in candidates]

    class Reading(Repeating):
        def judge(self, task: Task, candidates: Sequence[Candidate], context: Any, graph: Any) -> Any:
            known = {unit.id for unit in context}
            return [replace(JUDGMENT, action_shift=float(item.unit.id not in known)) for item in candidates]

    check_judge(Repeating())
    check_judge(Reading(), counterfactual=True)
    with pytest.raises(
        AssertionError, match=r"shifts_less_what_is_known: unit .*: action_shift is 1\.0 when"
    ):
        check_judge(Repeating(), counterfactual=True)


def test_what_is_no_judge_cannot_be_checked() -> None:
    with pytest.raises(JudgeError, match="no judge is called 'nobody'"):
        check_judge("nobody")
    with pytest.raises(JudgeError, match="'Honest' is a class"):
        check_judge(Honest)  # type: ignore[arg-type]


# no_network

AWAY = ("192.0.2.1", 9)  # TEST-NET-1, RFC 5737


def send(kind: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        {
            "connect": lambda: end.connect(AWAY),
            "connect_ex": lambda: end.connect_ex(AWAY),
            "sendto": lambda: end.sendto(b"x", AWAY),
            "sendmsg": lambda: end.sendmsg([b"x"], [], 0, AWAY),
            "create_connection": lambda: socket.create_connection(AWAY),
            "getaddrinfo": lambda: socket.getaddrinfo("example.org", 80),
            "gethostbyname": lambda: socket.gethostbyname("example.org"),
        }[kind]()


@pytest.mark.parametrize(
    "kind",
    ["connect", "connect_ex", "sendto", "sendmsg", "create_connection", "getaddrinfo", "gethostbyname"],
)
def test_every_way_out_is_closed_and_named(kind: str) -> None:
    with (
        pytest.raises(NetworkTouched, match=f"the network was touched: {kind} to .*(192.0.2.1|example)"),
        no_network(),
    ):
        send(kind)


def fetch_in_spite_of_errors() -> None:
    with contextlib.suppress(Exception):
        urllib.request.urlopen("http://example.org", timeout=1)


def test_a_client_that_swallows_the_error_fails_at_the_end() -> None:
    message = r"create_connection to \('example\.org', 80\); the code under test swallowed this"
    with pytest.raises(NetworkTouched, match=message), no_network():
        fetch_in_spite_of_errors()


def test_a_thread_is_guarded_too() -> None:
    with ThreadPoolExecutor() as pool, pytest.raises(NetworkTouched, match="swallowed"), no_network():
        pool.submit(send, "connect").exception()


def test_loopback_is_open(tmp_path: Path) -> None:
    with no_network(), http.server.HTTPServer(("", 0), http.server.BaseHTTPRequestHandler) as server:
        for host in ("127.0.0.1", "localhost"):
            socket.create_connection((host, server.server_port), timeout=5).close()
        with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as calling:
            listening.bind(str(tmp_path / "s"))
            listening.listen()
            calling.connect(str(tmp_path / "s"))
            calling.sendmsg((b"a", b"b"))


@pytest.mark.parametrize("host", ["::1", "::ffff:127.0.0.1", "127.8.0.1", b"localhost", None, "", "::1%lo"])
def test_the_spellings_of_this_machine_are_open(host: Any) -> None:
    from cicl.testing.network import _is_local

    assert _is_local(host)


@pytest.mark.parametrize("host", ["::ffff:192.0.2.1", "localhost.example.org", "10.0.0.1", b"example.org"])
def test_the_neighbours_are_not(host: Any) -> None:
    from cicl.testing.network import _is_local

    assert not _is_local(host)


def test_guards_nest_and_leave_no_trace() -> None:
    code = (
        "import socket\nfrom cicl.testing import no_network\n"
        "before = {**vars(socket)}, {**vars(socket.socket)}\n"
        "with no_network():\n    kept = socket.getaddrinfo\n    with no_network(): pass\n"
        "    assert socket.getaddrinfo is kept\n"
        "assert before == ({**vars(socket)}, {**vars(socket.socket)})\n"
        "kept('192.0.2.1', 1, flags=socket.AI_NUMERICHOST)\nprint('open again')"
    )
    shown = run(code)
    assert shown.stdout == "open again\n", shown.stderr
