"""What train.py and the plan say of the variants of GRPO: clipping is spoken of where it acts."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key

from recipec.axes.variants import VARIANTS

IDLE = "acts from 2 updates of a generation on; with 1 the ratio of probabilities is 1"


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("updates", [1, 2])
def test_clipping_is_spoken_of_where_it_acts(tmp_path: Path, name: str, updates: int) -> None:
    """The ratio is 1 while the answers are those of the very weights that learn: TRL 1.16 takes it as that then."""
    recipe = with_key(with_key(BASES["grpo"], "alignment.variant", name), "alignment.generation.updates", updates)
    train = texts(good(tmp_path, recipe))["train.py"]
    says = VARIANTS[name].clips, IDLE
    assert [said in train for said in says] == [updates > 1, updates == 1]


def test_the_usual_number_of_updates_says_that_nothing_is_clipped(tmp_path: Path) -> None:
    found = good(tmp_path, BASES["grpo"]).plan.stages[-1].decisions
    assert found["updates"].value == 1
    assert "clipping acts from 2 updates on" in found["updates"].because
    assert "likelier" not in found["variant"].because


@pytest.mark.parametrize("updates", [1, 2])
def test_rloo_says_how_it_clips_where_it_clips(tmp_path: Path, updates: int) -> None:
    """TRL's default would clip in silence."""
    train = texts(good(tmp_path, with_key(BASES["rloo"], "alignment.generation.updates", updates)))["train.py"]
    assert ("epsilon=0.2,  # the ratio of a whole answer, new to old, counts from 0.8 to 1.2" in train) == (updates > 1)
