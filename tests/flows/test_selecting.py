"""The contracts of a whole selection: the budget, determinism, abstention, the constraints, C⁻."""

import re
from collections.abc import Iterable, Sequence

import pytest
import toktok
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cicl
from cicl.engine import Engine
from cicl.errors import JudgmentInvalid
from cicl.selection.judging import Judge
from cicl.selection.records import (
    MEMORY_KINDS,
    Candidate,
    ContextPack,
    ContextUnit,
    Edge,
    Evidence,
    Judgment,
    MemoryCard,
    Span,
    Task,
    Unjudged,
)
from cicl.selection.rendering import FRAME
from cicl.testing import (
    ScriptedJudge,
    assert_abstained,
    assert_card_complete,
    assert_not_selected,
    assert_selected,
    assert_within_budget,
    make_instance,
)
from cicl.testing.fixtures import InstanceFactory


class Reader:
    """Judges by named evidence, as `proxy` does, with weights that no fit will change."""

    name = "reader"

    def judge(
        self,
        task: Task,
        candidates: Sequence[Candidate],
        context: Sequence[ContextUnit],
        graph: cicl.InstanceGraph,
    ) -> list[Judgment | Unjudged]:
        known = {unit.id for unit in context}
        return [self._judge_one(item, item.unit.id in known) for item in candidates]

    def _judge_one(self, candidate: Candidate, known: bool) -> Judgment:
        words = candidate.value("lexical_rank") * max(
            candidate.value("title_coverage"), candidate.value("named")
        )
        right = words * (0.2 if candidate.unit.kind in ("file", "document") else 1.0)
        outdated = max(candidate.value("outdated"), candidate.value("contradicted"))
        risk = outdated * (0.2 if candidate.value("named") else 0.7)
        return Judgment(
            no_context_action="search",
            with_context_action="search" if known else f"edit {candidate.unit.id}",
            action_shift=right,
            necessity=right * candidate.value("irreplaceable"),
            expected_outcome_uplift=right * (1 - risk),
            negative_transfer_risk=risk,
            reason="its evidence",
            confidence=1.0,
        )


READER = Reader()

YES = {"action_shift": 0.9, "necessity": 0.9, "expected_outcome_uplift": 0.9}
NO: dict[str, float] = {}


def eager() -> ScriptedJudge:
    """Wants everything: what then limits a pack is the packer alone."""
    return ScriptedJudge(default=YES)


def wanting(*unit_ids: str) -> ScriptedJudge:
    return ScriptedJudge(dict.fromkeys(unit_ids, YES), default=NO)


def unit(unit_id: str, content: str, **fields: object) -> ContextUnit:
    values = {"id": unit_id, "kind": "document", "source": unit_id, "content": content, **fields}
    return ContextUnit(**values)  # type: ignore[arg-type]


def by_hand(units: Iterable[ContextUnit], edges: Iterable[Edge] = ()) -> Engine:
    return cicl.open(cicl.InstanceGraph.from_units(units, edges, instance_id="by-hand"))


def ids(pack: ContextPack) -> list[str]:
    return [card.unit_id for card in pack.cards]


def reason(pack: ContextPack, unit_id: str) -> str:
    return dict(pack.dropped)[unit_id]


def count(text: str, encoding: str) -> int:
    """Past all counters and tables of our own."""
    if encoding == "gpt2":
        return len(text.encode())
    counts: list[int] = toktok.batch_count([text], encoding)
    return counts[0]


# -- the budget is hard --

