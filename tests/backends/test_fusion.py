"""What AdapterFusion brings to a bundle: how it is asked for, trains, saves and loads, and what refuses it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from compiling import BASES, Tables, codes, compiled, good, texts, with_key
from msgspec.structs import replace

from recipec.axes import ADAPTATIONS, METHODS
from recipec.catalog.models import model
from recipec.estimate.bottlenecks import frozen_behind
from recipec.estimate.sizes import trainable_params
from recipec.estimate.workload import adapter_shape

FILE, ONE = ADAPTATIONS["fusion"].module, ADAPTATIONS["bottleneck"].module
TASKS = ["support", "orders"]
SMALL = {"hidden_size": 64, "intermediate_size": 96, "vocab_size": 128}
LAYERS = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}


def asked(**keys: Any) -> Tables:
    """The recipe of two adapters with their mix, and further keys (dots are two underscores)."""
    recipe = {**BASES["fusion"], "adapters": [dict(table) for table in BASES["fusion"]["adapters"]]}
    for key, value in keys.items():
        recipe = with_key(recipe, key.replace("__", "."), value)
    return recipe


def test_one_more_stage_loads_the_adapters_and_trains_the_mix(tmp_path: Path) -> None:
    found = texts(good(tmp_path, asked()))
    train = found["stages/3-fusion/train.py"]
    assert (
        '    "support": BUNDLE / "outputs" / "support",' in train and "load_adapters(trainer.model, ADAPTERS)" in train
    )
    assert "learning_rate=5e-5," in train and "HoldValues(strength=0.01)" in train
    assert "BottleneckConfig" in found["stages/1-support/train.py"] and FILE not in found["stages/1-support/train.py"]
    assert "DATA, *ADAPTERS.values())" in train  # another result of a task is another run
    combine = found["combine.py"]
    assert 'MIX = {"fusion": "stages/3-fusion"}' in combine and "--fused" in combine and "merge" not in combine
    assert "fused" not in texts(good(tmp_path, BASES["adapters"]))["combine.py"]


def test_adapters_that_stay_apart_may_be_bottlenecks(tmp_path: Path) -> None:
    recipe = asked(train__adaptation="bottleneck")
    del recipe["fusion"]
    found = texts(good(tmp_path, recipe))
    assert "stages/3-fusion/train.py" not in found and "merge" not in found["combine.py"]


def test_its_rows_are_those_of_all_adapters_or_its_own(tmp_path: Path) -> None:
    stages = good(tmp_path, asked()).plan.stages
    assert stages[2].value("examples") == sum(stage.value("examples") for stage in stages[:2]) == 5_900
    assert stages[2].stage.mixes == tuple(TASKS) and stages[0].stage.mixes == ()
    own = good(tmp_path, asked(fusion__train="chat.jsonl", fusion__examples=77)).plan.stages[2]
    assert own.value("examples") == 77


def test_rates_of_the_adapters_are_not_its_own(tmp_path: Path) -> None:
    stages = good(tmp_path, asked(train__learning_rate=1e-4, fusion__epochs=1)).plan.stages
    assert [stage.value("learning_rate") for stage in stages] == [1e-4, 1e-4, 5e-5]
    assert stages[2].value("epochs") == 1 != stages[0].value("epochs")
    own = good(tmp_path, asked(train__sft__learning_rate=1e-4, fusion__learning_rate=2e-5)).plan.stages
    assert [stage.value("learning_rate") for stage in own] == [1e-4, 1e-4, 2e-5]


def test_a_penalty_of_zero_leaves_it_out(tmp_path: Path) -> None:
    assert "HoldValues" not in texts(good(tmp_path, asked(fusion__identity_penalty=0)))["stages/3-fusion/train.py"]


@pytest.mark.parametrize(
    ("keys", "code", "said"),
    [
        ({"train__adaptation": "lora"}, "E0414", "LoRA is not mixed by AdapterFusion"),
        ({"train__lora__rank": 8}, "E0414", "LoRA is not mixed by AdapterFusion"),
        ({"train__quantization": "nf4"}, "E0414", "a quantized base"),
        ({"goal__task": "continue-pretrain"}, "E0414", "was not run with it"),
        ({"hardware__gpus_per_node": 2, "train__strategy": "fsdp"}, "E0405", "BAD-172"),
        ({"hardware__gpus_per_node": 2, "train__strategy": "zero2"}, "E0405", "BAD-172"),
        ({"train__precision": "fp16"}, "E0405", "BAD-173"),
        ({"train__loop": "torch"}, "E0405", "BAD-156"),
    ],
)
def test_what_it_does_not_go_with_is_refused(tmp_path: Path, keys: dict[str, Any], code: str, said: str) -> None:
    done = compiled(tmp_path, asked(**keys))
    assert done.lock is None and code in codes(done)
    labels = [label.message for each in done.diagnostics for label in each.labels]
    assert said in " ".join([*labels, *(" ".join((one.title, *one.help, *one.notes)) for one in done.diagnostics)])


def test_a_rank_and_held_out_rows_of_some_are_refused(tmp_path: Path) -> None:
    recipe = asked()
    recipe["adapters"][1] |= {"rank": 8, "eval": "chat.jsonl"}
    assert codes(compiled(tmp_path, recipe)) == ["E0414", "E0414"]
    alone = {name: table for name, table in asked().items() if name != "adapters"}
    assert "E0414" in codes(compiled(tmp_path, alone))


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ModuleType, ModuleType]]:
    """The files of a bundle, imported as its scripts do: of one adapter, and of the mix."""
    pytest.importorskip("peft")
    found = texts(good(tmp_path / "recipe", asked()))
    (tmp_path / f"{ONE}.py").write_text(found[f"stages/1-support/{ONE}.py"])
    (tmp_path / f"{FILE}.py").write_text(found[f"stages/3-fusion/{FILE}.py"])
    monkeypatch.syspath_prepend(tmp_path)
    yield __import__(ONE), __import__(FILE)
    sys.modules.pop(ONE)
    sys.modules.pop(FILE)


def tiny() -> Any:
    """A model of two layers, whose weights are always the same."""
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    torch.manual_seed(0)
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**SMALL, **LAYERS, initializer_range=0.2)).eval()


SHAPE = {"target_modules": ["down_proj"], "reduction_factor": 8, "task_type": "CAUSAL_LM"}


def adapters(one: ModuleType, folder: Path) -> dict[str, Path]:
    """A random adapter of each task, saved."""
    import peft
    import torch

    for seed, task in enumerate(TASKS):
        adapted = peft.get_peft_model(tiny(), one.BottleneckConfig(**SHAPE))
        torch.manual_seed(seed)
        with torch.no_grad():
            for name, weight in adapted.named_parameters():
                if "bottleneck" in name:
                    weight.normal_(std=0.3)
        adapted.save_pretrained(folder / task)
    return {task: folder / task for task in TASKS}


def mixed(mix: ModuleType, folders: dict[str, Path]) -> Any:
    """A new mix of the adapters."""
    import peft
    import torch

    torch.manual_seed(1)
    model = peft.get_peft_model(tiny(), mix.FusionConfig(adapters=list(folders), **SHAPE))
    mix.load_adapters(model, folders)
    return model


def test_the_mix_is_the_attention_of_the_paper(brought: tuple[ModuleType, ModuleType], tmp_path: Path) -> None:
    """With a key and a value of every adapter, as the paper writes it, and from the adapters' own files."""
    import peft
    import torch

    one, mix = brought
    folders = adapters(one, tmp_path)
    layer = mixed(mix, folders).base_model.model.model.layers[1].mlp.down_proj
    query, key, value = (part["default"].weight for part in (layer.fusion_query, layer.fusion_key, layer.fusion_value))
    assert torch.equal(value, torch.eye(64))
    torch.nn.init.normal_(value, std=0.2)
    alone = [peft.PeftModel.from_pretrained(tiny(), folder) for folder in folders.values()]
    inputs = torch.randn(2, 5, 96)
    output = layer.base_layer(inputs)
    modules = [each.base_model.model.model.layers[1].mlp.down_proj for each in alone]
    outputs = [module.change("default", output) for module in modules]
    scores = torch.stack([((output @ query.T) * (added @ key.T)).sum(-1) for added in outputs], dim=-1)
    shares = scores.softmax(-1)
    assert shares.std() > 0.1
    wanted = output + sum(shares[..., n : n + 1] * (added @ value.T) for n, added in enumerate(outputs))
    assert torch.allclose(layer(inputs), wanted, atol=1e-4)


