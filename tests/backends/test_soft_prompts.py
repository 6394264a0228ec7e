"""What a soft prompt brings to a bundle, how it is asked for, and what it is refused with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, good, texts, with_key
from msgspec.structs import replace

from recipec.axes import METHODS
from recipec.catalog.models import model
from recipec.compiler import Compilation
from recipec.estimate.sizes import trainable_params
from recipec.estimate.workload import adapter_shape

SMALL = {"hidden_size": 64, "intermediate_size": 96, "vocab_size": 128}


def asked(folder: Path, base: str = "lora-single", **keys: Any) -> Compilation:
    """A recipe that names prompt tuning, with further keys (dots are two underscores)."""
    recipe = with_key(BASES[base], "train.adaptation", "prompt-tuning")
    for key, value in keys.items():
        recipe = with_key(recipe, key.replace("__", "."), value)
    return compiled(folder, recipe)


def test_it_is_trained_saved_and_served_as_it_is(tmp_path: Path) -> None:
    done = asked(tmp_path, train__prompt__virtual_tokens=30)
    found = texts(done)
    assert "num_virtual_tokens=30," in found["train.py"] and "learning_rate=0.03," in found["train.py"]
    assert "merge_adapter.py" not in found and "merged" not in found["evaluate.py"]
    assert "AutoPeftModelForCausalLM" in found["README.md"] and "30 of them stand before" in found["README.md"]
    assert "To merge" not in found["README.md"] and "0.0015% of the 8," in found["README.md"]
    assert done.plan and done.plan.stages[0].work.seq_len_tokens == done.plan.stages[0].value("max_length") + 30


def test_questions_behind_it_are_asked_one_at_a_time_and_losses_counted_from_the_end(tmp_path: Path) -> None:
    text = texts(asked(tmp_path))["evaluate.py"]
    assert "ANSWERS_AT_ONCE = 1  # padding would stand" in text and "logits_to_keep=counted" in text
    assert "counted" not in texts(good(tmp_path, BASES["lora-single"]))["evaluate.py"]


def test_its_table_asks_for_it_and_nothing_else_does(tmp_path: Path) -> None:
    done = good(tmp_path, with_key(BASES["lora-single"], "train.prompt.virtual_tokens", 10))
    assert done.plan and done.plan.stages[0].layout.adaptation == "prompt-tuning"


@pytest.mark.parametrize(
    ("base", "keys", "said"),
    [
        ("lora-ddp", {"train__strategy": "fsdp"}, "BAD-111"),
        ("lora-ddp", {"train__strategy": "zero3"}, "BAD-111"),
        ("lora-single", {"train__packing": True}, "BAD-110"),
        ("lora-single", {"train__quantization": "nf4"}, "prompt-tuning goes with quantization"),
        ("lora-single", {"train__lora__rank": 8}, "prompt tuning has no lora"),
        ("dpo-full", {}, "soft prompts were run with supervised fine-tuning alone"),
        ("lora-single", {"train__loop": "torch"}, "BAD-09"),
    ],
)
def test_what_it_does_not_go_with_is_refused(tmp_path: Path, base: str, keys: dict[str, Any], said: str) -> None:
    done = asked(tmp_path, base, **keys)
    assert done.lock is None
    labels = [label.message for each in done.diagnostics for label in each.labels]
    assert said in " ".join([*labels, *(" ".join((each.title, *each.help, *each.notes)) for each in done.diagnostics)])


def test_as_many_numbers_are_trained_as_are_counted() -> None:
    peft, transformers = pytest.importorskip("peft"), pytest.importorskip("transformers")
    found = model("Qwen/Qwen2.5-0.5B")
    assert found is not None
    shape = replace(found.architecture, **SMALL, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=16)
    counted = adapter_shape(shape, {"adaptation": "prompt-tuning", "virtual_tokens": 7})
    config = transformers.Qwen2Config(**SMALL, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
    adapter = peft.PromptTuningConfig(num_virtual_tokens=7, prompt_tuning_init="SAMPLE_VOCAB", task_type="CAUSAL_LM")
    adapted = peft.get_peft_model(transformers.Qwen2ForCausalLM(config), adapter)
    trained = sum(parameter.numel() for parameter in adapted.parameters() if parameter.requires_grad)
    assert trainable_params(shape, counted, METHODS["sft"]) == trained == 7 * 64
