"""The repository map of aider (https://aider.chat), for one task, without a model, a key or a network.

`PYTHON aider_repo_map.py TREE LISTING TASK`, with the Python of an environment that has aider-chat.
It writes its tag cache into TREE. Everything that is not the map is replaced by what costs least, as in
aider's own tests: the model is a token count, input and output are a file reader. So a user of
`aider --show-repo-map` waits longer than what is measured here.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path

from aider.repomap import RepoMap

MAP_TOKENS = 4000
"""The default budget of cicl."""
CHARS_PER_TOKEN = 4
MIN_IDENT_CHARS = 5
"""As in aider's `Coder.get_ident_filename_matches`."""


class Model:
    def token_count(self, text: str) -> int:
        return len(text) // CHARS_PER_TOKEN


class Reader:
    def read_text(self, filename: str) -> str | None:
        try:
            return Path(filename).read_text(encoding="utf-8")
        except (OSError, UnicodeError):
            return None

    def tool_output(self, *messages: object) -> None:
        pass

    tool_warning = tool_error = tool_output


def main(tree: str, listing: str, task: str) -> None:
    paths: list[str] = json.loads(Path(listing).read_text(encoding="utf-8"))
    mapper = RepoMap(map_tokens=MAP_TOKENS, root=tree, main_model=Model(), io=Reader())
    idents = set(re.split(r"\W+", task))
    text = mapper.get_repo_map(
        chat_files=[],
        other_files=[str(Path(tree) / path) for path in paths],
        mentioned_fnames=mentioned_files(task, idents, paths),
        mentioned_idents=idents,
    )
    print(text or "aider: no map")


def mentioned_files(task: str, idents: set[str], paths: list[str]) -> set[str]:
    """Paths and unique file names in the task, and files named like a longer word of it, as aider does."""
    words = {word.strip("\"'`*_,.!:;?") for word in task.split()}
    names = Counter(Path(path).name for path in paths)
    named = {
        path for path in paths if path in words or (Path(path).name in words and names[Path(path).name] == 1)
    }
    longer = {ident.lower() for ident in idents if len(ident) >= MIN_IDENT_CHARS}
    return named | {path for path in paths if Path(path).stem.lower() in longer}


if __name__ == "__main__":
    main(*sys.argv[1:])
