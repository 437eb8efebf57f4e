"""cicl chooses what a coding agent reads before its next action.

::

    import cicl
    engine = cicl.open(".")
    pack = engine.select("what the agent is about to do", budget=4000)
    pack.text

The map: `engine` is the front; `flows` is where stages meet; `selection` holds the stages, from sources to
rendering; `storage` keeps snapshots, the journal and the store; `errors`, `text`, `tokens` and `config` are
shared by all. Judges live outside, in any package that offers the entry-point group ``cicl.judges``.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cicl.config import Settings
    from cicl.engine import Engine, open
    from cicl.errors import CiclError
    from cicl.selection.graph import InstanceGraph
    from cicl.selection.judging import Judge
    from cicl.selection.records import (
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

__version__ = "0.1.0"

__all__ = [
    "Candidate",
    "CiclError",
    "ContextPack",
    "ContextUnit",
    "Edge",
    "Engine",
    "Evidence",
    "InstanceGraph",
    "Judge",
    "Judgment",
    "MemoryCard",
    "Settings",
    "Span",
    "Task",
    "Unjudged",
    "open",
]

_HOMES = {
    "CiclError": "cicl.errors",
    "Engine": "cicl.engine",
    "InstanceGraph": "cicl.selection.graph",
    "Judge": "cicl.selection.judging",
    "Settings": "cicl.config",
    "open": "cicl.engine",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module 'cicl' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES.get(name, "cicl.selection.records")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
