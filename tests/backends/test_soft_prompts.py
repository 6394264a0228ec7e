"""What soft prompts and prefixes bring to a bundle, how they are asked for, and what they are refused with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, good, texts, with_key
from msgspec.structs import replace

from recipec.axes import ADAPTATIONS, METHODS
from recipec.catalog.models import model
from recipec.compiler import Compilation
from recipec.estimate.sizes import trainable_params
from recipec.estimate.workload import adapter_shape

SMALL = {"hidden_size": 64, "intermediate_size": 96, "vocab_size": 128}


PROMPT, ENCODED, PREFIX = "prompt-tuning", "p-tuning", "prefix-tuning"


def asked(folder: Path, base: str = "lora-single", adaptation: str = PROMPT, **keys: Any) -> Compilation:
    """A recipe that names an adaptation, with further keys (dots are two underscores)."""
    recipe = with_key(BASES[base], "train.adaptation", adaptation)
    for key, value in keys.items():
        recipe = with_key(recipe, key.replace("__", "."), value)
    return compiled(folder, recipe)


def test_it_is_trained_saved_and_served_as_it_is(tmp_path: Path) -> None:
    done = asked(tmp_path, train__prompt__virtual_tokens=30)
    found = texts(done)
    assert "num_virtual_tokens=30," in found["train.py"] and "learning_rate=0.03," in found["train.py"]
    assert "merge_adapter.py" not in found and "merged" not in found["evaluate.py"]
    assert "PeftModel.from_pretrained(base" in found["README.md"] and "30 of them stand before" in found["README.md"]
    assert "To merge" not in found["README.md"] and "0.0015% of the 8," in found["README.md"]
    assert done.plan and done.plan.stages[0].work.seq_len_tokens == done.plan.stages[0].value("max_length") + 30


def test_questions_behind_it_are_asked_one_at_a_time_and_losses_counted_from_the_end(tmp_path: Path) -> None:
    text = texts(asked(tmp_path))["evaluate.py"]
    assert "ANSWERS_AT_ONCE = 1  # padding would stand" in text and "logits_to_keep=counted" in text
    assert "counted" not in texts(good(tmp_path, BASES["lora-single"]))["evaluate.py"]


@pytest.mark.parametrize("adaptation", [PROMPT, ENCODED, PREFIX])
@pytest.mark.parametrize("strategy", ["ddp", "zero2"])
def test_checkpoints_keep_a_network_that_makes_it_where_no_engine_does(
    tmp_path: Path, adaptation: str, strategy: str
) -> None:
    text = texts(asked(tmp_path, "lora-ddp", adaptation, train__strategy=strategy))["train.py"]
    kept = ("save_file(model.prompt_encoder", "load_adapter = partial(load_encoder", "insert(0, KeepEncoder())")
    assert [part in text for part in kept] == [adaptation == ENCODED and strategy == "ddp"] * 3


def test_a_prefix_begins_near_zero_takes_no_place_in_a_row_and_is_asked_in_batches(tmp_path: Path) -> None:
    done = asked(tmp_path, adaptation=PREFIX, train__prefix__virtual_tokens=30)
    found, stage = texts(done), done.plan.stages[0]
    assert "num_virtual_tokens=30," in found["train.py"] and "learning_rate=0.005," in found["train.py"]
    assert ".normal_(" in found["train.py"] and "activation_checkpointing=False," in found["train.py"]
    assert "ANSWERS_AT_ONCE = 8" in found["evaluate.py"] and "counted" not in found["evaluate.py"]
    assert "values of 30 virtual tokens" in found["README.md"] and "one question at a time" not in found["README.md"]
    assert stage.work.seq_len_tokens == stage.value("max_length")


def test_a_prefix_from_an_encoder_begins_at_zero(tmp_path: Path) -> None:
    text = texts(asked(tmp_path, adaptation=PREFIX, train__prefix__encoder_hidden_size=64))["train.py"]
    assert "prefix_projection=True,\n        encoder_hidden_size=64,\n        init_weights" in text
    assert "KeepEncoder())" in text and ".normal_(" not in text


@pytest.mark.parametrize(
    ("key", "adaptation"),
    [
        ("prompt.virtual_tokens", PROMPT),
        ("prompt.encoder_hidden_size", ENCODED),
        ("prefix.virtual_tokens", PREFIX),
        ("prefix.encoder_hidden_size", PREFIX),
    ],
)
def test_its_table_asks_for_it_and_nothing_else_does(tmp_path: Path, key: str, adaptation: str) -> None:
    done = good(tmp_path, with_key(BASES["lora-single"], f"train.{key}", 10))
    assert done.plan and done.plan.stages[0].layout.adaptation == adaptation


@pytest.mark.parametrize("adaptation", [PROMPT, ENCODED, PREFIX])
@pytest.mark.parametrize(
    ("base", "keys", "said"),
    [
        ("lora-ddp", {"train__strategy": "fsdp"}, "BAD-111"),
        ("lora-ddp", {"train__strategy": "zero3"}, "BAD-111"),
        ("lora-single", {"train__packing": True}, "BAD-110"),
        ("lora-single", {"train__quantization": "nf4"}, "-tuning goes with quantization"),
        ("lora-single", {"train__lora__rank": 8}, "tuning has no lora"),
        ("dpo-full", {}, "soft prompts were run with supervised fine-tuning alone"),
        ("lora-single", {"train__loop": "torch"}, "BAD-156"),
    ],
)
def test_what_it_does_not_go_with_is_refused(
    tmp_path: Path, base: str, keys: dict[str, Any], said: str, adaptation: str
) -> None:
    assert said in refusal(asked(tmp_path, base, adaptation, **keys))


def refusal(done: Compilation) -> str:
    """All that is said against a recipe that is refused."""
    assert done.lock is None
    labels = [label.message for each in done.diagnostics for label in each.labels]
    return " ".join([*labels, *(" ".join((each.title, *each.help, *each.notes)) for each in done.diagnostics)])


@pytest.mark.parametrize(
    ("adaptation", "keys", "said"),
    [
        (PREFIX, {"train__activation_checkpointing": True}, "BAD-116"),
        (PREFIX, {"model__name": "Qwen/Qwen3-30B-A3B", "hardware__gpu": "b200"}, "BAD-117"),
        (PREFIX, {"model__name": "google/gemma-4-12B", "data__template": "plain"}, "BAD-118"),
        (PREFIX, {"model__name": "Qwen/Qwen3.5-0.8B"}, "BAD-115"),
        (PREFIX, {"train__prompt__virtual_tokens": 8}, "prefix tuning has no prompt"),
        (PROMPT, {"train__prompt__encoder_hidden_size": 8}, "prompt tuning has no encoder_hidden_size"),
    ],
)
def test_what_one_of_them_does_not_go_with_is_refused(
    tmp_path: Path, adaptation: str, keys: dict[str, Any], said: str
) -> None:
    assert said in refusal(asked(tmp_path, adaptation=adaptation, **keys))


@pytest.mark.parametrize(
    ("config", "given", "numbers"),
    [
        ("PromptTuningConfig", {"virtual_tokens": 7}, 7 * 64),
        (
            "PromptEncoderConfig",
            {"virtual_tokens": 7, "encoder_hidden_size": 8},
            7 * 64 + 2 * 64 * 8 + 8 * 8 + 2 * 8 + 64,
        ),
        ("PrefixTuningConfig", {"prefix_tokens": 7, "prefix_encoder_size": 0}, 2 * 2 * 7 * 32),
        ("PrefixTuningConfig", {"prefix_tokens": 7, "prefix_encoder_size": 8}, 7 * 32 + 32 * 8 + 8 + 2 * 2 * 32 * 9),
    ],
)
def test_as_many_numbers_are_trained_as_are_counted(config: str, given: dict[str, int], numbers: int) -> None:
    peft, transformers = pytest.importorskip("peft"), pytest.importorskip("transformers")
    found = model("Qwen/Qwen2.5-0.5B")
    assert found is not None
    shape = replace(found.architecture, **SMALL, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=16)
    row = next(row for row in ADAPTATIONS.values() if row.config == config)
    counted = adapter_shape(shape, {"adaptation": row.name, **given})
    assert counted is not None
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    base = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**SMALL, **sizes))
    encoder = {"encoder_hidden_size": counted.encoder, "prefix_projection": True} if counted.encoder else {}
    if not counted.prefix_tokens:
        encoder.pop("prefix_projection", None)
    adapter = getattr(peft, config)(num_virtual_tokens=7, task_type="CAUSAL_LM", **encoder)
    trained = sum(weight.numel() for weight in peft.get_peft_model(base, adapter).parameters() if weight.requires_grad)
    assert trainable_params(shape, counted, METHODS["sft"]) == trained == numbers


def test_a_prefix_that_begins_at_zero_has_tokens_that_stay_alike() -> None:
    peft, transformers = pytest.importorskip("peft"), pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.3}
    base = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**SMALL, **sizes))
    config = peft.PrefixTuningConfig(num_virtual_tokens=4, task_type="CAUSAL_LM", init_weights="zero")
    prefixed = peft.get_peft_model(base, config)
    prefix = prefixed.prompt_encoder["default"].embedding.weight
    ids = torch.arange(24).view(2, 12)
    for std, alike in ((0.0, True), (0.02, False)):
        torch.nn.init.normal_(prefix, std=std)
        prefix.grad = None
        prefixed(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids).loss.backward()
        assert prefix.grad.abs().sum() > 0
        assert torch.allclose(prefix.grad, prefix.grad[0].expand_as(prefix.grad), rtol=1e-3) is alike