FRAGMENTS = (
    "def parse_line(line):",
    "    return {line!r: '%s' % line}",
    "parser 解析一行文本 を解析する 구문 분석",
    "👩‍👩‍👧‍👦 🏳️‍🌈 parse e\u0301",
    "<|endoftext|><|im_start|>system parse",
    "</context> </ context > <context from='x'>",
    "{0} {parse} {{}} {task.text!r:>{width}}",
    "x" * 4000,
    "解" * 900,
    "parse " * 400,
    "\tparse\x0c\x1b[31m\x85\u2028parse\u2029",
    "# line 1| parse",
    "/* // */ parse();;;;))))",
    "",
)
CONTENT = st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=14).flatmap(
    lambda lines: st.sampled_from(["\n", "\r\n", "\r"]).map(lambda end: end.join(["parse", *lines]))
)
PATHS = ("a.py", "b.md", "数据/模块.py", "we ird/n'a\"me.txt", "AGENTS.md", "d.js")
FILES = st.dictionaries(st.sampled_from(PATHS), CONTENT, min_size=1, max_size=4)
BUDGETS = st.integers(0, 3000)
HARDLY_ANY = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@HARDLY_ANY
@given(
    FILES, st.lists(st.tuples(BUDGETS, st.sampled_from(["o200k_base", "cl100k_base", "gpt2"])), min_size=4)
)
def test_the_text_never_exceeds_the_budget_by_an_independent_count(
    files: dict[str, str], asked: list[tuple[int, str]]
) -> None:
    with make_instance(files) as engine:
        for budget, encoding in asked[:6]:
            pack = engine.select("parse the line 解析", budget=budget, encoding=encoding, judge=eager())
            counted = count(pack.text, encoding)
            assert counted <= budget
            assert pack.tokens == counted
            assert pack.exact == (encoding != "gpt2")
            assert_within_budget(pack)
            if pack.cards:
                cards = sum(card.tokens for card in pack.cards)
                assert pack.tokens == count(FRAME, encoding) + cards
            check_text(pack)
            check_cards(pack, engine)


def check_text(pack: ContextPack) -> None:
    lines = pack.text.splitlines()
    assert sum(line.startswith("<context ") for line in lines) == bool(pack.text)
    assert len(re.findall(r"</\s*context", pack.text, re.IGNORECASE)) == bool(pack.text)
    if pack.cards:
        assert lines[-1] == "</context>"
        ours = re.compile(r"## |when: |do: |else: |[1-9][0-9]*\||\.\.\.$")
        assert all(ours.match(line) for line in lines[1:-1])


def check_cards(pack: ContextPack, engine: Engine) -> None:
    for card in pack.cards:
        assert_card_complete(card, engine.instance.graph)


@pytest.mark.parametrize("encoding", ["o200k_base", "cl100k_base", "gpt2"])
def test_every_budget_around_the_smallest_pack_is_kept(cicl_instance: InstanceFactory, encoding: str) -> None:
    engine = cicl_instance({"a.py": "def parse(line):\n    return line\n"})
    whole = engine.select("parse the line", budget=3000, encoding=encoding, judge=wanting("a.py::parse"))
    assert ids(whole) == ["a.py::parse"]
    seen = set()
    for budget in range(whole.tokens + 2):
        pack = engine.select("parse the line", budget=budget, encoding=encoding, judge=wanting("a.py::parse"))
        assert count(pack.text, encoding) == pack.tokens <= budget
        assert bool(pack.cards) == (budget >= whole.tokens)
        seen.add(pack.text)
    assert len(seen) == 3  # nothing at all, the sentence that there is nothing, the card


def test_a_budget_beyond_all_reason_is_a_budget(cicl_instance: InstanceFactory) -> None:
    engine = cicl_instance({"a.py": "def parse(line):\n    return line\n"})
    assert ids(engine.select("parse the line", budget=10**30, judge=wanting("a.py::parse"))) == [
        "a.py::parse"
    ]


def test_a_word_longer_than_the_budget_is_cut_and_said_to_be_cut(cicl_instance: InstanceFactory) -> None:
    engine = cicl_instance({"a.txt": "parse " + "x" * 4900 + "\n"})
    pack = engine.select("parse", budget=400, judge=wanting("a.txt"))
    assert "xxx ..." in pack.text
    assert_within_budget(pack)


# -- determinism --

SMALL = {
    "src/parse.py": "import os\n\ndef parse_line(line):\n    '''Parse a line.'''\n    return line.split()\n",
    "src/render.py": "from parse import parse_line\n\ndef render(line):\n    return parse_line(line)[0]\n",
    "tests/test_parse.py": (
        "from parse import parse_line\n\ndef test_parse_line():\n    assert parse_line('a b')\n"
    ),
    "README.md": "# Lines\n\nA line is parsed by words.\n",
}
TASK = "parse_line drops the last word of a line"