def test_only_the_attention_trains_and_the_whole_mix_comes_back(
    brought: tuple[ModuleType, ModuleType], tmp_path: Path
) -> None:
    import peft
    import torch
    from safetensors.torch import load_file

    one, mix = brought
    folders, ids = adapters(one, tmp_path), torch.arange(24).view(2, 12)
    model = mixed(mix, folders)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    start = model(ids).logits
    moved = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(moved, lr=0.02)
    for _ in range(2):
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    changed = {name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])}
    assert changed == {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert len(changed) == 3 * LAYERS["num_hidden_layers"] and all("fusion_mixed" not in name for name in changed)
    trained = model(ids).logits
    model.save_pretrained(tmp_path / "result")
    saved = load_file(tmp_path / "result" / "adapter_model.safetensors")
    for place, folder in enumerate(folders.values()):
        for name, weight in load_file(folder / "adapter_model.safetensors").items():
            module, _, part = name.partition(".bottleneck_")
            assert torch.equal(saved[f"{module}.fusion_mixed.{part.replace('.', '_')}"][place], weight)
    assert not [name for name in saved if "base_layer" in name]
    again = peft.PeftModel.from_pretrained(tiny(), tmp_path / "result", adapter_name="under-another")
    assert torch.equal(again(ids).logits, trained) and not torch.allclose(trained, start, atol=1e-3)
    with model.disable_adapter():
        assert torch.equal(model(ids).logits, tiny()(ids).logits)


def test_as_many_numbers_are_trained_and_frozen_as_are_counted(
    brought: tuple[ModuleType, ModuleType], tmp_path: Path
) -> None:
    found = model("Qwen/Qwen2.5-0.5B")
    assert found is not None
    shape = replace(found.architecture, **SMALL, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=16)
    value = {"adaptation": "fusion", "reduction_factor": 8, "adapters_after": "mlp", "mixed_adapters": TASKS}
    counted, made = adapter_shape(shape, value), mixed(brought[1], adapters(brought[0], tmp_path))
    trained = sum(weight.numel() for weight in made.parameters() if weight.requires_grad)
    frozen = sum(weight.numel() for name, weight in made.named_parameters() if "fusion_mixed" in name)
    assert trainable_params(shape, counted, METHODS["sft"]) == trained == 2 * 3 * 64 * 64
    assert frozen_behind(shape, counted) == frozen


def test_the_penalty_is_that_of_autograd(brought: tuple[ModuleType, ModuleType], tmp_path: Path) -> None:
    import torch

    one, mix = brought
    made = mixed(mix, adapters(one, tmp_path))
    values = [weight for name, weight in made.named_parameters() if "fusion_value" in name]
    for weight in values:
        torch.nn.init.normal_(weight, mean=0.1)
    (0.3 * sum((weight - torch.eye(64)).square().sum() for weight in values)).backward()
    wanted = [weight.grad.clone() for weight in values]
    for weight in values:
        weight.grad = torch.zeros_like(weight)
    mix.HoldValues(strength=0.3).on_pre_optimizer_step(None, None, None, model=made)
    assert all(torch.allclose(weight.grad, grad, atol=1e-5) for weight, grad in zip(values, wanted, strict=True))


def test_adapters_behind_other_modules_are_refused(brought: tuple[ModuleType, ModuleType], tmp_path: Path) -> None:
    import peft

    one, mix = brought
    folders = adapters(one, tmp_path)
    other = one.BottleneckConfig(**SHAPE | {"target_modules": ["o_proj", "down_proj"]})
    peft.get_peft_model(tiny(), other).save_pretrained(folders["orders"])
    with pytest.raises(SystemExit, match=r"orders has adapters behind other modules: .*o_proj"):
        mixed(mix, folders)
