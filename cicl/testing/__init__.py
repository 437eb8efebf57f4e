"""A harness for a user's own tests of an agent, a judge or a context.

::

    from cicl.testing import assert_selected, make_instance
    with make_instance({"src/a.py": "def parse(line): ..."}) as engine:
        assert_selected(engine.select("parse drops the last line"), "src/a.py::parse")

With ``pytest_plugins = ["cicl.testing"]`` in a `conftest.py` the fixtures `cicl_instance`, `cicl_state` and
`cicl_no_network` are there. Only they need pytest.

Nothing here asserts by the statement, so pytest may leave it as it is even when it is imported before it is
registered: PYTEST_DONT_REWRITE.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cicl.testing.contract import check_judge
    from cicl.testing.fixtures import InstanceFactory as InstanceFactory
    from cicl.testing.fixtures import cicl_instance as cicl_instance
    from cicl.testing.fixtures import cicl_no_network as cicl_no_network
    from cicl.testing.fixtures import cicl_state as cicl_state
    from cicl.testing.instances import isolated_state, make_instance
    from cicl.testing.judges import Call, ScriptedJudge, deterministic_judge
    from cicl.testing.network import NetworkTouched, no_network
    from cicl.testing.packs import (
        assert_abstained,
        assert_card_complete,
        assert_not_selected,
        assert_selected,
        assert_within_budget,
    )

__all__ = [
    "Call",
    "NetworkTouched",
    "ScriptedJudge",
    "assert_abstained",
    "assert_card_complete",
    "assert_not_selected",
    "assert_selected",
    "assert_within_budget",
    "check_judge",
    "deterministic_judge",
    "isolated_state",
    "make_instance",
    "no_network",
]

_FIXTURES = ("InstanceFactory", "cicl_instance", "cicl_no_network", "cicl_state")
"""Not in `__all__`: a star import works without pytest. pytest itself finds them by `__dir__`."""

_HOMES = {
    "Call": "judges",
    "NetworkTouched": "network",
    "ScriptedJudge": "judges",
    "check_judge": "contract",
    "deterministic_judge": "judges",
    "isolated_state": "instances",
    "make_instance": "instances",
    "no_network": "network",
}


def __getattr__(name: str) -> Any:
    """Load a name when it is first used (PEP 562)."""
    from importlib import import_module

    if name not in __all__ and name not in _FIXTURES:
        raise AttributeError(f"module 'cicl.testing' has no attribute {name!r}")
    home = "fixtures" if name in _FIXTURES else _HOMES.get(name, "packs")
    value = getattr(import_module(f"cicl.testing.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_FIXTURES])
