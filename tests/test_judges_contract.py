import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from cicl.cli import main
from cicl.errors import ConfigurationError, JudgeError, JudgeNotFound, JudgmentInvalid
from cicl.selection.judging import find_judges, load_judge
from cicl.testing import InstanceFactory, assert_selected, check_judge

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tests/third_party_judge"
TASK = "parse_header must strip the value"
FILES = {
    "src/parser.py": "def parse_header(line):\n    return line.split(':')\n",
    "docs/headers.md": "# Headers\n\nA header is split.\n",
}

STRANGERS = """
import sys
from cicl import Judgment, Unjudged
from cicl.errors import ConfigurationError

FIELDS = dict(
    no_context_action="search", with_context_action="read it", action_shift=0.5, necessity=0.5,
    expected_outcome_uplift=0.5, negative_transfer_risk=0.0, reason="why not", confidence=0.5,
)

class Base:
    name = "stranger"
    def judge(self, task, candidates, context, graph):
        return [self.answer() for _ in candidates]

class Fine(Base):
    def answer(self): return FIELDS
class TooMuch(Base):
    def answer(self): return {**FIELDS, "necessity": 1.01}
class Negative(Base):
    def answer(self): return Judgment(**{**FIELDS, "confidence": -0.1})
class NotANumber(Base):
    def answer(self): return {**FIELDS, "action_shift": float("nan")}
class Words(Base):
    def answer(self): return {**FIELDS, "action_shift": "high"}
class Truth(Base):
    def answer(self): return {**FIELDS, "necessity": True}
class NoReason(Base):
    def answer(self): return {**FIELDS, "reason": None}
class Missing(Base):
    def answer(self): return {key: FIELDS[key] for key in FIELDS if key != "necessity"}
class Short(Base):
    def judge(self, *arguments): return []
class Nothing(Base):
    def judge(self, *arguments): return None
class Number(Base):
    def answer(self): return 0.5
class Failing(Base):
    def answer(self): return {}["model"]
class Unset(Base):
    def answer(self): raise ConfigurationError("set MODEL_KEY")
class Lazy(Base):
    def answer(self): return Judgment(reason="no")
class Greedy(Base):
    def __init__(self, model): pass
class Nameless:
    def judge(self, *arguments): return []
"""


def install(target: Path, name: str = "name-judge", module: str = "name_judge") -> None:
    """Put the package on a path as pip would, without the network that building it may need."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text("utf-8"))["project"]
    info = target / f"{name.replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {project['version']}\n")
    points = project["entry-points"]["cicl.judges"]
    lines = [f"{key} = {value}" for key, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[cicl.judges]", *lines, ""]))
    shutil.copy(PACKAGE / f"{module}.py", target)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    return tmp_path / "site"


@pytest.fixture
def strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The module of many broken judges, which no entry point offers."""
    (tmp_path / "strangers.py").write_text(STRANGERS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "strangers", raising=False)
    return "strangers"


def test_a_judge_of_another_package_is_found_passes_and_is_used(
    installed: Path, cicl_instance: InstanceFactory
) -> None:
    assert {"names", "proxy"} <= find_judges().keys()
    check_judge("names", counterfactual=True)
    pack = cicl_instance(FILES).select(TASK, judge="names")
    assert_selected(pack, "src/parser.py::parse_header")
    assert "its name shares 100% of its words" in str(pack.judgments["src/parser.py::parse_header"])


def test_it_takes_20_lines_and_the_readme_shows_those() -> None:
    code = (PACKAGE / "name_judge.py").read_text("utf-8")
    assert sum(1 for line in code.splitlines() if line.strip()) <= 20
    readme = (ROOT / "judges/README.md").read_text("utf-8")
    assert f"```python\n{code}```" in readme
    points = (PACKAGE / "pyproject.toml").read_text("utf-8").partition("[project.entry-points")[2]
    assert f"```toml\n[project.entry-points{points}```" in readme


def test_the_command_uses_it_by_name(
    installed: Path, cicl_instance: InstanceFactory, cicl_state: Path
) -> None:
    root = str(cicl_instance(FILES).root)
    shown = subprocess.run(
        [sys.executable, "-m", "cicl", "select", TASK, "--repo", root, "--judge", "names", "--json"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), str(ROOT)])},
        capture_output=True,
        text=True,
    )
    assert shown.returncode == 0, shown.stderr
    data = json.loads(shown.stdout)
    assert [card["unit_id"] for card in data["cards"]] == ["src/parser.py::parse_header"]
    assert data["cards"][0]["action"] == "read src/parser.py::parse_header"


