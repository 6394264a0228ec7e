"""A head that a method adds: trained whole beside adapters, in fp32, and loaded with one label."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, Tables, good, texts, with_key

WHOLE = 'modules_to_save=["score"],'
IN_FP32 = "trainer.model.score.modules_to_save.float()"
FULL = {"adaptation": "full"}


def bundle(folder: Path, train: Tables) -> dict[str, str]:
    recipe = with_key(BASES["reward"], "hardware", {"gpu": "h100", "gpus_per_node": 1 + ("strategy" in train)})
    return texts(good(folder, with_key(recipe, "train", train)))


@pytest.mark.parametrize(
    ("train", "adapts", "casts"),
    [
        ({"strategy": "ddp"}, True, True),
        ({"strategy": "fsdp"}, True, True),
        ({"strategy": "ddp", "adaptation": "qlora"}, True, False),  # all that trains is cast, whatever it is
        ({"strategy": "zero2"}, True, False),  # DeepSpeed keeps fp32 masters
        ({"strategy": "ddp", "precision": "fp32"}, True, False),
        ({"strategy": "ddp"} | FULL, False, False),
    ],
    ids=str,
)
def test_the_head_trains_whole_and_in_fp32(tmp_path: Path, train: Tables, adapts: bool, casts: bool) -> None:
    text = bundle(tmp_path, train)["train.py"]
    assert (WHOLE in text, IN_FP32 in text) == (adapts, casts)
    assert ('task_type="SEQ_CLS"' in text) is adapts


def test_other_methods_have_none(tmp_path: Path) -> None:
    text = texts(good(tmp_path, BASES["lora-single"]))["train.py"]
    assert "modules_to_save" not in text
    assert 'task_type="CAUSAL_LM"' in text


@pytest.mark.parametrize("train", [{}, FULL], ids=["lora", "full"])
def test_it_is_loaded_with_one_label_and_the_tokenizers_padding(tmp_path: Path, train: Tables) -> None:
    found = bundle(tmp_path, train)
    for name in ("evaluate.py", *["merge_adapter.py"] * (not train)):
        assert "num_labels=1" in found[name]
        assert "model.config.pad_token_id = tokenizer.pad_token_id" in found[name]
    assert "set_seed(42)" in found["evaluate.py"]
    assert "NEW_TOKENS" not in found["evaluate.py"], "it writes nothing"


@pytest.mark.parametrize(("train", "folder"), [({}, "outputs/reward/merged"), (FULL, "outputs/reward")])
def test_the_readme_says_how_to_score(tmp_path: Path, train: Tables, folder: str) -> None:
    text = bundle(tmp_path, train)["README.md"]
    assert f'AutoModelForSequenceClassification.from_pretrained("{folder}")' in text
    assert f'GRPOTrainer(reward_funcs="{folder}", ...)' in text


def test_a_copy_in_16_bits_would_hardly_learn() -> None:
    """PEFT casts adapters to fp32 and leaves the copy of the head in 16 bits, where a step of 1e-5 rounds away."""
    torch, peft = pytest.importorskip("torch"), pytest.importorskip("peft")
    from transformers import AutoModelForSequenceClassification, LlamaConfig

    sizes = {"hidden_size": 64, "intermediate_size": 64, "vocab_size": 32, "num_hidden_layers": 1, "num_labels": 1}
    config = LlamaConfig(**sizes, num_attention_heads=2, num_key_value_heads=1)
    model = AutoModelForSequenceClassification.from_config(config, dtype=torch.bfloat16)
    adapted = peft.get_peft_model(model, peft.LoraConfig(task_type="SEQ_CLS", modules_to_save=["score"]))
    copy = adapted.score.modules_to_save["default"].weight
    assert copy.dtype == torch.bfloat16 and copy.requires_grad
    assert ((copy.detach() + 1e-5) == copy.detach()).float().mean() > 0.5
    adapted.score.modules_to_save.float()
    copy = adapted.score.modules_to_save["default"].weight
    assert not ((copy.detach() + 1e-5) == copy.detach()).any()
