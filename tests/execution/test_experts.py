"""The emitted adapters on experts: what trains and what does not, saved, loaded, merged, for each type of mixture."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from compiling import BASES, good, texts, with_key
from emitted_modules import load
from tiers import one_in
from tiny_models import ARGUMENTS, LOADED, WORDS, save, tokenizer

from recipec.catalog.configs import architecture_from_config
from recipec.catalog.model_types import MODEL_TYPES
from recipec.estimate.sizes import trainable_params
from recipec.estimate.workload import lora_shape

pytestmark = pytest.mark.executes

MODELS = {
    "mixtral": "mistralai/Mixtral-8x7B-v0.1",
    "qwen2_moe": "Qwen/Qwen3-30B-A3B",  # none of the catalog: the same targets
    "qwen3_moe": "Qwen/Qwen3-30B-A3B",
    "gpt_oss": "openai/gpt-oss-20b",
}
# Beside other blocks, or alone in their layers: run by `glm4_moe lora` and the recipes state-space-experts,
# experts-beside, one-part-experts and chunked-attention of the matrix.
OF_THE_MATRIX = {"glm4_moe", "granitemoehybrid", "gemma4_text", "llama4_text", "nemotron_h"}
SIZES = {"hidden_size": 32, "head_dim": 16, "moe_intermediate_size": 48, "shared_expert_intermediate_size": 40}
SHAPE = SIZES | {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2, "vocab_size": WORDS}
WHOLE = {"max_position_embeddings": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}


def bundle(tmp_path, model, **lora):
    recipe = with_key(with_key(BASES["lora-single"], "model.name", model), "train", {"adaptation": "lora"})
    recipe = with_key(recipe, "hardware", {"gpu": "h200", "gpus_per_node": 4})
    return good(tmp_path / "recipe", with_key(recipe, "train.lora", lora) if lora else recipe)


def trained(tmp_path, monkeypatch, kind, done):
    """A trainer with the emitted configuration of adapters after 12 steps, and all weights before them."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    for name in ("train.py", "preflight.py", "rows.py", "similar_lengths.py"):
        (tmp_path / name).write_text(texts(done)[name])
    emitted = load(tmp_path / "train.py", monkeypatch)
    save(tmp_path / "model", seed=1, model_type=kind, **SHAPE, max_position_embeddings=64)
    rows = [{"input_ids": [3 + (5 * row + place) % (WORDS - 3) for place in range(12)]} for row in range(4)]
    trainer = SFTTrainer(
        model=str(tmp_path / "model"),
        args=SFTConfig(output_dir=str(tmp_path / "out"), **ARGUMENTS | {"max_steps": 12}),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer(),
        peft_config=emitted.lora_config(),
    )
    before = {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}
    trainer.train()
    trainer.save_model()
    return trainer, before


@pytest.mark.parametrize("kind", one_in(2, MODELS))
def test_experts_learn_and_their_router_does_not(tmp_path, monkeypatch, kind):
    done = bundle(tmp_path, MODELS[kind])
    trainer, before = trained(tmp_path, monkeypatch, kind, done)
    after = dict(trainer.model.named_parameters())
    moved = {name for name, weight in after.items() if not weight.equal(before[name])}
    assert moved == {name for name in after if "lora_" in name}, "an adapter stood still, or something else moved"
    assert {name.partition(".lora_")[0].rpartition("mlp.")[2] for name in moved if "mlp" in name} == {
        "experts",
        "experts.base_layer",
    }
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < 0.7 * losses[0]
    compare_saved(tmp_path, trainer)


@pytest.mark.parametrize("kind", one_in(2, ["qwen3_moe", "gpt_oss"]))
def test_evaluations_leave_the_balance_of_the_experts_out(tmp_path, monkeypatch, kind):
    """As evaluate.py does: the loss before, on the way and after can then be compared."""
    trainer, _ = trained(tmp_path, monkeypatch, kind, bundle(tmp_path, MODELS[kind]))
    preflight = load(tmp_path / "preflight.py", monkeypatch)
    rows, coefficient = trainer.train_dataset, trainer.router_aux_loss_coef
    trainer.router_aux_loss_coef = 0.0
    plain = trainer.evaluate(rows)["eval_loss"]
    trainer.router_aux_loss_coef = 0.5
    assert trainer.evaluate(rows)["eval_loss"] > plain + 0.1
    preflight.evaluate_without_router_loss(trainer)
    assert trainer.evaluate(rows)["eval_loss"] == plain
    assert trainer.router_aux_loss_coef == 0.5 and coefficient, "training still balances"
    monkeypatch.setattr("torch.accelerator.max_memory_allocated", lambda: 0)
    guard = preflight.RunGuard(trainer, {}, anew=False)
    state = SimpleNamespace(global_step=1, is_world_process_zero=False)
    guard.measure({"loss": 3.0, "aux_loss": 2.0, "num_tokens": 1}, state)
    assert guard.measure({"eval_loss": 2.0}, state)["train_eval_gap"] == 0.0


def compare_saved(tmp_path, trainer):
    """The saved adapter gives the trained model's logits; merged and loaded without PEFT within 1e-5 of the largest."""
    import torch
    from peft import AutoPeftModelForCausalLM
    from transformers import AutoModelForCausalLM

    ids = torch.arange(3, 27).view(2, 12)
    with torch.no_grad():
        wanted = trainer.model.eval()(input_ids=ids).logits
        adapted = AutoPeftModelForCausalLM.from_pretrained(tmp_path / "out", **LOADED).eval()
        reloaded = adapted(input_ids=ids).logits
        adapted.merge_and_unload().save_pretrained(tmp_path / "merged")
        merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged", **LOADED).eval()
        base = AutoModelForCausalLM.from_pretrained(tmp_path / "model", **LOADED).eval()
        apart = (merged(input_ids=ids).logits - wanted).abs().max()
        away = (base(input_ids=ids).logits - wanted).abs().max()
    assert torch.equal(reloaded, wanted) and away > 0.1
    assert apart < 1e-5 * wanted.abs().max()


@pytest.mark.parametrize("targets", ["all-linear", "attention", ["v_proj", "experts.down_proj"], ["experts.down_proj"]])
@pytest.mark.parametrize("kind", MODELS)
def test_the_counted_parameters_are_those_that_train(tmp_path, monkeypatch, kind, targets):
    import torch
    from peft import get_peft_model
    from peft.tuners.lora import LoraLayer
    from transformers import AutoConfig, AutoModelForCausalLM

    done = bundle(tmp_path, MODELS[kind], targets=targets, rank=6)
    for name in ("train.py", "preflight.py", "rows.py", "similar_lengths.py"):
        (tmp_path / name).write_text(texts(done)[name])
    emitted = load(tmp_path / "train.py", monkeypatch)
    keys = {"model_type": kind, **SHAPE, **WHOLE, "intermediate_size": 64, "tie_word_embeddings": False}
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**keys))
    adapted = get_peft_model(model, emitted.lora_config())
    found = sum(weight.numel() for weight in adapted.parameters() if weight.requires_grad)
    [stage] = done.plan.stages
    value = {id: decision.value for id, decision in stage.decisions.items()}
    shape = architecture_from_config(json.loads(json.dumps(keys)))
    assert found == trainable_params(shape, lora_shape(shape, value), stage.work.method)
    scales = {module.scaling["default"] for module in adapted.modules() if isinstance(module, LoraLayer)}
    assert scales == {value["lora_alpha"] / value["lora_rank"]}


def test_every_type_of_mixture_is_tried():
    assert MODELS.keys() | OF_THE_MATRIX == {name for name, row in MODEL_TYPES.items() if row.moe}
