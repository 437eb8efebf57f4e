import os
from dataclasses import fields
from pathlib import Path

import pytest

from cicl.config import DEFAULT_BUDGET, HOME_VARIABLE, Settings, load_settings, state_folder
from cicl.errors import ConfigurationError
from cicl.testing import isolated_state

EVERY_OPTION = """
budget = 1
encoding = "cl100k_base"
judge = "other"
retrieval = "rank-bm25"
submodules = false
max_file_bytes = 2
max_line_chars = 3
"""


def configure(root: Path, text: str | bytes, name: str = "cicl.toml") -> Path:
    (root / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return root


def complaint(root: Path) -> str:
    with pytest.raises(ConfigurationError) as raised:
        load_settings(root)
    return str(raised.value)


def test_a_project_without_a_file_has_the_defaults(tmp_path: Path) -> None:
    assert load_settings(tmp_path) == Settings()
    assert Settings().budget == DEFAULT_BUDGET == 4000


@pytest.mark.parametrize(("name", "header"), [("cicl.toml", ""), ("pyproject.toml", "[tool.cicl]")])
def test_every_option_can_be_set_in_both_files(tmp_path: Path, name: str, header: str) -> None:
    found = load_settings(configure(tmp_path, header + EVERY_OPTION, name))
    assert found == Settings(
        budget=1,
        encoding="cl100k_base",
        judge="other",
        retrieval="rank-bm25",
        submodules=False,
        max_file_bytes=2,
        max_line_chars=3,
    )
    assert all(getattr(found, item.name) != item.default for item in fields(Settings))


def test_every_option_is_documented() -> None:
    page = Path(__file__).parents[1].joinpath("docs/cli.md").read_text("utf-8")
    assert all(f"\n{item.name} = " in page for item in fields(Settings))


def test_cicl_toml_goes_before_pyproject(tmp_path: Path) -> None:
    configure(tmp_path, "[tool.cicl]\nbudget = 1\n", "pyproject.toml")
    assert load_settings(configure(tmp_path, "budget = 2")).budget == 2
    assert load_settings(configure(tmp_path, "")) == Settings()


def test_an_unknown_option_is_named_with_the_known_ones(tmp_path: Path) -> None:
    said = complaint(configure(tmp_path, "bugdet = 3"))
    assert "unknown option 'bugdet'" in said
    assert all(item.name in said for item in fields(Settings))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('budget = "3"', "option 'budget' is '3'; it must be a whole number"),
        ("budget = 3.0", "option 'budget' is 3.0; it must be a whole number"),
        ("budget = true", "option 'budget' is True; it must be a whole number"),
        ("budget = -1", "option 'budget' is -1; it must be 0 or more"),
        ("max_file_bytes = -1", "option 'max_file_bytes' is -1; it must be 0 or more"),
        ("encoding = 3", "option 'encoding' is 3; it must be text"),
        ("judge = ['a']", "option 'judge' is ['a']; it must be text"),
        ("submodules = 1", "option 'submodules' is 1; it must be true or false"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(tmp_path: Path, text: str, said: str) -> None:
    assert complaint(configure(tmp_path, text)) == f"{tmp_path / 'cicl.toml'}: {said}"


def test_a_project_cannot_name_code_to_be_run(tmp_path: Path) -> None:
    """A cloned repository is foreign: its settings are data."""
    assert "names code" in complaint(configure(tmp_path, 'judge = "evil.module:Judge"'))


@pytest.mark.parametrize("text", ["budget = [", b"\xff\xfe", "a = 1\na = 2", "x = " + "[" * 5000])
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, text: str | bytes) -> None:
    assert complaint(configure(tmp_path, text)).startswith(f"{tmp_path / 'cicl.toml'} cannot be read as TOML")


def test_a_byte_order_mark_is_no_part_of_the_settings(tmp_path: Path) -> None:
    assert load_settings(configure(tmp_path, b"\xef\xbb\xbfbudget = 3\r\n")).budget == 3


@pytest.mark.parametrize(
    "text",
    [
        b"not toml at all [[[",
        b"[project]\nname = 'cicl'\ndependencies = [",  # the name alone is no table of ours
        b"\xff\xfe\x00",
        b"[tool.ruff]\nline-length = 'cicl'\n",
        b"# [tool.cicl]\n",
        b"[tool]\n",
    ],
)
def test_a_pyproject_without_our_table_is_ignored_whatever_it_holds(tmp_path: Path, text: bytes) -> None:
    assert load_settings(configure(tmp_path, text, "pyproject.toml")) == Settings()


@pytest.mark.parametrize("text", ["[tool.cicl]\nx = [", '[ tool . "cicl" ]\nbudget = ['])
def test_a_pyproject_with_our_table_has_to_be_toml(tmp_path: Path, text: str) -> None:
    said = complaint(configure(tmp_path, text, "pyproject.toml"))
    assert said.startswith(f"{tmp_path / 'pyproject.toml'} cannot be read as TOML")


@pytest.mark.parametrize(
    "text", ["[tool]\ncicl = {budget = 7}", "tool.cicl.budget = 7", '[tool."cicl"]\nbudget = 7']
)
def test_our_table_may_be_written_in_any_way_that_toml_has(tmp_path: Path, text: str) -> None:
    assert load_settings(configure(tmp_path, text, "pyproject.toml")).budget == 7


def test_our_table_has_to_be_a_table(tmp_path: Path) -> None:
    assert "tool.cicl must be a table" in complaint(
        configure(tmp_path, "[tool]\ncicl = 'fast'", "pyproject.toml")
    )


def test_neither_a_folder_nor_a_link_is_a_settings_file(tmp_path: Path) -> None:
    elsewhere = configure(tmp_path, "budget = 1", "elsewhere.toml") / "elsewhere.toml"
    root = tmp_path / "root"
    root.mkdir()
    (root / "cicl.toml").symlink_to(elsewhere)
    (root / "pyproject.toml").mkdir()
    assert load_settings(root) == Settings()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    configure(tmp_path, "budget = 1")
    (tmp_path / "cicl.toml").chmod(0)
    assert complaint(tmp_path) == f"{tmp_path / 'cicl.toml'} cannot be read: Permission denied"


def test_state_is_kept_where_the_environment_says(tmp_path: Path) -> None:
    with isolated_state(tmp_path / "state"):
        assert state_folder() == tmp_path / "state"
    with isolated_state("~/state"):
        assert state_folder() == Path.home() / "state"
    with isolated_state("~nobody-of-that-name/state"), pytest.raises(ConfigurationError, match=HOME_VARIABLE):
        state_folder()


def test_state_is_kept_in_the_platforms_folder_by_default() -> None:
    with isolated_state(""):
        assert state_folder().name == "cicl"
        assert state_folder().is_absolute()
