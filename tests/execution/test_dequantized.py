"""A checkpoint with experts in MXFP4, as gpt-oss has them: whatever a bundle saves of it loads with the same logits."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from compiling import BASES, Tables, good, texts, with_key
from emitted_modules import load
from tiny_models import WORDS, save, tokenizer

pytestmark = pytest.mark.executes
RECIPE = with_key(BASES["lora-single"], "data.template", "plain")
MXFP4 = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}
SHAPE = {"hidden_size": 64, "head_dim": 32, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 32}
TOKENS = [[3, 9, 40, 41, 8, 77]]


def checkpoint(folder: Path) -> None:
    """Write a model as the Hub has gpt-oss: in blocks of 32 weights with a scale, 4 bits each."""
    import torch
    from safetensors.torch import load_file, save_file

    save(folder, 0, model_type="gpt_oss", vocab_size=WORDS, **SHAPE)
    stored = {}
    for name, weight in load_file(folder / "model.safetensors").items():
        if name.endswith(("gate_up_proj", "down_proj")):
            experts, taken, given = weight.shape
            stored[f"{name}_blocks"] = torch.randint(0, 255, (experts, given, taken // 32, 16), dtype=torch.uint8)
            stored[f"{name}_scales"] = torch.full((experts, given, taken // 32), 124, dtype=torch.uint8)  # 2 ** -3
        else:
            stored[name] = weight.bfloat16()
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "bfloat16", "quantization_config": MXFP4}))
    tokenizer().save_pretrained(folder)


def bundle(folder: Path, recipe: Tables) -> dict[str, str]:
    """The files of a bundle for the checkpoint, beside it."""
    checkpoint(folder / "base")
    (folder / "recipe").mkdir()
    found = texts(good(folder / "recipe", with_key(recipe, "model.name", str(folder / "base"))))
    for path, text in found.items():
        if "/" not in path:
            (folder / path).write_text(text, encoding="utf-8")
    return found


def logits(folder: Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="eager")
    with torch.no_grad():
        return model(input_ids=torch.tensor(TOKENS)).logits[..., :WORDS].float()


def test_a_full_model_is_saved_under_the_names_that_load(tmp_path: Path) -> None:
    """With the lines of train.py before training, on TRL's own trainer: its checkpoints and its result."""
    import torch
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    script = bundle(tmp_path, with_key(RECIPE, "train.adaptation", "full"))["train.py"]
    arguments = {"max_steps": 1, "learning_rate": 0.0, "bf16": False, "use_cpu": True, "report_to": "none"}
    arguments |= {"save_steps": 1, "dataloader_pin_memory": False, "model_init_kwargs": {"dtype": "bfloat16"}}
    config = SFTConfig(output_dir=str(tmp_path / "outputs"), **arguments)
    rows = Dataset.from_list([{"prompt": "w3 w9", "completion": "w7 w8"}] * 8)
    trainer = SFTTrainer(model=str(tmp_path / "base"), args=config, train_dataset=rows)
    before = script.split("    trainer.train(")[0].splitlines()
    exec("\n".join(line.strip() for line in before if line.startswith("    trainer.model.")), {"trainer": trainer})
    trainer.train()
    trainer.save_model()
    for folder in (tmp_path / "outputs", tmp_path / "outputs" / "checkpoint-1"):
        assert torch.equal(logits(folder), logits(tmp_path / "base"))


def adapted(folder: Path) -> None:
    """A result of training: an adapter on attention, and on the experts."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(1)
    base = AutoModelForCausalLM.from_pretrained(folder / "base", dtype=torch.bfloat16)
    targets = {"target_modules": ["q_proj"], "target_parameters": ["experts.gate_up_proj", "experts.down_proj"]}
    model = get_peft_model(base, LoraConfig(r=4, task_type="CAUSAL_LM", **targets, init_lora_weights=False))
    model.save_pretrained(folder / "outputs" / "sft")
    tokenizer().save_pretrained(folder / "outputs" / "sft")
    (folder / "outputs" / "sft" / "finished.json").write_text("{}")


def merging(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = load(folder / "merge_adapter.py", monkeypatch)
    monkeypatch.setattr(module, "PROBE", "w3 w9 w40 w41 w8 w77")  # the stand-in's tokenizer knows these words
    return module


def test_an_adapter_is_merged_into_the_experts_that_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    bundle(tmp_path, RECIPE)
    adapted(tmp_path)
    merging(tmp_path, monkeypatch).main()
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "base", dtype=torch.bfloat16, attn_implementation="eager")
    whole = PeftModel.from_pretrained(base, tmp_path / "outputs" / "sft").merge_and_unload()
    with torch.no_grad():
        expected = whole(input_ids=torch.tensor(TOKENS)).logits.float()
    assert torch.equal(logits(tmp_path / "outputs" / "sft" / "merged"), expected)


def test_a_merge_whose_names_do_not_load_is_not_marked_as_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle(tmp_path, RECIPE)
    adapted(tmp_path)
    script = tmp_path / "merge_adapter.py"
    script.write_text(script.read_text().replace("merged._weight_conversions = None", "pass"))
    with pytest.raises(SystemExit, match=r"saved under names that do not load: it lacks .*experts\.down_proj"):
        merging(tmp_path, monkeypatch).main()
    assert not (tmp_path / "outputs" / "sft" / "merged" / "finished.json").exists()


def test_a_vocabulary_grows_beside_the_experts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    bundle(tmp_path, with_key(RECIPE, "model.new_tokens", ["<|new|>"]))
    load(tmp_path / "vocabulary.py", monkeypatch).main()
    assert torch.equal(logits(tmp_path / "extended-model"), logits(tmp_path / "base"))


def test_random_weights_are_not_saved_as_those_of_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModelForCausalLM

    bundle(tmp_path, BASES["pretrain"])
    train = load(tmp_path / "train.py", monkeypatch)
    monkeypatch.setattr(train, "MODEL", str(tmp_path / "base"))
    train.random_model(SimpleNamespace(seed=0)).save_pretrained(tmp_path / "saved")
    _, found = AutoModelForCausalLM.from_pretrained(tmp_path / "saved", output_loading_info=True)
    assert not found["missing_keys"] and not found["unexpected_keys"]
    assert json.loads((tmp_path / "saved" / "config.json").read_text()).get("quantization_config") is None
