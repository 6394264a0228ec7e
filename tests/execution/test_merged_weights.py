"""What vLLM is sent beside an adapter: base and product as PEFT merges them, and the base as it was to the bit."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace

import pytest
from compiling import BASES, good, texts, with_key
from emitted_modules import load
from tiny_models import WORDS, save

pytestmark = pytest.mark.executes


@pytest.mark.parametrize("tied", [False, True])
def test_the_copy_gets_merged_weights_and_the_base_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tied: bool
) -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    recipe = with_key(BASES["grpo"], "alignment.generation", {"engine": "vllm"})
    script = tmp_path / "merged_weights.py"
    script.write_text(texts(good(tmp_path, recipe))["merged_weights.py"])
    sizes = {"model_type": "llama", "vocab_size": WORDS, "hidden_size": 32, "tie_word_embeddings": tied}
    save(tmp_path / "base", 0, **sizes)
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "base", dtype=torch.bfloat16)
    named = [name for name, _ in base.named_parameters()]
    shape = {"target_modules": "all-linear", "r": 4, "lora_alpha": 16, "task_type": "CAUSAL_LM"}
    model = get_peft_model(base, LoraConfig(**shape, init_lora_weights=False))
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    trainer = SimpleNamespace(
        vllm_generation=SimpleNamespace(), model=model, accelerator=SimpleNamespace(device=torch.device("cpu"))
    )

    load(script, monkeypatch).send_merged(trainer)
    sent = dict(trainer.vllm_generation._iter_named_params())

    merged = dict(deepcopy(model).float().merge_and_unload().named_parameters())
    assert list(sent) == named
    assert all(torch.equal(sent[name], merged[name].bfloat16()) for name in named)
    assert any(not torch.equal(sent[name], before[f"base_model.model.{_inner(name)}"]) for name in named)
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())


def _inner(name: str) -> str:
    """A projection is wrapped, anything else stays where it was."""
    return name.replace(".weight", ".base_layer.weight") if "_proj" in name else name
