"""Frozen models that ranks have whole: under FSDP, transformers leaves their buffers in host memory on most ranks."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from compiling import BASES, good, texts, with_key
from emitted_modules import load
from tiny_models import LOADED, WORDS, save

pytestmark = pytest.mark.executes

ON_FOUR = {"gpu": "h100", "gpus_per_node": 4, "host_memory_gib": 2000}
GPU = SimpleNamespace(device=torch.device("meta"))  # any but the CPU
FILES = {"distill": "distillation.py", "on-policy-distill": "on_policy.py", "grpo": "judge.py"}


@pytest.fixture
def second_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is not the first of its node, beside a saved model."""
    save(tmp_path / "model", seed=1, model_type="qwen2", vocab_size=WORDS, hidden_size=32)
    for module in ("modeling_utils", "integrations.accelerate"):
        monkeypatch.setattr(f"transformers.{module}.is_fsdp_enabled", lambda: True)
    monkeypatch.setattr("transformers.modeling_utils.is_local_dist_rank_0", lambda: False)


def emitted(folder: Path, method: str, strategy: str = "fsdp") -> str:
    """The file of a bundle that loads a frozen model."""
    recipe = with_key(with_key(BASES[method], "hardware", ON_FOUR), "train.adaptation", "full")
    if method == "grpo":
        recipe = with_key(recipe, "alignment.reward", {"model": "Qwen/Qwen2.5-1.5B-Instruct"})
    return texts(good(folder / strategy, with_key(recipe, "train.strategy", strategy)))[FILES[method]]


def loaded(folder: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> ModuleType:
    (folder / FILES[method]).write_text(emitted(folder, method))
    return load(folder / FILES[method], monkeypatch)


def devices(model: torch.nn.Module) -> set[str]:
    assert list(model.buffers())
    return {tensor.device.type for tensor in (*model.parameters(), *model.buffers())}


def test_a_teacher_has_its_buffers_where_its_weights_are(tmp_path, monkeypatch, second_rank) -> None:
    trainer, module = SimpleNamespace(accelerator=GPU), loaded(tmp_path, monkeypatch, "distill")
    module.SupervisedDistillationTrainer.load_teacher(trainer, str(tmp_path / "model"), LOADED)
    assert devices(trainer.teacher) == {"meta"}


def test_a_teacher_of_written_answers_has_its_buffers_where_its_weights_are(tmp_path, monkeypatch, second_rank) -> None:
    module, config = loaded(tmp_path, monkeypatch, "on-policy-distill"), SimpleNamespace(vocab_size=WORDS)
    given = {"accelerator": GPU, "model": SimpleNamespace(config=config)}
    monkeypatch.setattr(module.DistillationTrainer, "__init__", lambda trainer: vars(trainer).update(given))
    trainer = module.OnPolicyDistillationTrainer(teacher=str(tmp_path / "model"), teacher_options=LOADED)
    assert devices(trainer.teacher_model) == {"meta"}


def test_a_judge_has_its_buffers_where_its_weights_are(tmp_path, monkeypatch, second_rank) -> None:
    from transformers import AutoConfig, AutoModelForSequenceClassification

    config = AutoConfig.from_pretrained(tmp_path / "model", num_labels=1)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path / "judge")
    module = loaded(tmp_path, monkeypatch, "grpo")
    monkeypatch.setattr(module, "PartialState", lambda: GPU)
    judge = module.Judge(str(tmp_path / "judge"))
    judge.tokenizer = SimpleNamespace(pad_token="<pad>", eos_token="<end>", pad_token_id=0)
    assert devices(judge.model) == {"meta"}


@pytest.mark.parametrize("method", FILES)
@pytest.mark.parametrize("strategy", ["ddp", "zero3"])
def test_other_strategies_move_nothing(tmp_path, method, strategy) -> None:
    assert "under FSDP" not in emitted(tmp_path, method, strategy)