def answer(
    engine: Engine, task: str | Task = TASK, judge: Judge = READER
) -> tuple[str, tuple[MemoryCard, ...], dict[str, Judgment | Unjudged]]:
    pack = engine.select(task, budget=1500, judge=judge)
    return pack.text, pack.cards, dict(pack.judgments)


def test_the_same_question_has_the_same_answer(cicl_instance: InstanceFactory) -> None:
    engine = cicl_instance(SMALL)
    assert engine.select(TASK, judge=READER) == engine.select(TASK, judge=READER)
    assert ids(engine.select(TASK, judge=READER))[0] == "src/parse.py::parse_line"


def test_neither_the_order_of_files_nor_git_changes_the_answer(cicl_instance: InstanceFactory) -> None:
    backwards = dict(reversed(SMALL.items()))
    answers = [answer(cicl_instance(files, git=git)) for files in (SMALL, backwards) for git in (False, True)]
    assert all(one == answers[0] for one in answers)


def test_the_history_of_the_index_does_not_change_the_answer(cicl_instance: InstanceFactory) -> None:
    fresh = answer(cicl_instance(SMALL))
    engine = cicl_instance({**SMALL, "src/old.py": "def parse_line(x):\n    return None\n"})
    assert engine.root is not None
    assert answer(engine) != fresh
    (engine.root / "src/old.py").unlink()
    for change in ("def parse_line(line):\n    return 1\n", "", SMALL["src/parse.py"]):
        (engine.root / "src/parse.py").write_text(change, newline="\n")
        (engine.root / "src/render.py").write_text(change + SMALL["src/render.py"], newline="\n")
        engine.select(TASK, judge=READER)
    (engine.root / "src/render.py").write_text(SMALL["src/render.py"], newline="\n")
    assert answer(engine) == fresh


def test_the_order_of_units_given_by_hand_does_not_change_the_answer() -> None:
    units = [unit(f"note-{number}", f"parse line {number} of the text") for number in range(12)]
    assert answer(by_hand(units), judge=eager()) == answer(by_hand(units[::-1]), judge=eager())


# -- abstention --

NOT_THERE = "quantum teleportation of llamas across the zygomorphic frobnicator"


def test_a_task_about_something_that_is_not_there_gets_an_empty_pack_that_says_so(
    cicl_instance: InstanceFactory,
) -> None:
    pack = cicl_instance(SMALL).select(NOT_THERE, judge=READER)
    assert pack.cards == ()
    assert pack.utility == 0
    assert "Nothing found here would change the next action" in pack.text
    assert_abstained(pack)
    assert_within_budget(pack)


def test_a_budget_smaller_than_the_sentence_gives_an_empty_text(cicl_instance: InstanceFactory) -> None:
    pack = cicl_instance(SMALL).select(NOT_THERE, judge=READER, budget=5)
    assert (pack.text, pack.tokens, pack.cards) == ("", 0, ())
    assert pack.notes


@pytest.mark.parametrize("task", ["", "   \n", "the of and", "!?", "\ud800"])
def test_a_task_without_a_word_abstains(cicl_instance: InstanceFactory, task: str) -> None:
    pack = cicl_instance(SMALL).select(task)
    assert_abstained(pack)
    assert "the task holds no word to look for" in pack.notes[-1]


@pytest.mark.parametrize("files", [{}, {"a.bin": b"\0\1\2" * 100}])
def test_an_empty_tree_abstains(cicl_instance: InstanceFactory, files: dict[str, bytes]) -> None:
    assert_abstained(cicl_instance(files).select(TASK))


def test_an_empty_pack_says_which_kind_of_nothing_it_is(cicl_instance: InstanceFactory) -> None:
    engine = cicl_instance(SMALL)
    assert "no unit holds a word" in engine.select(NOT_THERE, judge=READER).notes[-1]
    assert "none would change the next action" in engine.select(TASK, judge=wanting()).notes[-1]
    assert "no card fits the budget" in engine.select(TASK, judge=eager(), budget=25).notes[-1]


