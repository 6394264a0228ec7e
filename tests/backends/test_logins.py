"""A run whose tracker wants a login that is not there ends at its launch, before rows are prepared."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key
from test_launch import CLUSTER, launched

W_AND_B = with_key(BASES["lora-single"], "track", {"to": "wandb", "project": "p"})
NODES = with_key(with_key(BASES["full-fsdp"], "hardware", CLUSTER), "track", {"to": "wandb", "project": "p"})


@pytest.mark.parametrize(
    ("given", "netrc", "starts"),
    [
        ({}, "", False),
        ({}, "machine github.com login me", False),
        ({}, "machine api.wandb.ai login user password key", True),
        ({"WANDB_BASE_URL": "https://wb.example.org:8080/"}, "machine api.wandb.ai login user", False),
        ({"WANDB_BASE_URL": "https://wb.example.org:8080/"}, "machine wb.example.org login user", True),
        ({"WANDB_API_KEY": "key"}, "", True),
        ({"WANDB_MODE": "offline"}, "", True),
        ({"WANDB_MODE": "online"}, "", False),
    ],
)
def test_a_run_without_a_login_ends_at_its_launch(
    tmp_path: Path, given: dict[str, str], netrc: str, starts: bool
) -> None:
    (tmp_path / ".netrc").write_text(netrc)
    done = launched(tmp_path, W_AND_B, HOME=str(tmp_path), **given)
    assert (done.returncode == 0) is starts and bool(done.stdout) is starts
    assert ("Set WANDB_API_KEY, run wandb login, or set WANDB_MODE=offline." in done.stderr) is not starts


def test_what_the_recipe_exports_counts(tmp_path: Path) -> None:
    recipe = with_key(W_AND_B, "launch", {"env": {"WANDB_MODE": "offline"}})
    assert launched(tmp_path, recipe, HOME=str(tmp_path)).returncode == 0


def test_of_several_nodes_the_first_alone_needs_a_login(tmp_path: Path) -> None:
    told = {"MASTER_ADDR": "first", "HOME": str(tmp_path)}
    first = launched(tmp_path, NODES, **told, NODE_RANK="0")
    assert first.returncode == 1 and "WANDB_API_KEY" in first.stderr
    (script,) = (tmp_path / "bundle/launch").iterdir()
    assert '"$NODE" == 0 && -z "${WANDB_API_KEY' in script.read_text()


@pytest.mark.parametrize("to", ["tensorboard", "mlflow"])
def test_trackers_without_an_account_are_not_asked_for_a_login(tmp_path: Path, to: str) -> None:
    bundle = texts(good(tmp_path, with_key(BASES["lora-single"], "track", {"to": to})))
    assert "login" not in bundle["launch/local.sh"]
