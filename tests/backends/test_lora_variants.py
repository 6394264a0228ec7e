"""What a variant of LoRA, or IA3, brings to a bundle: arguments, code of its own, the parameters that are counted."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, good, texts, with_key
from msgspec.structs import replace

from recipec.axes import LORA_VARIANTS, METHODS
from recipec.catalog.models import model
from recipec.estimate.sizes import trainable_params
from recipec.estimate.workload import adapter_shape, lora_shape


def train_py(tmp_path: Path, variant: str, base: str = "lora-single", **keys: Any) -> str:
    """train.py of a recipe that names the variant."""
    recipe = with_key(BASES[base], "train.lora.variant", variant)
    for key, value in keys.items():
        recipe = with_key(recipe, key.replace("__", "."), value)
    return texts(good(tmp_path, recipe))["train.py"]


def config_of(text: str) -> dict[str, Any]:
    """The arguments of the LoraConfig in train.py."""
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    call = next(call for call in calls if ast.unparse(call.func) == "LoraConfig")
    return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}


@pytest.mark.parametrize("name", LORA_VARIANTS)
def test_its_arguments_are_in_the_configuration(tmp_path: Path, name: str) -> None:
    plain, found = config_of(train_py(tmp_path, "standard")), config_of(train_py(tmp_path, name))
    own = dict(LORA_VARIANTS[name].arguments)
    assert {key: value for key, value in found.items() if key not in plain} == own
    assert found["lora_dropout"] == (0.05 if LORA_VARIANTS[name].drops else 0)


def test_pissa_is_converted_before_the_result_is_marked_as_whole(tmp_path: Path) -> None:
    text = train_py(tmp_path, "pissa")
    order = ["start = keep_start(trainer)", "trainer.train(", "trainer.save_model()", "save_plain(trainer, start)"]
    places = [text.index(part) for part in (*order, "guard.finish()")]
    assert places == sorted(places)


def test_lora_plus_makes_the_optimizer_of_the_plan(tmp_path: Path) -> None:
    text = train_py(tmp_path, "lora-plus", train__optimizer="paged-adamw-8bit")
    assert 'optim="paged_adamw_8bit"' in text and "trainer.get_optimizer_cls_and_kwargs(trainer.args, model)" in text
    assert text.index("trainer.create_optimizer = partial(lora_plus, trainer)") < text.index("trainer.train(")


@pytest.mark.parametrize(
    ("base", "keys", "rule"),
    [
        ("lora-single", {"train.lora.variant": "pissa", "train.quantization": "nf4"}, "BAD-061"),
        ("lora-single", {"train.lora.variant": "dora", "train.lora.dropout": 0.1}, "BAD-063"),
        ("lora-ddp", {"train.lora.variant": "pissa", "train.strategy": "fsdp"}, "BAD-064"),
        ("dpo-full", {"train.adaptation": "lora", "train.lora.variant": "pissa"}, "BAD-060"),
        ("lora-single", {"train.lora.variant": "dora", "model.name": "Qwen/Qwen3-30B-A3B"}, "BAD-062"),
    ],
)
def test_what_it_does_not_go_with_is_refused(tmp_path: Path, base: str, keys: dict[str, Any], rule: str) -> None:
    recipe = BASES[base]
    for key, value in keys.items():
        recipe = with_key(recipe, key, value)
    done = compiled(tmp_path, recipe)
    assert done.lock is None
    assert rule in " ".join(" ".join((each.title, *each.help, *each.notes)) for each in done.diagnostics)


SMALL = {"hidden_size": 64, "intermediate_size": 96, "vocab_size": 128}


@pytest.mark.parametrize("name", LORA_VARIANTS)
def test_as_many_parameters_are_trained_as_are_counted(name: str) -> None:
    peft, transformers = pytest.importorskip("peft"), pytest.importorskip("transformers")
    found = model("Qwen/Qwen2.5-0.5B")
    assert found is not None
    shape = replace(found.architecture, **SMALL, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=16)
    value = {"lora_targets": "all-linear", "lora_rank": 4, "lora_dropout": 0.0, "lora_variant": name}
    config = transformers.Qwen2Config(**SMALL, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
    own = dict(LORA_VARIANTS[name].arguments)
    adapter = peft.LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM", **own)
    adapted = peft.get_peft_model(transformers.Qwen2ForCausalLM(config), adapter)
    trained = sum(parameter.numel() for parameter in adapted.parameters() if parameter.requires_grad)
    assert trainable_params(shape, lora_shape(shape, value), METHODS["sft"]) == trained


@pytest.mark.parametrize("scales", ["keys-values-mlp", "keys-values"])
def test_as_many_numbers_of_ia3_are_trained_as_are_counted(scales: str) -> None:
    peft, transformers = pytest.importorskip("peft"), pytest.importorskip("transformers")
    found = model("Qwen/Qwen2.5-0.5B")
    assert found is not None
    shape = replace(found.architecture, **SMALL, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=16)
    counted = adapter_shape(shape, {"adaptation": "ia3", "ia3_scales": scales})
    assert counted is not None
    config = transformers.Qwen2Config(**SMALL, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
    inputs = [name for name in counted.scaled if name == "down_proj"]
    adapter = peft.IA3Config(target_modules=list(counted.scaled), feedforward_modules=inputs, task_type="CAUSAL_LM")
    adapted = peft.get_peft_model(transformers.Qwen2ForCausalLM(config), adapter)
    trained = sum(parameter.numel() for parameter in adapted.parameters() if parameter.requires_grad)
    assert trainable_params(shape, counted, METHODS["sft"]) == trained == 2 * (2 * 32 + 96 * bool(inputs))


def test_ia3_names_its_modules_and_is_never_taken_unasked(tmp_path: Path) -> None:
    done = good(tmp_path, with_key(BASES["lora-single"], "train.adaptation", "ia3"))
    text = texts(done)["train.py"]
    assert 'target_modules=["k_proj", "v_proj", "down_proj"],' in text and 'feedforward_modules=["down_proj"]' in text
    assert "learning_rate=0.008," in text and "merge_adapter.py" in texts(done) and "lora" not in text
    assert done.plan and done.plan.stages[0].layout.adaptation == "ia3"
    asked = [with_key(BASES["lora-single"], "goal.priority", kind) for kind in ("memory", "speed", "quality")]
    plans = [good(tmp_path, recipe).plan for recipe in asked]
    assert not [plan for plan in plans if plan and plan.stages[0].layout.adaptation == "ia3"]