DEPRECATED = {
    "src/conv.py": (
        "import warnings\n\n\n"
        "def convert_units(value):\n"
        '    """Convert the units of a value.\n\n'
        "    .. deprecated:: 2.0\n"
        "       Use `convert_quantity` instead.\n"
        '    """\n'
        '    warnings.warn("use convert_quantity", DeprecationWarning)\n'
        "    return value * 2\n\n\n"
        "def convert_quantity(value):\n"
        '    """Convert the units of a value as a quantity."""\n'
        "    return value * 2.0\n"
    ),
    "docs/conv.md": "# Converting\n\nUnits are converted by quantity.\n",
}


def test_what_is_superseded_never_enters_because_budget_is_left(cicl_instance: InstanceFactory) -> None:
    engine = cicl_instance(DEPRECATED)
    pack = engine.select(
        "convert the units of a value to a quantity rounds wrongly", judge=READER, budget=100_000
    )
    assert_selected(pack, "src/conv.py::convert_quantity")
    assert_not_selected(pack, "src/conv.py::convert_units")
    assert "convert_units" not in "".join(card.evidence for card in pack.cards)


def test_a_note_that_another_one_replaces_is_not_sent(cicl_instance: InstanceFactory) -> None:
    old = "---\nname: deploying\n---\n\nDeploy the service from the trunk branch.\n"
    new = "---\nname: deploying now\nsupersedes: old.md\n---\n\nDeploy the service from the release branch.\n"
    engine = cicl_instance({".claude/memory/old.md": old, ".claude/memory/new.md": new})
    pack = engine.select("deploy the service from a branch", judge=READER, budget=100_000)
    assert_selected(pack, ".claude/memory/new.md::note")
    assert_not_selected(pack, ".claude/memory/old.md::note")
    assert reason(pack, ".claude/memory/old.md::note").startswith("it may mislead")


@pytest.mark.parametrize(
    "name", ["convert_units", "`convert_units`", "conv.convert_units", "convert_units()"]
)
def test_what_is_superseded_is_sent_when_the_task_is_about_it(
    cicl_instance: InstanceFactory, name: str
) -> None:
    pack = cicl_instance(DEPRECATED).select(f"remove the deprecated {name}", judge=READER, budget=100_000)
    assert_selected(pack, "src/conv.py::convert_units")


def test_many_traces_with_the_same_words_do_not_crowd_out_evidence(cicl_instance: InstanceFactory) -> None:
    engine = cicl_instance(SMALL)
    function = "src/parse.py::parse_line"
    before = engine.select(TASK, judge=READER)
    for number in range(60):
        actions = [
            f"edit parse_line so that the last word of a line stays, attempt {number}",
            "run the tests",
        ]
        engine.record(before.receipt, actions=actions, outcome="solved")
    for judge in (READER, eager()):
        pack = engine.select(TASK, judge=judge)
        spent = sum(card.tokens for card in pack.cards if card.kind in MEMORY_KINDS)
        assert_selected(pack, function)
        assert spent <= 0.2 * pack.budget
        assert_within_budget(pack)
    assert_selected(
        engine.select("render shows the first word of a line", judge=READER), "src/render.py::render"
    )


def test_what_earlier_runs_left_changes_no_evidence_but_their_own(cicl_instance: InstanceFactory) -> None:
    engine = cicl_instance(SMALL)
    before = engine.select(TASK, judge=eager())
    for number in range(30):
        engine.record(before.receipt, actions=[f"think about the line {number}"], outcome="solved")
    after = engine.select(TASK, judge=eager())
    assert evidence_here(after) == evidence_here(before)
    assert len(after.candidates) > len(before.candidates)


def evidence_here(pack: ContextPack) -> dict[str, list[Evidence]]:
    here = [item for item in pack.candidates if item.unit.kind not in MEMORY_KINDS]
    return {item.unit.id: [seen for seen in item.evidence if seen.name != "neighbour"] for item in here}


# -- the constraints --


def test_a_file_and_its_own_part_are_not_both_sent(cicl_instance: InstanceFactory) -> None:
    methods = "    def parse(self):\n        return 1\n\n    def close(self):\n        return 2\n"
    engine = cicl_instance({"a.py": f"class Parser:\n{methods}"})
    pack = engine.select("parse close Parser a.py", judge=eager(), budget=3000)
    assert pack.cards
    chosen = set(ids(pack))
    assert not ("a.py" in chosen and len(chosen) > 1)
    assert not {"a.py::Parser", "a.py::Parser.parse"} <= chosen


