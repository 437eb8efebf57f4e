import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cicl.testing import isolated_state, no_network

pytest_plugins = ["cicl.testing"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--refresh-golden", action="store_true", help="write golden files instead of comparing")


@pytest.fixture(autouse=True, scope="session")
def keep_state_out_of_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with isolated_state(tmp_path_factory.mktemp("state")):
        yield


@pytest.fixture(autouse=True, scope="session")
def leave_git_configuration_out() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("GIT_")]:
            patch.delenv(name)
        for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
            patch.setenv(name, os.devnull)
        yield


@pytest.fixture(autouse=True)
def touch_no_network() -> Iterator[None]:
    with no_network():
        yield


Golden = Callable[[Path, str], None]


@pytest.fixture
def assert_golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a text with a file, or write it there under `--refresh-golden`."""
    refresh = request.config.getoption("--refresh-golden")

    def check(file: Path, text: str) -> None:
        if refresh:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8", newline="\n")
        assert file.exists(), f"{file} is not there; make it with --refresh-golden"
        assert text == file.read_text("utf-8"), f"{file.name} differs; if that is right, use --refresh-golden"

    return check
