"""``python -m cicl``: the command line."""

from cicl.cli import run

run()
