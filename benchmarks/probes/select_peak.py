"""Run one `cicl select` in this process and print its peak memory: `... select_peak TREE TASK`.

Two numbers in the unit of getrusage(2): of this process, and of the largest of its descendants.
"""

import contextlib
import io
import json
import resource
import sys

from cicl.cli import main as run_cicl


def main(tree: str, task: str) -> int:
    with contextlib.redirect_stdout(io.StringIO()):
        code = run_cicl(["select", task, "--repo", tree])
    peaks = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    json.dump({"own_and_largest_child": peaks}, sys.stdout)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
