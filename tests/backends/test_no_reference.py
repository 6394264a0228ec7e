"""Methods without a reference load none: DPOTrainer would, unless it is told otherwise, and under FSDP even then."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key

from recipec.axes import METHODS
from recipec.backends.methods import BACKENDS

WITHOUT = [name for name, row in METHODS.items() if row.trainer == "DPOTrainer" and not row.has_reference]
FLAG, EMPTY = "precompute_ref_log_probs=True", "ref_model=reference"


@pytest.mark.parametrize("name", WITHOUT)
@pytest.mark.parametrize(
    ("train", "says"),
    [
        ({"adaptation": "full"}, FLAG),
        ({"adaptation": "full", "strategy": "ddp"}, FLAG),
        ({"adaptation": "full", "strategy": "zero3"}, FLAG),
        ({"adaptation": "full", "strategy": "fsdp"}, EMPTY),
        ({"adaptation": "lora", "strategy": "fsdp"}, ""),  # without its adapter the model would be the reference
    ],
    ids=str,
)
def test_the_trainer_is_told(tmp_path: Path, name: str, train: dict[str, str], says: str) -> None:
    recipe = with_key(BASES[name], "hardware", {"gpu": "h100", "gpus_per_node": 1 + ("strategy" in train)})
    bundle = texts(good(tmp_path, with_key(recipe, "train", train)))
    assert [text for text in (FLAG, EMPTY) if text in bundle["train.py"]] == [says] * bool(says)
    trainer = bundle[f"{BACKENDS[name].trainer.module}.py"]
    assert ("_precompute_ref_logps" in trainer) is (says == FLAG)
    assert ("trainer.ref_model = None" in bundle["train.py"]) is (says == EMPTY)


def test_the_empty_reference_is_of_the_pinned_commit(tmp_path: Path) -> None:
    recipe = with_key(BASES[WITHOUT[0]], "hardware", {"gpu": "h100", "gpus_per_node": 2})
    recipe = with_key(
        with_key(recipe, "train", {"adaptation": "full", "strategy": "fsdp"}), "model.revision", "0123abc"
    )
    text = texts(good(tmp_path, recipe))["train.py"]
    call = text.partition("AutoConfig.from_pretrained(")[2].partition(")")[0]
    assert 'revision="0123abc"' in call


def test_sharding_moves_no_empty_weight() -> None:
    """What is on the meta device stays there: an empty reference takes no memory of the GPU."""
    import inspect

    from torch.distributed.fsdp._fully_shard import _fsdp_init

    assert 'device.type == "meta"' in inspect.getsource(_fsdp_init._move_states_to_device)


def test_some_method_is_without() -> None:
    assert WITHOUT
