"""The library's front: sessions, receipts and what past runs do to the next answer."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest

import cicl
from cicl.engine import Engine
from cicl.errors import (
    ConfigurationError,
    JudgeError,
    JudgeNotFound,
    ReceiptNotFound,
    RepositoryError,
    StoreError,
)
from cicl.selection.records import MEMORY_KINDS, ContextPack, ContextUnit, Task
from cicl.storage.journal import Journal
from cicl.testing import ScriptedJudge, assert_selected, assert_within_budget, isolated_state
from cicl.testing.fixtures import InstanceFactory

FILES = {
    "src/parse.py": "import os\n\ndef parse_line(line):\n    '''Parse a line.'''\n    return line.split()\n",
    "src/render.py": "from parse import parse_line\n\ndef render(line):\n    return parse_line(line)[0]\n",
    "tests/test_parse.py": (
        "from parse import parse_line\n\ndef test_parse_line():\n    assert parse_line('a b')\n"
    ),
    "README.md": "# Lines\n\nA line is parsed by words.\n",
}
TASK = "parse_line drops the last word of a line"
PARSE = "src/parse.py::parse_line"
YES = {"action_shift": 0.9, "necessity": 0.9, "expected_outcome_uplift": 0.9}


def sending(*unit_ids: str) -> ScriptedJudge:
    """A judge that wants these and nothing else, whatever the weights of `proxy` say today."""
    return ScriptedJudge(dict.fromkeys(unit_ids or (PARSE,), YES), default={})


@pytest.fixture
def engine(cicl_instance: InstanceFactory) -> Engine:
    return cicl_instance(FILES)


@pytest.fixture
def no_state(engine: Engine, tmp_path: Path) -> Iterator[Path]:
    """A state folder that no file can be made in, also not by root: a file stands where it should be."""
    assert engine
    (tmp_path / "file").write_text("")
    with isolated_state(tmp_path / "file" / "state") as folder:
        yield folder


def ids(pack: ContextPack) -> list[str]:
    return [card.unit_id for card in pack.cards]


def root_of(engine: Engine) -> Path:
    assert engine.root is not None
    return engine.root


# -- opening --


def test_any_folder_of_a_work_tree_opens_the_work_tree(cicl_instance: InstanceFactory) -> None:
    root = root_of(cicl_instance(FILES, git=True))
    assert cicl.open(root / "src").root == root
    assert cicl.open(root / "src").instance_id == cicl.open(root).instance_id


def test_the_settings_of_a_project_count_until_others_are_given(cicl_instance: InstanceFactory) -> None:
    engine = cicl_instance({**FILES, "cicl.toml": "budget = 123\nencoding = 'cl100k_base'\n"})
    pack = engine.select(TASK)
    assert (pack.budget, pack.encoding) == (123, "cl100k_base")
    assert engine.select(TASK, budget=0, encoding="o200k_base").budget == 0
    assert cicl.open(root_of(engine), settings=cicl.Settings(budget=7)).select(TASK).budget == 7


@pytest.mark.parametrize("encoding", ["gpt2", "qwen3.5"])
def test_an_encoding_that_is_not_counted_by_pieces_can_be_set(
    cicl_instance: InstanceFactory, encoding: str
) -> None:
    engine = cicl_instance({**FILES, "cicl.toml": f"encoding = '{encoding}'\n"})
    pack = engine.select(TASK, judge=sending())
    assert_selected(pack, PARSE)
    assert_within_budget(pack)


@pytest.mark.parametrize("encoding", ["../../x", "klingon_base", ""])
def test_an_encoding_that_nobody_knows_is_refused_before_anything_is_kept(
    cicl_instance: InstanceFactory, cicl_state: Path, encoding: str
) -> None:
    engine = cicl_instance({**FILES, "cicl.toml": f"encoding = '{encoding}'\n"})
    with pytest.raises(ConfigurationError, match="unknown encoding"):
        engine.select(TASK)
    assert not list(cicl_state.rglob("*"))


def test_what_cannot_be_opened_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "gone", tmp_path / "file"):
        with pytest.raises(RepositoryError, match=path.name):
            cicl.open(path)


def test_what_cannot_be_asked_is_refused_by_name(engine: Engine) -> None:
    with pytest.raises(ConfigurationError, match="the budget is -1 tokens"):
        engine.select(TASK, budget=-1)
    with pytest.raises(ConfigurationError, match="rounds is 0"):
        engine.select(TASK, rounds=0)
    with pytest.raises(ConfigurationError, match="unknown encoding 'klingon'"):
        engine.select(TASK, encoding="klingon")
    with pytest.raises(JudgeNotFound, match="no judge is called 'solomon'"):
        engine.select(TASK, judge="solomon")
    with pytest.raises(JudgeError, match="no_such_module"):
        engine.select(TASK, judge="no_such_module:Judge")
    with pytest.raises(ConfigurationError, match="retrieval 'psychic' is unknown"):
        cicl.open(root_of(engine), settings=cicl.Settings(retrieval="psychic")).select(TASK)


# -- a living engine --


def test_a_living_engine_sees_the_tree_as_it_is(engine: Engine) -> None:
    first = engine.instance
    assert engine.instance is first
    (root_of(engine) / "src/parse.py").write_text("def parse_word(line):\n    return line\n")
    assert engine.instance is not first
    assert "src/parse.py::parse_word" in engine.instance.graph
    assert first.graph.refresh() is engine.instance.graph


def test_a_work_tree_that_is_gone_is_an_error_with_a_name(engine: Engine) -> None:
    engine.select(TASK)
    shutil.rmtree(root_of(engine))
    with pytest.raises(RepositoryError, match=root_of(engine).name):
        engine.select(TASK)


def test_the_graph_is_a_frozen_networkx_graph(engine: Engine) -> None:
    graph = engine.graph
    assert isinstance(graph, nx.MultiDiGraph)
    assert graph.nodes[PARSE]["kind"] == "symbol"
    assert graph.has_edge("src/parse.py", PARSE, "contains")
    assert graph.has_edge("src/render.py::render", PARSE, "calls")
    with pytest.raises(nx.NetworkXError):
        graph.add_node("x")


def test_plain_bm25_can_be_chosen(engine: Engine) -> None:
    plain = cicl.open(root_of(engine), settings=cicl.Settings(retrieval="rank-bm25"))
    assert_selected(plain.select(TASK, judge=sending()), PARSE)


# -- open files --


def test_open_files_may_be_given_as_the_user_sees_them(engine: Engine) -> None:
    judge = ScriptedJudge(default={})
    root = root_of(engine)
    for path in ("src/parse.py", "./src/parse.py", "src/../src//parse.py", str(root / "src" / "parse.py")):
        engine.select(TASK, open_files=[path], judge=judge)
    assert {call.task.open_files for call in judge.calls} == {("src/parse.py",)}


def test_open_files_are_added_to_those_of_the_task(engine: Engine) -> None:
    judge = ScriptedJudge(default={})
    engine.select(Task(text=TASK, open_files=("README.md",)), open_files=["src/parse.py"], judge=judge)
    assert judge.calls[0].task.open_files == ("README.md", "src/parse.py")


def test_a_lone_surrogate_in_a_task_reaches_nobody(engine: Engine) -> None:
    judge = ScriptedJudge(default={})
    pack = engine.select(TASK + " \ud83d", judge=judge)
    assert judge.calls[0].task.text == pack.task.text == TASK + " \ufffd"


def test_a_pasted_log_is_a_task(engine: Engine) -> None:
    assert_within_budget(engine.select(TASK + "\n" + "some log line {0} %s\n" * 15_000, budget=500))


# -- sessions --


def test_a_session_is_not_sent_the_same_card_twice(engine: Engine) -> None:
    first = engine.select(TASK, session="one", judge=sending())
    assert_selected(first, PARSE)
    again = engine.select(TASK, session="one", judge=sending())
    assert not set(ids(first)) & set(ids(again))
    assert dict(again.dropped)[PARSE] == "already delivered in this session"
    assert ids(engine.select(TASK, session="two", judge=sending())) == ids(first)
    assert (
        ids(engine.select(TASK, judge=sending())) == ids(engine.select(TASK, judge=sending())) == ids(first)
    )


def test_a_session_is_remembered_by_the_next_process(engine: Engine) -> None:
    first = engine.select(TASK, session="one", judge=sending())
    assert not set(ids(first)) & set(
        ids(cicl.open(root_of(engine)).select(TASK, session="one", judge=sending()))
    )


def test_what_changed_since_is_sent_again(engine: Engine) -> None:
    first = engine.select(TASK, session="one", judge=sending())
    file = root_of(engine) / "src/parse.py"
    file.write_text(file.read_text().replace("line.split()", "line.split(' ')"))
    changed = engine.select(TASK, session="one", judge=sending())
    assert PARSE in ids(first)
    assert PARSE in ids(changed)
    assert PARSE not in ids(engine.select(TASK, session="one", judge=sending()))
    file.write_text(FILES["src/parse.py"])
    assert PARSE in ids(engine.select(TASK, session="one", judge=sending()))


def test_a_unit_that_only_moved_is_not_sent_again(engine: Engine) -> None:
    engine.select(TASK, session="one", judge=sending())
    file = root_of(engine) / "src/parse.py"
    file.write_text("# a line above\n" + FILES["src/parse.py"])
    assert PARSE not in ids(engine.select(TASK, session="one", judge=sending()))


def test_what_a_session_has_is_part_of_what_the_judge_is_told(engine: Engine) -> None:
    engine.select(TASK, session="one", judge=sending())
    judge = ScriptedJudge(default={})
    engine.select(TASK, session="one", judge=judge)
    assert [unit.id for unit in judge.calls[0].context] == [PARSE]


def test_a_graph_built_by_hand_says_that_it_has_no_sessions() -> None:
    unit = ContextUnit(id="a", kind="document", source="a", content="parse a line")
    engine = cicl.open(cicl.InstanceGraph.from_units([unit], instance_id="hand"))
    pack = engine.select(TASK, session="one", judge=ScriptedJudge(default=YES))
    assert ids(pack) == ["a"]
    assert "no sessions" in pack.notes[-1]
    assert (engine.root, engine.instance_id) == (None, "hand")
    for verb in (engine.index, engine.status):
        with pytest.raises(StoreError, match="built by hand"):
            verb()
    with pytest.raises(StoreError, match="built by hand"):
        engine.record(pack.receipt, actions=[], outcome="solved")


# -- receipts --


def test_every_pack_leaves_a_receipt(engine: Engine) -> None:
    pack = engine.select(TASK, session="one", judge=sending())
    empty = engine.select("quantum llamas")
    with Journal.open(next(journal_folders(engine))) as journal:
        kept = journal.find_receipt(pack.receipt)
        nothing = journal.find_receipt(empty.receipt)
    assert kept is not None
    assert kept.unit_ids == tuple(ids(pack))
    assert (kept.session, kept.task, kept.tokens) == ("one", TASK, pack.tokens)
    assert kept.instance_id == engine.instance_id
    assert nothing is not None
    assert nothing.unit_ids == ()


def journal_folders(engine: Engine) -> Iterator[Path]:
    state = Path(os.environ["CICL_HOME"])
    return (path.parent for path in state.rglob("journal.sqlite3") if path.parent.name == engine.instance_id)


def test_a_receipt_that_was_not_given_here_is_refused(engine: Engine) -> None:
    for receipt in ("0" * 32, ""):
        with pytest.raises(ReceiptNotFound):
            engine.record(receipt, actions=["edit src/parse.py"], outcome="solved")


def test_a_solved_run_becomes_a_trace_and_a_strategy_that_remember_what_was_acted_on(engine: Engine) -> None:
    pack = engine.select(TASK, judge=sending())
    engine.record(pack.receipt, actions=["edit src/parse.py", "run the tests"], outcome="solved")
    graph = engine.graph
    kinds = {data["kind"]: node for node, data in graph.nodes(data=True) if data["kind"] in MEMORY_KINDS}
    assert set(kinds) == {"trace", "strategy"}
    assert graph.has_edge(kinds["trace"], kinds["strategy"], "remembers")
    for kind in ("trace", "strategy"):
        assert graph.has_edge(kinds[kind], PARSE, "remembers")
        assert not graph.has_edge(kinds[kind], "src/render.py::render", "remembers")
    unit = engine.instance.graph.unit(kinds["strategy"])
    assert unit.content == f"what worked for: {TASK}\n1. edit src/parse.py\n2. run the tests"
    assert unit.confidence > 0.8


def test_a_failed_run_becomes_a_trace_only(engine: Engine) -> None:
    engine.record(
        engine.select(TASK, judge=sending()).receipt, actions=["edit src/parse.py"], outcome="gave up"
    )
    kinds = [data["kind"] for _, data in engine.graph.nodes(data=True) if data["kind"] in MEMORY_KINDS]
    assert kinds == ["trace"]


@pytest.mark.parametrize(
    "action",
    [
        "edit src/parse.py",
        "edit ./src/parse.py:3",
        "Edit(file='{root}/src/parse.py')",
        "edit src/parse.py::parse_line",
        "call parse_line('a')",
        "open `src/parse.py`, then think",
    ],
)
def test_an_action_names_what_it_acts_on_in_many_ways(engine: Engine, action: str) -> None:
    pack = engine.select(TASK, judge=sending())
    engine.record(pack.receipt, actions=[action.replace("{root}", str(root_of(engine)))], outcome="solved")
    assert engine.instance.history[PARSE].successes == 1


@pytest.mark.parametrize(
    "action",
    [
        "edit lib/src/parse.py",
        "edit ../src/parse.py",
        "edit src/parse.pyc",
        "parse_lines",
        "xparse_line()",
        "",
    ],
)
def test_what_only_looks_alike_is_not_acted_on(engine: Engine, action: str) -> None:
    engine.record(engine.select(TASK, judge=sending()).receipt, actions=[action], outcome="solved")
    assert PARSE not in engine.instance.history


def test_a_name_that_is_plain_english_has_to_stand_where_code_stands(cicl_instance: InstanceFactory) -> None:
    engine = cicl_instance({"src/a.py": "def search(text):\n    return text\n"})
    receipt = engine.select("search text", judge=sending("src/a.py::search")).receipt
    engine.record(receipt, actions=["search the web"], outcome="solved")
    assert "src/a.py::search" not in engine.instance.history
    for number, action in enumerate(["edit `search`", "call search()", "look at a.search"], start=1):
        engine.record(receipt, actions=[action], outcome="solved")
        assert engine.instance.history["src/a.py::search"].successes == number


def test_one_action_given_as_text_is_one_action(engine: Engine) -> None:
    engine.record(engine.select(TASK, judge=sending()).receipt, actions="edit src/parse.py", outcome="solved")
    assert engine.instance.history[PARSE].successes == 1


def test_a_strategy_can_be_chosen_next_time(engine: Engine) -> None:
    engine.record(
        engine.select(TASK, judge=sending()).receipt, actions=["edit src/parse.py"], outcome="solved"
    )
    (strategy,) = [unit_id for unit_id in engine.instance.graph if unit_id.startswith("strategy/")]
    pack = engine.select(TASK, judge=sending(strategy, PARSE))
    assert set(ids(pack)) == {strategy, PARSE}
    assert "what worked for" in pack.text


# -- when the disk refuses --


@pytest.mark.usefixtures("no_state")
def test_without_a_place_for_state_there_is_an_answer_and_a_note(engine: Engine) -> None:
    pack = cicl.open(root_of(engine)).select(TASK, judge=sending())
    assert_selected(pack, PARSE)
    assert any("the index could not be saved" in note for note in pack.notes)
    assert any("the receipt was not kept" in note for note in pack.notes)


@pytest.mark.usefixtures("no_state")
def test_without_a_place_for_state_a_session_is_answered(engine: Engine) -> None:
    assert_selected(cicl.open(root_of(engine)).select(TASK, session="one", judge=sending()), PARSE)


def test_a_damaged_journal_is_said_left_alone_and_answered_around(engine: Engine) -> None:
    engine.select(TASK, session="one", judge=sending())
    (folder,) = journal_folders(engine)
    for file in folder.glob("journal.sqlite3*"):
        file.unlink()
    (folder / "journal.sqlite3").write_bytes(b"not a database" * 1000)
    pack = cicl.open(root_of(engine)).select(TASK, session="one", judge=sending())
    assert_selected(pack, PARSE)
    said = "\n".join(pack.notes)
    assert "past runs were not read" in said
    assert "what this session was given before is not known" in said
    assert "the receipt was not kept" in said
    assert (folder / "journal.sqlite3").read_bytes().startswith(b"not a database")


def test_a_damaged_index_is_made_again(engine: Engine) -> None:
    before = engine.select(TASK, judge=sending())
    (folder,) = journal_folders(engine)
    for file in folder.glob("*.bin"):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    after = cicl.open(root_of(engine)).select(TASK, judge=sending())
    assert (after.text, after.tokens) == (before.text, before.tokens)


def test_state_kept_inside_the_tree_does_not_change_the_answer(engine: Engine) -> None:
    before = engine.select(TASK, judge=sending())
    root = root_of(engine)
    with isolated_state(root / ".state"):
        inside = cicl.open(root)
        answers = [inside.select(TASK, session=str(number), judge=sending()) for number in range(3)]
        inside.record(answers[0].receipt, actions=["edit src/parse.py"], outcome="failed")
        assert not [unit_id for unit_id in inside.instance.graph if unit_id.startswith(".state")]
    assert {pack.text for pack in answers} == {before.text}


# -- processes --

ASK = """
import sys, cicl
from cicl.testing import ScriptedJudge
yes = {"action_shift": 0.9, "necessity": 0.9, "expected_outcome_uplift": 0.9}
judge = ScriptedJudge({sys.argv[4]: yes}, default={})
pack = cicl.open(sys.argv[1]).select(sys.argv[2], session=sys.argv[3] or None, judge=judge)
sys.stdout.write(pack.text)
"""


def test_two_processes_at_once_give_the_same_answer(engine: Engine) -> None:
    arguments = [sys.executable, "-c", ASK, str(root_of(engine)), TASK]
    running = [
        subprocess.Popen([*arguments, session, PARSE], stdout=subprocess.PIPE, text=True, encoding="utf-8")
        for session in ("one", "")
    ]
    answers = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert answers[0] == answers[1] == engine.select(TASK, judge=sending()).text


def test_the_package_has_its_names_and_no_others() -> None:
    assert set(cicl.__all__) <= set(dir(cicl))
    with pytest.raises(AttributeError, match="has no attribute 'opne'"):
        cicl.opne  # noqa: B018


def test_importing_cicl_loads_nothing_heavy() -> None:
    heavy = {"numpy", "networkx", "pydantic", "sqlalchemy", "tiktoken", "toktok"}
    code = f"import sys, cicl; print(sorted({heavy} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_a_select_loads_neither_the_store_nor_a_model_library(engine: Engine) -> None:
    code = (
        "import sys, cicl; cicl.open(sys.argv[1]).select('parse_line');"
        "print(sorted({'sqlalchemy', 'alembic', 'pydantic', 'openai', 'networkx'} & set(sys.modules)))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code, str(root_of(engine))], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == "[]"


@pytest.mark.parametrize(("actions", "outcome"), [([], ""), ([], None), ([5], "solved")])
def test_what_is_recorded_must_be_text(
    cicl_instance: InstanceFactory, actions: list[str], outcome: str
) -> None:
    engine = cicl_instance({"a.py": "def total(items):\n    return sum(items)\n"})
    receipt = engine.select("total ignores the quantity").receipt
    with pytest.raises(ConfigurationError):
        engine.record(receipt, actions=actions, outcome=outcome)


def test_the_graph_can_be_exported(cicl_instance: InstanceFactory, tmp_path: Path) -> None:
    engine = cicl_instance({"a.py": "def total(items):\n    return sum(items)\n"})
    nx.write_graphml(engine.graph, tmp_path / "graph.graphml")
    assert "a.py::total" in nx.read_graphml(tmp_path / "graph.graphml", force_multigraph=True)
