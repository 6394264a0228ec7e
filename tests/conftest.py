"""Shared by all tests: expected files with the switch that rewrites them, and the fork-server."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fork_server.start import fork_server, forking
from hypothesis import settings

# A run is the same every time; to look for new failures: --hypothesis-profile=explore.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=2000, deadline=None)
settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the expected files instead of comparing")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--update-golden") and os.environ.get("CI"):
        raise pytest.UsageError("--update-golden is for people: a CI run must compare")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether expected files are to be rewritten."""
    return request.config.getoption("--update-golden")


@pytest.fixture
def golden(update_golden: bool) -> Callable[[Path, str], None]:
    """Compare a text with an expected file, or rewrite the file."""

    def compare(path: Path, text: str) -> None:
        if update_golden:
            path.write_text(text, encoding="utf-8")
            return
        expected = path.read_text(encoding="utf-8") if path.exists() else ""
        if text != expected:
            lines = difflib.unified_diff(expected.splitlines(), text.splitlines(), "expected", "actual", lineterm="")
            pytest.fail("\n".join([f"{path} differs; accept with: pytest --update-golden", *lines]), pytrace=False)

    return compare


@pytest.fixture(scope="session")
def forking_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a `python` that forks; its server lives as long as the session."""
    folder = tmp_path_factory.mktemp("python")
    with fork_server(folder):
        yield folder


@pytest.fixture
def forked(forking_python: Path) -> Iterator[None]:
    """Bundles verified in this test run their scripts, and their configurations are read, in forks of the server."""
    with forking(forking_python):
        yield
