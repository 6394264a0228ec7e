"""A checkpoint with experts in MXFP4, as gpt-oss has them: whatever a bundle saves of it loads with the same logits."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from compiling import BASES, Tables, good, texts, with_key
from emitted_modules import load
from tiny_models import WORDS, save, tokenizer

from recipec.verify.stand_in_mxfp4 import store_in_mxfp4

pytestmark = pytest.mark.executes
RECIPE = with_key(BASES["lora-single"], "data.template", "plain")
SHAPE = {"hidden_size": 64, "head_dim": 32, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 32}
TOKENS = [[3, 9, 40, 41, 8, 77]]


def checkpoint(folder: Path) -> None:
    """Write a model as the Hub has gpt-oss: in blocks of 32 weights with a scale, 4 bits each."""
    save(folder, 0, model_type="gpt_oss", vocab_size=WORDS, **SHAPE)
    store_in_mxfp4(folder, spread=0.35)
    tokenizer().save_pretrained(folder)


@contextmanager
def beside_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As where the package `kernels` is installed: transformers dequantizes nothing that it is not told to."""
    from transformers.quantizers.quantizer_mxfp4 import Mxfp4HfQuantizer

    def told(quantizer: Any, *args: Any, **kwargs: Any) -> None:
        assert quantizer.quantization_config.dequantize

    with monkeypatch.context() as patched:
        patched.setattr(Mxfp4HfQuantizer, "validate_environment", told)
        yield


def loading_options(script: str) -> Any:
    """What train.py gives `from_pretrained`."""
    from transformers import Mxfp4Config

    arguments = [node for node in ast.walk(ast.parse(script)) if isinstance(node, ast.keyword)]
    (options,) = (node.value for node in arguments if node.arg == "model_init_kwargs")
    return eval(ast.unparse(options), {"Mxfp4Config": Mxfp4Config})


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


def test_a_full_model_is_saved_under_the_names_that_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the lines of train.py before training, on TRL's own trainer: its checkpoints and its result."""
    import torch
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    script = bundle(tmp_path, with_key(RECIPE, "train.adaptation", "full"))["train.py"]
    arguments = {"max_steps": 1, "learning_rate": 0.0, "bf16": False, "use_cpu": True, "report_to": "none"}
    options = loading_options(script) | {"dtype": "bfloat16"}
    arguments |= {"save_steps": 1, "dataloader_pin_memory": False, "model_init_kwargs": options}
    config = SFTConfig(output_dir=str(tmp_path / "outputs"), **arguments)
    rows = Dataset.from_list([{"prompt": "w3 w9", "completion": "w7 w8"}] * 8)
    with beside_kernels(monkeypatch):
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
    with beside_kernels(monkeypatch):
        merging(tmp_path, monkeypatch).main()
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "base", dtype=torch.bfloat16, attn_implementation="eager")
    whole = PeftModel.from_pretrained(base, tmp_path / "outputs" / "sft").merge_and_unload()
    with torch.no_grad():
        expected = whole(input_ids=torch.tensor(TOKENS)).logits.float()
    assert torch.equal(logits(tmp_path / "outputs" / "sft" / "merged"), expected)


@pytest.mark.parametrize("adaptation", ["full", "lora"])
def test_evaluation_dequantizes_the_base_and_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adaptation: str
) -> None:
    bundle(tmp_path, with_key(RECIPE, "train.adaptation", adaptation))
    evaluate = load(tmp_path / "evaluate.py", monkeypatch)
    with beside_kernels(monkeypatch):
        model, _ = evaluate.load("before")
        result = tmp_path / "outputs" / "sft" / ("" if adaptation == "full" else "merged")
        model._weight_conversions = None
        model.save_pretrained(result)
        tokenizer().save_pretrained(result)
        again, _ = evaluate.load("after" if adaptation == "full" else "merged")
    assert not any(hasattr(loaded, "hf_quantizer") for loaded in (model, again))


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
    with beside_kernels(monkeypatch):
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
