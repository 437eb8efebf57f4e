"""Where contestants run: a folder of their own beside a tree that is only read."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measuring import Sample, run_process
from benchmarks.results import PROJECT
from benchmarks.trees import copy_tree

Command = Sequence[str | Path]


class Workplace:
    """A tree, the files that cicl reads of it, and room for copies and states."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.tree = tree.resolve()
        self.folder = folder
        self.files = self._list_files()
        self.listing = folder / "listing.json"
        self.listing.write_text(json.dumps(self.files), encoding="utf-8")

    def _list_files(self) -> list[str]:
        command = self.python("-m", "benchmarks.probes.list_files", self.tree)
        files: list[str] = json.loads(self.run(command, state="listing").output)
        return files

    def copy(self, name: str) -> Path:
        """A copy of the tree that may be changed."""
        return copy_tree(self.tree, self.files, self.folder / name / self.tree.name)

    def python(self, *arguments: str | Path) -> list[str | Path]:
        """A command of the interpreter that runs this, which is the one cicl is installed for."""
        return [sys.executable, *arguments]

    def run(self, command: Command, *, state: str = "state", answers: bool = False) -> Sample:
        """Run a command whose cicl, if it has one, keeps its state under the name `state`.

        The user's home directory is out of reach: peers write to it.
        """
        environment = {"CICL_HOME": str(self.folder / state), "HOME": str(self.folder)}
        return run_process(command, cwd=PROJECT, environment=environment, answers=answers)

    def cicl(self, *arguments: str | Path, state: str = "state") -> Sample:
        """Run the console script that stands beside the interpreter."""
        return self.run([Path(sys.executable).parent / "cicl", *arguments], state=state, answers=True)

    def select(self, task: str, *, tree: Path | None = None, state: str = "state") -> Sample:
        return self.cicl("select", task, "--repo", tree or self.tree, state=state)