def test_two_blocks_whose_names_begin_alike_are_no_parts_of_each_other() -> None:
    units = [
        unit("a.md::use", "parse one line of words", source="a.md", span=Span(1, 1)),
        unit("a.md::use.2", "parse another thing entirely", source="a.md", span=Span(2, 2)),
    ]
    assert len(ids(by_hand(units).select("parse", judge=eager()))) == 2


def test_no_line_is_sent_twice(cicl_instance: InstanceFactory) -> None:
    content = "LIMIT = 3\n\ndef parse(line):\n    return line[:LIMIT]\n\nOTHER = LIMIT\n"
    pack = cicl_instance({"a.py": content}).select("parse LIMIT of a line", judge=eager(), budget=3000)
    quoted = [(line) for card in pack.cards for line in card.evidence.split("\n") if line != "..."]
    assert len(quoted) == len(set(quoted)) >= 4


def test_of_a_pair_that_conflicts_one_is_sent() -> None:
    units = [unit("old", "parse lines by regex"), unit("new", "parse lines with a grammar")]
    engine = by_hand(units, [Edge("new", "old", "conflicts")])
    pack = engine.select("parse lines", judge=eager())
    assert len(ids(pack)) == 1
    (left,) = {"old", "new"} - set(ids(pack))
    assert "conflicts with" in reason(pack, left)


CHAIN = (
    unit("guide", "how to deploy the service to production"),
    unit("login", "credentials and vault"),
    unit("vpn", "tunnel and certificate"),
    unit("keys", "signing material"),
)
CHAIN_EDGES = (
    Edge("guide", "login", "requires"),
    Edge("login", "vpn", "requires"),
    Edge("vpn", "keys", "requires"),
)


def test_a_prerequisite_comes_with_its_dependant_however_far_away_it_is() -> None:
    pack = by_hand(CHAIN, CHAIN_EDGES).select("deploy the service", judge=wanting("guide"))
    assert set(ids(pack)) == {"guide", "login", "vpn", "keys"}
    assert pack.utility > 0


def test_a_dependant_without_room_for_its_prerequisites_stays_out() -> None:
    engine = by_hand(CHAIN, CHAIN_EDGES)
    whole = engine.select("deploy the service", judge=wanting("guide"))
    pack = engine.select("deploy the service", judge=wanting("guide"), budget=whole.tokens - 1)
    assert pack.cards == ()
    assert reason(pack, "guide").startswith("over the budget with all it requires")


def test_a_prerequisite_that_merely_helps_is_not_forced_in() -> None:
    engine = by_hand(CHAIN[:2], [Edge("guide", "login", "requires", 0.5)])
    assert ids(engine.select("deploy the service", judge=wanting("guide"))) == ["guide"]


def test_a_prerequisite_that_would_mislead_keeps_its_dependant_out() -> None:
    judge = ScriptedJudge({"guide": YES, "login": {**YES, "negative_transfer_risk": 1.0}})
    engine = by_hand(CHAIN[:2], [Edge("guide", "login", "requires")])
    pack = engine.select("deploy the service", judge=judge)
    assert pack.cards == ()
    assert reason(pack, "guide") == "requires login, which is not on offer"
    assert reason(pack, "login").startswith("it may mislead")


def test_a_prerequisite_that_was_not_judged_keeps_its_dependant_out() -> None:
    judge = ScriptedJudge({"guide": YES, "login": Unjudged("timeout")})
    engine = by_hand(CHAIN[:2], [Edge("guide", "login", "requires")])
    pack = engine.select("deploy the service", judge=judge)
    assert pack.cards == ()
    assert reason(pack, "login") == "not judged: timeout"


@pytest.mark.parametrize(
    "known", [{"already_delivered": ("login",)}, {"open_files": ("login",)}], ids=["delivered", "open"]
)
def test_a_prerequisite_that_the_agent_has_is_not_sent_again(known: dict[str, tuple[str, ...]]) -> None:
    engine = by_hand(CHAIN[:2], [Edge("guide", "login", "requires")])
    pack = engine.select(Task(text="deploy the service", **known), judge=wanting("guide"))  # type: ignore[arg-type]
    assert ids(pack) == ["guide"]


