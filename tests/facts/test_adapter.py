"""The adapter that training goes on from: its shape decides, and what does not fit is refused at the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, codes, compiled, good, texts, with_key, write_adapter, write_data

from recipec.facts.adapter import WEIGHTS

ON = with_key(BASES["lora-single"], "model.init_from", "./start")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_data(tmp_path)
    write_adapter(tmp_path / "start", "Qwen/Qwen3-8B")
    return tmp_path


def test_its_shape_decides(folder: Path) -> None:
    done = good(folder, ON)
    assert done.plan
    decided = done.plan.stages[0].decisions
    assert [decided[f"lora_{name}"].value for name in ("rank", "alpha", "dropout")] == [8, 16, 0.05]
    assert decided["lora_targets"].value == ["q_proj", "v_proj"] and decided["adaptation"].value == "lora"
    assert decided["lora_rank"].where == "./start/adapter_config.json"
    train, evaluate = texts(done)["train.py"], texts(done)["evaluate.py"]
    assert 'ADAPTER = str(DATA_ROOT / "start")' in train and "model=continued(config)," in train
    assert "peft_config" not in train and "is_trainable=True" in train
    assert 'PeftModel.from_pretrained(model, ADAPTER if when == "before" else TRAINED)' in evaluate
    assert "which_model(Path(ADAPTER))" in evaluate
    assert texts(good(folder, BASES["lora-single"]))["train.py"] != train


@pytest.mark.parametrize(
    ("flags", "variant"), [({"use_dora": True, "lora_dropout": 0}, "dora"), ({"use_rslora": True}, "rslora")]
)
def test_its_variant_is_that_of_its_file(folder: Path, flags: dict[str, Any], variant: str) -> None:
    write_adapter(folder / "start", "Qwen/Qwen3-8B", **flags)
    plan = good(folder, ON).plan
    assert plan and plan.stages[0].decisions["lora_variant"].value == variant


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"base_model_name_or_path": "meta-llama/Llama-3.1-8B"}, "made on meta-llama/Llama-3.1-8B"),
        ({"base_model_name_or_path": None}, "a model that its file does not name"),
        ({"peft_type": "IA3"}, "its peft_type is IA3"),
        ({"init_lora_weights": "pissa"}, "changes the base again"),
        ({"modules_to_save": ["lm_head"]}, "it has modules_to_save"),
        ({"bias": "all"}, "it has bias"),
        ({"target_modules": ["c_attn"]}, "c_attn, and Qwen/Qwen3-8B has no such module"),
        ({"target_modules": ".*proj"}, "no list of names"),
        ({"use_dora": True, "use_rslora": True}, "which no variant has together"),
        ({"r": None}, "does not say its rank"),
    ],
)
def test_what_does_not_fit_is_refused(folder: Path, config: dict[str, Any], why: str) -> None:
    write_adapter(folder / "start", "Qwen/Qwen3-8B", **config)
    done = compiled(folder, ON)
    [finding] = [each for each in done.diagnostics if each.code == "E0311"]
    assert any(why in label.message for label in finding.labels), finding
    assert finding.labels[0].place.text.splitlines()[finding.labels[0].place.span.line - 1].startswith("model")


def test_a_name_that_is_no_path_is_refused(folder: Path) -> None:
    done = compiled(folder, with_key(ON, "model.init_from", "start"))
    assert codes(done) == ["E0311"] and "begin with ./" in done.diagnostics[0].labels[0].message


def test_weights_that_are_missing_are_told(folder: Path) -> None:
    (folder / "start" / WEIGHTS).unlink()
    assert codes(compiled(folder, ON)) == ["E0311"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("train.lora.rank", 16),
        ("train.sft.lora.alpha", 8),
        ("train.lora.targets", "all-linear"),
        ("train.lora.variant", "dora"),
        ("train.adaptation", "full"),
        ("train.adaptation", "ia3"),
    ],
)
def test_another_shape_in_the_recipe_is_refused(folder: Path, key: str, value: Any) -> None:
    done = compiled(folder, with_key(ON, key, value))
    [finding] = [each for each in done.diagnostics if each.code == "E0401"]
    assert finding.title == f"`{key}` is not that of the adapter"


@pytest.mark.parametrize(("key", "value"), [("train.lora.rank", 8), ("train.lora.variant", "lora-plus")])
def test_the_same_shape_is_none(folder: Path, key: str, value: Any) -> None:
    assert good(folder, with_key(ON, key, value)).plan


@pytest.mark.parametrize(
    ("key", "value", "base"),
    [
        ("train.adaptation", "qlora", "nf4"),
        ("train.quantization", "nf4", "nf4"),
        ("train.adaptation", "lora-int8", "int8"),
        ("train.adaptation", "lora", "none"),
    ],
)
def test_the_recipe_says_how_the_base_is_stored(folder: Path, key: str, value: str, base: str) -> None:
    """The folder of an adapter does not say it; the loaded model and its evaluation have that base."""
    done = good(folder, with_key(ON, key, value))
    assert done.plan and done.plan.stages[0].decisions["quantization"].value == base
    train, evaluate = texts(done)["train.py"], texts(done)["evaluate.py"]
    loading = f"from_pretrained(MODEL, quantization_config={base}_config(), **options)"
    assert (loading in train) is (base != "none") is (f"{base}_config()" in evaluate)
    assert ("\n        quantization_config=" not in train and "parameter.data.float()" in train) or base == "none"


@pytest.mark.parametrize(("base", "rule"), [("sft-dpo", None), ("dpo-full", "BAD-080"), ("pretrain", "random")])
def test_which_stages_go_on_from_it(folder: Path, base: str, rule: str | None) -> None:
    recipe = BASES[base] if base != "dpo-full" else with_key(BASES[base], "train", {})
    write_adapter(folder / "start", recipe["model"]["name"])
    done = compiled(folder, with_key(recipe, "model.init_from", "./start"))
    if rule:
        said = [
            (each.title, *each.help, *each.notes, *(label.message for label in each.labels))
            for each in done.diagnostics
        ]
        assert done.lock is None and rule in str(said)
    else:
        assert done.plan and ["init_from" in stage.decisions for stage in done.plan.stages] == [True, False]


def test_an_adapter_whose_base_was_moved_is_told_where_to_say_so(folder: Path) -> None:
    """PEFT keeps the absolute path; the folder of another model could have the same name."""
    from transformers import AutoConfig

    AutoConfig.for_model("qwen2", vocab_size=151_936, architectures=["Qwen2ForCausalLM"]).save_pretrained(
        folder / "own"
    )
    write_adapter(folder / "start", "/not/there/own")
    [finding] = [
        each for each in compiled(folder, with_key(ON, "model.name", "./own")).diagnostics if each.code == "E0311"
    ]
    wanted = "if ./own is that model, moved here, write `./own` as base_model_name_or_path into its adapter_config.json"
    assert finding.help == (wanted,)
    write_adapter(folder / "start", "./own")
    assert "E0311" not in codes(compiled(folder, with_key(ON, "model.name", "./own")))
