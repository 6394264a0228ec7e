"""Where only the last step writes a checkpoint, nothing is said or emitted of a choice between several."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, Tables, codes, compiled, good, texts, with_key

SEVERAL = with_key(with_key(BASES["text"], "train", {"epochs": 3, "adaptation": "full"}), "hardware.gpu", "h200")
ONE = with_key(SEVERAL, "data.examples", 60)  # writing a checkpoint takes longer than the training


@pytest.mark.parametrize(("recipe", "one"), [(ONE, True), (SEVERAL, False)])
def test_what_stops_and_chooses_needs_a_checkpoint(tmp_path: Path, recipe: Tables, one: bool) -> None:
    bundle = texts(good(tmp_path, recipe))
    assert ("StopWithoutProgress" in bundle["train.py"] + bundle["preflight.py"]) != one
    assert ("evaluation during training, which chooses the checkpoint" in bundle["README.md"]) != one
    assert ("of those with a checkpoint, the lowest is loaded at the end" in bundle["README.md"]) != one
    assert ("chooses nothing, since only the last step is saved" in bundle["README.md"]) == one
    assert ("| early_stopping_patience | 0 | only the last step writes a checkpoint" in bundle["README.md"]) == one
    assert ("# a multiple of eval_steps; only step " in bundle["train.py"]) == one


def test_patience_without_a_checkpoint_is_warned_about(tmp_path: Path) -> None:
    assert "W0501" in codes(compiled(tmp_path, with_key(ONE, "train.early_stopping_patience", 3)))


@pytest.mark.parametrize(("name", "gains"), [("grpo", False), ("lora-single", True)])
def test_a_merge_may_lose_a_share_of_what_the_loss_gained(tmp_path: Path, name: str, gains: bool) -> None:
    """Rewards are learned, and the loss of the prompts is not."""
    bundle = texts(good(tmp_path, BASES[name]))
    assert ("of what training gained" in bundle["README.md"]) == gains
    assert ("10% of what training gained" in bundle["evaluate.py"]) == gains
    assert ("0.1 * (before - after)" in bundle["evaluate.py"]) == gains
    assert "if merged - after > " in bundle["evaluate.py"]
