"""The fork-server of the execution tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fork_server.start import fork_server, forking


@pytest.fixture(scope="session")
def forking_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a `python` that forks; its server lives as long as the session."""
    folder = tmp_path_factory.mktemp("python")
    with fork_server(folder):
        yield folder


@pytest.fixture
def forked(forking_python: Path) -> Iterator[None]:
    """Bundles verified in this test run their scripts in forks of the server."""
    with forking(forking_python):
        yield


@pytest.fixture(scope="session")
def of_the_trainer(forking_python: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What the Trainer logs of the training that loops of train.py's own are held to."""
    from test_own_loops import losses

    with forking(forking_python):
        return losses(tmp_path_factory.mktemp("trainer"), "trainer")


@pytest.fixture(autouse=True)
def few_rows_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are not read to their end, so that a few hundred rows show what stands behind a sample."""
    monkeypatch.setattr("recipec.dataset.sample.WHOLE_BYTES", 0)
