"""Print, as JSON, the files that cicl reads of a tree: `python -m benchmarks.probes.list_files TREE`.

A process of its own, so that the process that measures stays small.
"""

import json
import sys

import cicl


def main(tree: str) -> None:
    indexed = cicl.open(tree).index()
    skipped = {item.path for item in indexed.skipped}
    json.dump(sorted(indexed.stats.keys() - skipped), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
