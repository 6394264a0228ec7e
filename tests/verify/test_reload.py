"""What a run saves reloads by the class of its method's row: whole models and adapters, that write or that score."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from emitted import built
from test_stand_in import TEXTS, real

from recipec.verify.bundle import read_bundle
from recipec.verify.learn_checks import logit_problems
from recipec.verify.process import clean_environment
from recipec.verify.sandbox import SHIM
from recipec.verify.stand_in import stand_in_tokenizer, write_stand_in
from recipec.verify.static import frameworks
from recipec.verify.static.frameworks import PROBES

pytestmark = pytest.mark.usefixtures("forked")
TASKS = {"AutoModelForCausalLM": "CAUSAL_LM", "AutoModelForSequenceClassification": "SEQ_CLS"}


def trained(folder: Path, auto_class: str, adapter: bool) -> Any:
    """A model that was made from a language model's stand-in, changed, and saved in `folder` as trainers save it."""
    import peft
    import torch
    import transformers

    known = real("llama")
    write_stand_in(known, stand_in_tokenizer(known, TEXTS, None), folder / "base")
    scores = {"num_labels": 1} if auto_class.endswith("SequenceClassification") else {}
    model = getattr(transformers, auto_class).from_pretrained(folder / "base", dtype=torch.float32, **scores)
    if adapter:
        kept = {"modules_to_save": ["score"]} if scores else {}
        model = peft.get_peft_model(
            model, peft.LoraConfig(task_type=TASKS[auto_class], target_modules="all-linear", **kept)
        )
    with torch.no_grad():
        for weight in model.parameters():
            if weight.requires_grad:
                weight.add_(0.05 * torch.randn_like(weight))
    model.save_pretrained(folder / "saved")
    return model.eval()


def reloaded(folder: Path, auto_class: str, adapter: bool) -> list[float]:
    """What the probe says of it, in a process of its own."""
    given = {"folder": str(folder / "saved"), "auto_class": auto_class, "brought": "", "adapter": adapter}
    given |= {"autocast": "fp32", "dtype": "float32", "quantized": None}
    command = [frameworks.PYTHON, str(PROBES / "reload.py"), json.dumps(given)]
    environment = clean_environment(folder) | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(SHIM), "CPU_STAND_IN": "{}"}
    subprocess.run(command, check=True, env=environment, cwd=folder, capture_output=True)
    return json.loads((folder / "saved" / "reloaded.json").read_text())["logits"]


@pytest.mark.parametrize("adapter", [False, True], ids=["whole", "adapter"])
@pytest.mark.parametrize("auto_class", TASKS)
def test_a_saved_model_gives_the_same_logits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, auto_class: str, adapter: bool
) -> None:
    model = trained(tmp_path, auto_class, adapter)
    monkeypatch.syspath_prepend(str(SHIM))
    from cpu_stand_in import learning

    seen = learning._logits(SimpleNamespace(model=model, model_wrapped=model))
    again = reloaded(tmp_path, auto_class, adapter)
    assert logit_problems(seen, again)[0] == []
    assert len(set(seen)) > 1, "several numbers, so that a chance is small"


def test_another_head_than_the_trained_one_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.torch import load_file, save_file

    auto_class = "AutoModelForSequenceClassification"
    model = trained(tmp_path, auto_class, adapter=True)
    monkeypatch.syspath_prepend(str(SHIM))
    from cpu_stand_in import learning

    seen = learning._logits(SimpleNamespace(model=model, model_wrapped=model))
    weights = tmp_path / "saved" / "adapter_model.safetensors"
    other = {name: tensor.flip(-1) if "score" in name else tensor for name, tensor in load_file(weights).items()}
    save_file({name: tensor.contiguous() for name, tensor in other.items()}, weights)
    assert logit_problems(seen, reloaded(tmp_path, auto_class, adapter=True))[0]


def test_an_engine_that_returns_nothing_when_it_is_told_to_evaluate_gives_its_logits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of DeepSpeed 0.19 does, where torch's modules return themselves."""
    monkeypatch.syspath_prepend(str(SHIM))
    from cpu_stand_in import learning

    model = trained(tmp_path, "AutoModelForCausalLM", adapter=False)
    expected = learning._logits(SimpleNamespace(model=model, model_wrapped=model))
    whole = model.eval
    monkeypatch.setattr(type(model), "eval", lambda self: whole() and None)
    assert learning._logits(SimpleNamespace(model=model, model_wrapped=model)) == expected


@pytest.mark.parametrize("name", ["qlora", "fsdp-qlora", "lora-int8", "dpo-int8"])
def test_a_base_in_fewer_bits_is_reloaded_as_it_is_trained_on(name: str) -> None:
    """In 16 bits the logits of an 8-bit base were 3 percent apart, which a tolerance for rounding nearly hid."""
    stage = read_bundle(built(name)).last
    assert stage.quantizing[{"nf4": "load_in_4bit", "int8": "load_in_8bit"}[stage.adapts.base]] is True
