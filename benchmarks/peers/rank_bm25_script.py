"""What one would write in an afternoon: rank_bm25 over whole files, and a parse of every Python file.

`python rank_bm25_script.py TREE LISTING TASK`, where LISTING is a JSON list of paths relative to TREE. It
prints the ten best files. It stands for the least that an answer about symbols can cost without cicl.
"""

import ast
import json
import re
import sys
import warnings
from pathlib import Path

from rank_bm25 import BM25Okapi

SHOWN = 10
WORD = re.compile(r"\w+")


def main(tree: str, listing: str, task: str) -> None:
    paths: list[str] = json.loads(Path(listing).read_text(encoding="utf-8"))
    texts = [(Path(tree) / path).read_text(encoding="utf-8", errors="replace") for path in paths]
    symbols = sum(
        count_symbols(text) for path, text in zip(paths, texts, strict=True) if path.endswith(".py")
    )
    index = BM25Okapi([tokenise(text) for text in texts])
    scores = index.get_scores(tokenise(task))
    for position in sorted(range(len(paths)), key=lambda at: -scores[at])[:SHOWN]:
        print(f"{scores[position]:8.3f}  {paths[position]}")
    print(f"{symbols} symbols in {len(paths)} files")


def tokenise(text: str) -> list[str]:
    return WORD.findall(text.lower())


def count_symbols(text: str) -> int:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return 0
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return sum(isinstance(node, kinds) for node in ast.walk(tree))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # the trees hold invalid escapes on purpose
    main(*sys.argv[1:])
