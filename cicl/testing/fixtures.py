"""The pytest fixtures; the one module here that needs pytest."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from cicl.config import Settings
from cicl.engine import Engine
from cicl.testing.instances import build_instance, isolated_state
from cicl.testing.network import no_network

try:
    import pytest
except ModuleNotFoundError as error:
    raise ImportError(
        "the fixtures of cicl.testing need pytest: pip install pytest. Everything else in it works without"
    ) from error

__all__ = ["InstanceFactory", "cicl_instance", "cicl_no_network", "cicl_state"]


class InstanceFactory(Protocol):
    """What `cicl_instance` is."""

    def __call__(
        self, files: Mapping[str, str | bytes], *, git: bool = False, settings: Settings | None = None
    ) -> Engine:
        """Return an engine over the files, in a folder of their own."""


@pytest.fixture
def cicl_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep all state of one test in a folder of its own, and return that folder."""
    with isolated_state(tmp_path_factory.mktemp("cicl-state")) as folder:
        yield folder


@pytest.fixture
def cicl_instance(cicl_state: Path, tmp_path_factory: pytest.TempPathFactory) -> InstanceFactory:
    """Make instances from dicts of files, as many as the test asks for."""

    def make(
        files: Mapping[str, str | bytes], *, git: bool = False, settings: Settings | None = None
    ) -> Engine:
        return build_instance(tmp_path_factory.mktemp("cicl-tree"), files, git=git, settings=settings)

    return make


@pytest.fixture
def cicl_no_network() -> Iterator[None]:
    """Fail the test when it touches the network."""
    with no_network():
        yield