REFUSED = [
    ("TooMuch", "unit {unit}: necessity is 1.01; it must lie in [0, 1]"),
    ("Negative", "confidence is -0.1; it must lie in [0, 1]"),
    ("NotANumber", "unit {unit}: action_shift is nan; it must lie in [0, 1]"),
    ("Words", "unit {unit}: action_shift is 'high'; it must be a number in [0, 1]"),
    ("Truth", "unit {unit}: necessity is True; it must be a number in [0, 1]"),
    ("NoReason", "unit {unit}: reason is None; it must be text"),
    ("Missing", "unit {unit}: the field necessity is missing"),
    ("Short", "gave 0 answers to "),
    ("Nothing", "gave a NoneType, not a sequence of answers"),
    ("Number", "unit {unit}: the answer is a float, not a Judgment"),
]


@pytest.mark.parametrize(("judge", "message"), REFUSED)
def test_a_wrong_answer_is_refused_by_the_judges_name_and_the_field(
    judge: str,
    message: str,
    strangers: str,
    cicl_instance: InstanceFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    engine = cicl_instance(FILES)
    unit = engine.select(TASK, judge=f"{strangers}:Fine").candidates[0].unit.id
    with pytest.raises(JudgmentInvalid, match="judge 'stranger'") as failed:
        engine.select(TASK, judge=f"{strangers}:{judge}")
    assert re.search(re.escape(message).replace(r"\{unit\}", r"\S+"), str(failed.value)), unit
    assert main(["select", TASK, "--repo", str(engine.root), "--judge", f"{strangers}:{judge}"]) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"cicl: {failed.value}\n")


@pytest.mark.parametrize(
    ("judge", "error", "message"),
    [
        ("Failing", JudgeError, "judge 'stranger' failed: KeyError: 'model'"),
        ("Lazy", JudgeError, "judge 'stranger' failed: TypeError: .* missing .*'necessity'"),
        ("Unset", ConfigurationError, "set MODEL_KEY"),
        ("Greedy", JudgeError, "judge 'strangers:Greedy' cannot be made: TypeError: .*'model'"),
        ("Nameless", JudgeError, "judge 'strangers:Nameless' lacks a name or a judge"),
        ("Absent", JudgeError, "judge 'strangers:Absent' cannot be made: AttributeError"),
    ],
)
def test_a_judge_that_fails_says_so_by_name(
    judge: str, error: type[Exception], message: str, strangers: str, cicl_instance: InstanceFactory
) -> None:
    with pytest.raises(error, match=message):
        cicl_instance(FILES).select(TASK, judge=f"{strangers}:{judge}")


def test_an_unknown_name_lists_what_is_installed(
    installed: Path, cicl_instance: InstanceFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(JudgeNotFound, match=r"no judge is called 'oracle'; installed: .*names.*proxy"):
        load_judge("oracle")
    assert main(["select", TASK, "--repo", str(cicl_instance(FILES).root), "--judge", "oracle"]) == 1
    assert capsys.readouterr().err.startswith("cicl: no judge is called 'oracle'; installed: ")


def test_the_command_lists_it(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["judges", "list"]) == 0
    assert re.search(r"^names +name_judge:NameJudge$", capsys.readouterr().out, re.M)


@pytest.mark.parametrize(
    "body", ["raise RuntimeError('no driver')", "import absent_module", "raise SystemExit(3)", "("]
)
def test_a_judge_whose_import_raises_is_named(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path)
    (tmp_path / "name_judge.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "name_judge", raising=False)
    with pytest.raises(JudgeError, match="judge 'names' cannot be made: ") as failed:
        load_judge("names")
    assert failed.value.__cause__ is not None


def test_of_two_packages_with_one_name_the_same_wins_every_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []
    for order in (("a", "b"), ("b", "a")):
        with monkeypatch.context() as patched:
            for place in order:
                target = tmp_path / "".join(order) / place
                install(target, name=f"judge-{place}")
                file = target / f"judge_{place}-1.0.dist-info" / "entry_points.txt"
                file.write_text(f"[cicl.judges]\nnames = {place}:NameJudge\n")
                patched.syspath_prepend(target)
            found.append(find_judges()["names"].value)
    assert found == ["a:NameJudge", "a:NameJudge"]
