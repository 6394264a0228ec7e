"""What bottleneck adapters bring to a bundle: how they train, save and load with PEFT, and what refuses them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from compiling import BASES, compiled, good, texts, with_key
from msgspec.structs import replace

from recipec.axes import ADAPTATIONS, METHODS
from recipec.catalog.models import model
from recipec.compiler import Compilation
from recipec.estimate.sizes import trainable_params
from recipec.estimate.workload import adapter_shape

NAME = "bottleneck"
FILE = ADAPTATIONS[NAME].module
SMALL = {"hidden_size": 64, "intermediate_size": 96, "vocab_size": 128}
LAYERS = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}


def asked(folder: Path, base: str = "lora-single", **keys: Any) -> Compilation:
    """A recipe that names the adaptation, with further keys (dots are two underscores)."""
    recipe = with_key(BASES[base], "train.adaptation", NAME)
    for key, value in keys.items():
        recipe = with_key(recipe, key.replace("__", "."), value)
    return compiled(folder, recipe)


def test_a_bundle_trains_and_evaluates_with_the_file_that_peft_needs(tmp_path: Path) -> None:
    found = texts(asked(tmp_path, train__bottleneck__reduction_factor=32))
    wide = "reduction_factor=32,  # adapters 128 wide in a model of 4,096"
    assert f"from {FILE} import BottleneckConfig" in found["train.py"] and wide in found["train.py"]
    assert 'target_modules=["down_proj"],' in found["train.py"] and "learning_rate=1e-4," in found["train.py"]
    assert f"import {FILE}  # noqa: F401" in found["evaluate.py"] and f"{FILE}.py" in found
    assert "merge_adapter.py" not in found and "merged" not in found["evaluate.py"]
    readme = found["README.md"]
    assert f"`{FILE}.py` brings them" in readme and f"import {FILE}" in readme and "To merge" not in readme
    others = texts(good(tmp_path, BASES["lora-single"]))
    assert FILE not in others and not [name for name in others if FILE in others[name] or "noqa" in others[name]]


def test_a_second_adapter_stands_behind_attention_where_it_is_asked_for(tmp_path: Path) -> None:
    one, two = asked(tmp_path), asked(tmp_path, train__bottleneck__after="attention-and-mlp")
    assert 'target_modules=["o_proj", "down_proj"],' in texts(two)["train.py"]
    numbers = [done.plan.stages[0].value("trainable_params") for done in (one, two) if done.plan]
    assert numbers[1] == 2 * numbers[0]
    kept = [done.plan.stages[0].memory.terms["activations"] for done in (one, two) if done.plan]
    assert kept[1] > kept[0]


def test_its_table_asks_for_it_and_nothing_else_does(tmp_path: Path) -> None:
    done = good(tmp_path, with_key(BASES["lora-single"], "train.bottleneck.reduction_factor", 8))
    assert done.plan and done.plan.stages[0].layout.adaptation == NAME
    plans = [compiled(tmp_path, recipe).plan for recipe in BASES.values() if "fusion" not in recipe]
    assert not [stage for plan in plans if plan for stage in plan.stages if stage.layout.adaptation == NAME]


@pytest.mark.parametrize(
    ("base", "keys", "said"),
    [
        ("lora-single", {"train__quantization": "nf4"}, "bottleneck goes with quantization"),
        ("lora-single", {"train__lora__rank": 8}, "bottleneck adapter has no lora"),
        ("lora-single", {"train__loop": "torch"}, "BAD-156"),
        ("lora-single", {"model__new_tokens": ["<|question|>"]}, "BAD-131"),
        ("lora-single", {"model__name": "Qwen/Qwen3-30B-A3B", "hardware__gpu": "b200"}, "BAD-170"),
        ("lora-single", {"model__name": "Qwen/Qwen3.5-0.8B"}, "BAD-101"),
        ("lora-single", {"model__name": "google/gemma-4-12B", "data__template": "plain"}, "BAD-107"),
        ("sft-dpo", {}, "BAD-171"),
        ("adapters", {}, "bottleneck adapter has no lora"),
        ("grpo", {"alignment__method": "grpo"}, "answers have been written with low-rank adapters alone"),
        ("reward", {}, "contradict each other"),
    ],
)
def test_what_it_does_not_go_with_is_refused(tmp_path: Path, base: str, keys: dict[str, Any], said: str) -> None:
    done = asked(tmp_path, base, **keys)
    assert done.lock is None
    labels = [label.message for each in done.diagnostics for label in each.labels]
    assert said in " ".join([*labels, *(" ".join((one.title, *one.help, *one.notes)) for one in done.diagnostics)])


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The file of a bundle, imported as its scripts do."""
    pytest.importorskip("peft")
    (tmp_path / f"{FILE}.py").write_text(texts(asked(tmp_path))[f"{FILE}.py"])
    monkeypatch.syspath_prepend(tmp_path)
    yield __import__(FILE)
    sys.modules.pop(FILE)


def tiny() -> Any:
    """A model of two layers, whose weights are always the same."""
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    torch.manual_seed(0)
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**SMALL, **LAYERS, initializer_range=0.2)).eval()


@pytest.mark.parametrize(("after", "modules"), [("mlp", ["down_proj"]), ("attention-and-mlp", ["o_proj", "down_proj"])])
def test_as_many_numbers_are_trained_as_are_counted(brought: ModuleType, after: str, modules: list[str]) -> None:
    import peft

    found = model("Qwen/Qwen2.5-0.5B")
    assert found is not None
    shape = replace(found.architecture, **SMALL, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=16)
    counted = adapter_shape(shape, {"adaptation": NAME, "reduction_factor": 8, "adapters_after": after})
    config = brought.BottleneckConfig(target_modules=modules, reduction_factor=8, task_type="CAUSAL_LM")
    trained = sum(weight.numel() for weight in peft.get_peft_model(tiny(), config).parameters() if weight.requires_grad)
    assert trainable_params(shape, counted, METHODS["sft"]) == trained == 2 * len(modules) * (2 * 64 * 8 + 8 + 64)


def test_it_starts_as_the_base_and_comes_back_from_its_own_few_weights(brought: ModuleType, tmp_path: Path) -> None:
    import peft
    import torch
    from safetensors.torch import load_file

    ids, base = torch.arange(24).view(2, 12), tiny()
    start = base(ids).logits
    config = brought.BottleneckConfig(target_modules=["down_proj"], reduction_factor=8, task_type="CAUSAL_LM")
    adapted = peft.get_peft_model(base, config)
    assert torch.equal(adapted(ids).logits, start)
    moved = [weight for weight in adapted.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(moved, lr=0.02)
    for _ in range(3):  # `down` has no gradient before `up` has left 0
        adapted(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    trained = adapted(ids).logits
    adapted.save_pretrained(tmp_path / "result")
    saved = load_file(tmp_path / "result" / "adapter_model.safetensors")
    assert sum(weight.numel() for weight in saved.values()) == sum(weight.numel() for weight in moved)
    again = peft.PeftModel.from_pretrained(tiny(), tmp_path / "result")
    assert torch.equal(again(ids).logits, trained) and not torch.allclose(trained, start, atol=1e-3)
    with adapted.disable_adapter():  # the reference of preference methods
        assert torch.equal(adapted(ids).logits, start)