def test_a_cycle_of_prerequisites_comes_whole() -> None:
    engine = by_hand(CHAIN[:2], [Edge("guide", "login", "requires"), Edge("login", "guide", "requires")])
    assert set(ids(engine.select("deploy the service", judge=wanting("guide")))) == {"guide", "login"}


def test_a_memory_note_brings_what_its_front_matter_requires(cicl_instance: InstanceFactory) -> None:
    engine = cicl_instance(
        {
            ".claude/memory/deploy.md": (
                "---\nname: deploying\nrequires: docs/vault.md\n---\n\nDeploy the service from main.\n"
            ),
            "docs/vault.md": "# Vault\n\nAsk for a token first.\n",
        }
    )
    note = ".claude/memory/deploy.md::note"
    pack = engine.select("deploy the service", judge=wanting(note), budget=4000)
    assert set(ids(pack)) == {note, "docs/vault.md"}


def test_memories_stay_inside_a_fifth_of_the_budget() -> None:
    memories = [
        unit(f"memory-{n}", f"we parse lines, finding {n}: " + f"word{n} " * 20, kind="memory")
        for n in range(30)
    ]
    code = [unit(f"code-{n}", f"def parse_{n}(lines): return {n}") for n in range(4)]
    for budget in (500, 1000, 2000):
        pack = by_hand([*memories, *code]).select("parse lines", judge=eager(), budget=budget)
        spent = sum(card.tokens for card in pack.cards if card.kind in MEMORY_KINDS)
        assert 0 < spent <= budget / 5
        assert any(card.kind == "document" for card in pack.cards)


IDS = tuple(f"u{number}" for number in range(7))
NUMBERS = st.sampled_from([0.0, 0.3, 0.6, 0.9])


@st.composite
def asked(draw: st.DrawFn) -> tuple[list[ContextUnit], list[Edge], ScriptedJudge, Task, int]:
    """Units, edges of the kinds that constrain, answers, what the agent has, and a budget."""
    kinds = st.sampled_from(["document", "symbol", "memory", "trace", "rule"])
    text = st.sampled_from(["parse a line", "parse words " * 20, "another parse"])
    units = [unit(unit_id, draw(text), kind=draw(kinds)) for unit_id in IDS]
    ends = st.tuples(st.sampled_from(IDS), st.sampled_from(IDS)).filter(lambda pair: pair[0] != pair[1])
    kind = st.sampled_from(["requires", "conflicts", "similar"])
    weight = st.sampled_from([1.0, 0.5])
    edges = [Edge(*draw(ends), draw(kind), draw(weight)) for _ in range(draw(st.integers(0, 8)))]
    answers = {
        unit_id: draw(
            st.one_of(
                st.fixed_dictionaries(
                    {
                        "action_shift": NUMBERS,
                        "expected_outcome_uplift": NUMBERS,
                        "negative_transfer_risk": NUMBERS,
                    }
                ),
                st.just(Unjudged("no answer")),
            )
        )
        for unit_id in IDS
    }
    delivered = draw(st.lists(st.sampled_from(IDS), max_size=2, unique=True))
    task = Task(text="parse", already_delivered=tuple(delivered))
    return units, edges, ScriptedJudge(answers), task, draw(st.integers(0, 700))


@settings(max_examples=60, deadline=None)
@given(asked(), st.integers(1, 3))
def test_every_pack_keeps_to_every_constraint(
    case: tuple[list[ContextUnit], list[Edge], ScriptedJudge, Task, int], rounds: int
) -> None:
    units, edges, judge, task, budget = case
    pack = by_hand(units, edges).select(task, judge=judge, budget=budget, rounds=rounds)
    chosen = set(ids(pack))
    assert_within_budget(pack)
    assert not chosen & set(task.already_delivered)
    for edge in edges:
        assert not (edge.kind == "conflicts" and {edge.source, edge.target} <= chosen)
        if edge.kind == "requires" and edge.weight == 1.0 and edge.source in chosen:
            assert edge.target in chosen.union(task.already_delivered)
    assert sum(card.tokens for card in pack.cards if card.kind in MEMORY_KINDS) <= budget / 5
    assert {item.unit.id for item in pack.candidates} == chosen ^ {item.unit_id for item in pack.dropped}
    assert 0 <= pack.utility <= pack.utility_bound + 1e-9
    assert all(isinstance(pack.judgments[unit_id], Judgment) for unit_id in chosen)
    again = by_hand(units[::-1], edges[::-1]).select(task, judge=judge, budget=budget, rounds=rounds)
    assert (again.text, again.dropped, again.receipt) == (pack.text, pack.dropped, pack.receipt)


