"""What a bundle has where ranks share a 4-bit base, and what no other bundle has."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key

FSDP = {"adaptation": "qlora", "strategy": "fsdp"}
TWO = {"gpu": "h100", "gpus_per_node": 2}
SHARDED = with_key(with_key(BASES["qlora"], "hardware", TWO), "train", FSDP)
STAGES = with_key(with_key(BASES["sft-dpo"], "hardware", TWO), "train", FSDP)


def place(text: str, *parts: str) -> list[int]:
    """Where each part begins; every one must be there."""
    return [text.index(part) for part in parts]


def test_packed_weights_are_sharded_when_adapters_are_there_and_before_the_trainer_shards(tmp_path: Path) -> None:
    train = texts(good(tmp_path, SHARDED))["train.py"]
    order = ["trainer = SFTTrainer(", ".data.float()", "shard_packed_weights(trainer.model,", "trainer.train("]
    assert place(train, *order) == sorted(place(train, *order))
    assert "model=packed_base(config)," in train and 'from_pretrained(PACKED, device_map={"": "cpu"}' in train
    assert "quantization_config" not in train and "BitsAndBytesConfig" not in train  # the folder says how it is packed
    assert 'peft_config["default"].base_model_name_or_path = MODEL' in train
    ast.parse(train)


def test_the_run_stops_where_a_4_bit_weight_is_whole(tmp_path: Path) -> None:
    preflight = texts(good(tmp_path, SHARDED))["preflight.py"]
    assert '"whole_4bit_weights": 0,' in preflight
    assert "from packed_weights import packed_layers" in preflight


def test_the_base_is_packed_between_the_baseline_and_training(tmp_path: Path) -> None:
    bundle = texts(good(tmp_path, SHARDED))
    order = ("evaluate.py", '"$BUNDLE/quantize.py"', '"$BUNDLE/train.py"')
    script = bundle["launch/local.sh"]
    assert place(script, *order) == sorted(place(script, *order))
    own = texts(good(tmp_path, with_key(SHARDED, "launch", {"with": "none"})))["README.md"]
    told = "# with your own launcher and configuration, that of the plan is in configs/fsdp.yaml:"
    assert f"python quantize.py\n{told}\naccelerate launch train.py" in own


@pytest.mark.parametrize("strategy", ["ddp", "zero2"])
def test_a_base_that_every_rank_holds_has_none_of_it(tmp_path: Path, strategy: str) -> None:
    bundle = texts(good(tmp_path, with_key(SHARDED, "train.strategy", strategy)))
    assert not {"quantize.py", "packed_weights.py"} & bundle.keys()
    assert "quantization_config=nf4_config()," in bundle["train.py"]
    told = "\n".join(bundle[name] for name in ("train.py", "preflight.py", "launch/local.sh", "README.md"))
    assert '"$BUNDLE/"' not in told
    assert not any(word in told for word in ("quantize.py", "packed_weights", "whole_4bit_weights", "PACKED"))


def test_an_unquantized_base_has_none_of_it(tmp_path: Path) -> None:
    bundle = texts(good(tmp_path, with_key(SHARDED, "train.adaptation", "lora")))
    assert not {"quantize.py", "packed_weights.py"} & bundle.keys()


def test_a_pinned_model_is_told_from_other_revisions(tmp_path: Path) -> None:
    bundle = texts(good(tmp_path, with_key(SHARDED, "model.revision", "a" * 40)))
    name, revision = SHARDED["model"]["name"], "a" * 40
    assert f'origin = "{name}@{revision}"' in bundle["quantize.py"]
    assert f'"{name}@{revision}"' in bundle["train.py"]
    assert bundle["quantize.py"].count(f'revision="{revision}"') == 2  # of the model and its tokenizer


def test_a_later_stage_packs_the_result_that_it_starts_from(tmp_path: Path) -> None:
    bundle = texts(good(tmp_path, STAGES))
    first, second = (bundle[f"stages/{name}/quantize.py"] for name in ("1-sft", "2-dpo"))
    assert 'PACKED = BUNDLE / "base-4bit"\n' in first and "origin = MODEL\n" in first
    assert 'PACKED = BUNDLE / "outputs" / "sft" / "merged-4bit"\n' in second
    assert 'origin = Path(MODEL, "finished.json").read_text(encoding="utf-8")\n' in second
    script = bundle["launch/local.sh"]
    order = ("1-sft/quantize.py", "1-sft/train.py", "1-sft/merge_adapter.py", "2-dpo/quantize.py", "2-dpo/train.py")
    assert place(script, *order) == sorted(place(script, *order))


def test_evaluation_and_merge_load_the_base_as_for_any_qlora(tmp_path: Path) -> None:
    bundle = texts(good(tmp_path, SHARDED))
    for name in ("evaluate.py", "merge_adapter.py"):
        assert "nf4_config()" in bundle[name] and "base-4bit" not in bundle[name]
