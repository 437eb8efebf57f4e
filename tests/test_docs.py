"""Every snippet of README and docs runs, and every command has its help."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cicl.cli import main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "judges" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_BLOCK = re.compile(
    r"^(?P<fence>```+)(?P<language>\w+)(?P<options>[^\n]*)\n(?P<code>.*?)^(?P=fence)$", re.S | re.M
)


def blocks(page: Path, language: str) -> Iterator[str]:
    for match in _BLOCK.finditer(page.read_text("utf-8")):
        if match["language"] == language and "no-run" not in match["options"]:
            yield match["code"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """This repository's package in a directory of its own: what the snippets are run in."""
    shutil.copytree(ROOT / "cicl", tmp_path / "cicl", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def run(arguments: list[str], cwd: Path, code: str | None = None) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "judges")])
    return subprocess.run(
        arguments, cwd=cwd, input=code, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )


@pytest.mark.parametrize(
    "page", [page for page in PAGES if list(blocks(page, "python"))], ids=lambda page: page.name
)
def test_the_python_of_a_page_runs_from_top_to_bottom(page: Path, project: Path) -> None:
    shown = run([sys.executable, "-"], project, "\n".join(blocks(page, "python")))
    assert shown.returncode == 0, shown.stderr


@pytest.mark.parametrize(
    "page", [page for page in PAGES if list(blocks(page, "console"))], ids=lambda page: page.name
)
def test_the_commands_of_a_page_run(page: Path, project: Path) -> None:
    for block in blocks(page, "console"):
        for line in block.splitlines():
            if line.startswith("$ cicl "):
                command = shlex.split(line.removeprefix("$ cicl "))
                shown = run([sys.executable, "-m", "cicl", *command], project)
                assert shown.returncode == 0, f"{line}\n{shown.stderr}"


def test_no_page_names_a_snippet_language_that_is_not_run() -> None:
    for page in PAGES:
        for match in _BLOCK.finditer(page.read_text("utf-8")):
            assert match["language"] in {"python", "console", "text", "mermaid", "json", "toml", "sh"}, page


@pytest.mark.parametrize("command", [[], ["select"], ["index"], ["status"], ["judges"], ["judges", "list"]])
def test_every_command_has_help_and_is_documented(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    documented = (ROOT / "docs" / "cli.md").read_text("utf-8")
    for option in re.findall(r"(?<![\w-])--[a-z-]+", shown):
        assert option in documented, f"{option} of `cicl {' '.join(command)}` is not in docs/cli.md"


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