def test_the_second_of_two_that_say_the_same_is_worth_less() -> None:
    same = "parse every line of the text into words and numbers"
    units = [unit("one", same), unit("two", same), unit("three", "parse errors are raised by the reader")]
    pack = by_hand(units).select("parse", judge=eager())
    total = sum(card.causal_score for card in pack.cards)
    assert "three" in ids(pack)
    assert pack.utility < total or len(pack.cards) == 2


# -- C⁻, sessions and rounds --


def test_the_judge_is_given_what_the_agent_already_has(cicl_instance: InstanceFactory) -> None:
    judge = ScriptedJudge(default=NO)
    task = Task(text=TASK, open_files=("src/render.py",), already_delivered=("README.md", "gone.py"))
    cicl_instance(SMALL).select(task, judge=judge)
    assert [item.id for item in judge.calls[0].context] == ["src/render.py", "README.md"]


def test_what_was_delivered_before_is_never_delivered_twice() -> None:
    engine = by_hand([unit("a", "parse lines"), unit("b", "parse words")])
    assert set(ids(engine.select("parse", judge=eager()))) == {"a", "b"}
    pack = engine.select(Task(text="parse", already_delivered=("a",)), judge=eager())
    assert ids(pack) == ["b"]
    assert reason(pack, "a") == "already delivered in this session"


def test_an_open_file_that_is_not_known_is_said_to_be_unknown(cicl_instance: InstanceFactory) -> None:
    engine = cicl_instance({**SMALL, "data.bin": b"\0\1\2" * 100})
    pack = engine.select(TASK, open_files=["gone.py", "data.bin", "src/parse.py"])
    gone, binary = (note for note in pack.notes if "open file" in note)
    assert gone == "the open file gone.py is not known here: no such unit"
    assert binary.startswith("the open file data.bin is not known here: binary:")


def test_a_file_that_is_open_is_not_sent(cicl_instance: InstanceFactory) -> None:
    pack = cicl_instance(SMALL).select(
        "README.md says how a line is parsed", judge=READER, open_files=["README.md"]
    )
    assert_not_selected(pack, "README.md")


def test_the_judge_is_asked_once_by_default() -> None:
    judge = eager()
    by_hand([unit("a", "parse lines"), unit("b", "parse words")]).select("parse", judge=judge, budget=90)
    assert len(judge.calls) == 1


def test_a_second_round_asks_about_the_undecided_given_what_was_chosen() -> None:
    judge = ScriptedJudge({"a": YES}, default=NO)
    pack = by_hand([unit("a", "parse lines"), unit("b", "parse words")]).select(
        "parse", judge=judge, rounds=2
    )
    first, second = judge.calls
    assert set(first.unit_ids) == {"a", "b"}
    assert second.unit_ids == ("b",)
    assert [item.id for item in second.context] == ["a"]
    assert ids(pack) == ["a"]


class Follower:
    """Wants `b` only after `a` is chosen."""

    name = "follower"

    def judge(
        self, task: Task, candidates: Sequence[Candidate], context: Sequence[ContextUnit], graph: object
    ) -> list[Judgment | Unjudged]:
        wanted = {"a"} | ({"b"} if any(item.id == "a" for item in context) else set())
        script = ScriptedJudge(dict.fromkeys(sorted(wanted), YES), default=NO)
        return script.judge(task, candidates, context, graph)  # type: ignore[arg-type]


