"""What the execution tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fork_server.start import forking


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