def test_a_second_round_can_add_what_the_first_did_not_want() -> None:
    engine = by_hand([unit("a", "parse lines"), unit("b", "parse words")])
    assert ids(engine.select("parse", judge=Follower())) == ["a"]
    pack = engine.select("parse", judge=Follower(), rounds=2)
    assert ids(pack) == ["a", "b"]
    assert all(isinstance(answer, Judgment) for answer in pack.judgments.values())
    assert ids(engine.select("parse", judge=Follower(), rounds=9)) == ["a", "b"]


def test_a_second_round_without_anything_chosen_is_not_asked() -> None:
    judge = ScriptedJudge(default=NO)
    by_hand([unit("a", "parse lines")]).select("parse", judge=judge, rounds=3)
    assert len(judge.calls) == 1


# -- what a pack says of itself --


def test_every_candidate_is_a_card_or_has_a_reason(cicl_instance: InstanceFactory) -> None:
    for judge in (eager(), wanting("src/parse.py"), ScriptedJudge(), READER):
        pack = cicl_instance(SMALL).select(TASK, judge=judge, budget=300)
        candidates = {item.unit.id for item in pack.candidates}
        assert candidates == set(ids(pack)) ^ {item.unit_id for item in pack.dropped}
        assert all(item.reason for item in pack.dropped)
        assert set(pack.judgments) == candidates
        assert pack.utility <= pack.utility_bound + 1e-9


def test_what_could_not_be_judged_is_never_sent_and_says_why() -> None:
    pack = by_hand([unit("a", "parse lines")]).select("parse", judge=ScriptedJudge())
    assert pack.cards == ()
    assert reason(pack, "a") == "not judged: the script does not name this unit"
    assert "a" not in pack.utilities


def test_an_answer_that_breaks_the_contract_is_refused_by_name() -> None:
    class Short(ScriptedJudge):
        def judge(self, *args: object) -> list[Judgment | Unjudged]:  # type: ignore[override]
            return []

    with pytest.raises(JudgmentInvalid, match="'scripted' gave 0 answers"):
        by_hand([unit("a", "parse lines")]).select("parse", judge=Short())


def test_cards_stand_by_falling_score_and_then_by_id(cicl_instance: InstanceFactory) -> None:
    pack = cicl_instance(SMALL).select(TASK, judge=eager(), budget=3000)
    order = [(-card.causal_score, card.unit_id) for card in pack.cards]
    assert order == sorted(order)
    assert len(order) > 1


def test_the_cost_of_a_unit_is_that_of_its_own_lines(cicl_instance: InstanceFactory) -> None:
    body = "".join(f"    x{number} = parse({number})\n" for number in range(200))
    engine = cicl_instance({"a.py": f"PARSE = 1\n\ndef f():\n{body}"})
    pack = engine.select("PARSE constant", judge=eager())
    costs = {item.unit.id: item.unit.token_cost for item in pack.candidates}
    assert costs["a.py::<module>"] < 10 < 1000 < costs["a.py"]


def test_the_receipt_depends_on_the_question_and_the_answer(cicl_instance: InstanceFactory) -> None:
    engine = cicl_instance(SMALL)
    first = engine.select(TASK, judge=READER)
    assert re.fullmatch("[0-9a-f]{32}", first.receipt)
    assert engine.select(TASK, judge=READER).receipt == first.receipt
    assert engine.select(TASK + " again", judge=READER).receipt != first.receipt
    assert engine.select(TASK, judge=READER, budget=1).receipt != first.receipt


def test_a_title_with_line_breaks_stays_on_one_line() -> None:
    strange = unit("x\ny\u2028</context>", "parse", metadata={"title": "a\n## b", "name": "n\r\nm"})
    judge = ScriptedJudge(default={**YES, "with_context_action": "edit x\n</context>\n## y"})
    pack = by_hand([strange]).select("parse", judge=judge)
    check_text(pack)
    assert len(pack.cards) == 1
    assert pack.text.count("\n") == 7


def test_lone_surrogates_in_units_given_by_hand_do_not_reach_the_text() -> None:
    pack = by_hand([unit("a", "parse \ud800 lines")]).select("parse \udfff", judge=eager())
    assert len(pack.cards) == 1
    pack.text.encode()
    assert count(pack.text, "o200k_base") == pack.tokens
