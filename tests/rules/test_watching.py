"""What to watch fits the case: no adapter where all weights train, no dropped rows where rows are cut."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compiling import BASES, METRICS, compiled, with_key

from recipec.axes import METHODS
from recipec.planner import StagePlan
from recipec.rules.metrics import metrics_of, watched


def planned(folder: Path, base: str, keys: dict[str, object]) -> StagePlan:
    recipe = BASES[base]
    for key, value in keys.items():
        recipe = with_key(recipe, key, value)
    plan = compiled(folder, recipe, only_plan=True).plan
    assert plan
    return plan.stages[0]


@pytest.mark.parametrize(
    ("base", "keys", "id", "has", "lacks"),
    [
        ("pretrain", {}, "adaptation", "loss", "lora"),
        ("dpo-full", {}, "adaptation", "loss", "lora"),
        ("lora-single", {}, "adaptation", 'set `train.adaptation = "full"`', "quantization"),
        ("qlora", {}, "adaptation", '`train.adaptation = "lora"` and `train.quantization = "none"`', '"full"'),
        ("adapters", {}, "adaptation", "raise `train.lora.rank`", "then set"),
        ("adapters", {"train.bottleneck": {}}, "adaptation", 'then set `train.adaptation = "lora"`', '"full"'),
        ("fusion", {}, "adaptation", "lower `train.bottleneck.reduction_factor`", "then set"),
        ("fusion", {}, "reduction_factor", "lower `train.bottleneck.reduction_factor`", "then set"),
        ("lora-single", {}, "precision", "finite", "fp16"),
        ("lora-single", {"train.precision": "fp16"}, "precision", "fp16", "a NaN comes"),
        ("lora-single", {}, "strategy", "near the plan", "communication"),
        ("lora-ddp", {}, "strategy", "communication", "alone"),
        ("lora-single", {}, "adam_beta2", "no spikes", "pretraining"),
        ("lora-single", {}, "max_length", "dropped_rows", "cut"),
        ("text", {}, "max_length", "fewer pieces", "dropped_rows"),
        ("text", {"data.overflow": "drop"}, "max_length", "dropped_rows", "cut"),
        ("text", {}, "overflow", "nothing is dropped", "dropped_rows"),
        ("text", {}, "template", "no template", "chat"),
        ("cpu", {}, "template", "has not seen", "starts low"),
        ("small-card", {}, "template", "documentation", "has not seen"),
        ("text", {}, "loss_on", "every token", "data.template"),
        ("text", {"train.schedule": "constant"}, "schedule", "then stays", "down to 0"),
        ("lora-single", {"train.epochs": 3}, "epochs", "lower `train.epochs`", "learning_rate"),
        ("lora-single", {"train.epochs": 1}, "epochs", "lower `train.learning_rate`", "train.epochs"),
        ("grpo", {"train.epochs": 2}, "epochs", "fewer `train.epochs`", "learning_rate"),
        ("grpo", {"train.epochs": 1}, "epochs", "lower `train.learning_rate`", "train.epochs"),
        ("pretrain", {"train.epochs": 2}, "weight_decay", "fewer passes", "learning_rate"),
        ("pretrain", {"train.epochs": 1}, "weight_decay", "lower `train.learning_rate`", "passes"),
        ("pretrain", {"train.epochs": 1}, "adaptation", "lower `train.learning_rate`", "epochs"),
        ("dpo-full", {}, "sampling", "by chance", "length of its batch"),
        ("dpo-full", {}, "packing", "padding", "with packing"),
        ("dpo-full", {}, "double_quantization", "near the plan", "unquantized"),
    ],
)
def test_what_to_watch_fits_the_case(
    tmp_path: Path, base: str, keys: dict[str, object], id: str, has: str, lacks: str
) -> None:
    watch = planned(tmp_path, base, keys).decisions[id].watch
    assert has in watch
    assert lacks not in watch


@pytest.mark.parametrize("base", BASES)
def test_what_is_watched_tells_how_a_training_with_this_method_goes(tmp_path: Path, base: str) -> None:
    stage = planned(tmp_path, base, {})
    own = metrics_of(METHODS[stage.stage.name])
    others = {name for name in METRICS - own if not name.isalpha()}  # "reward" is a word, too
    for decision in stage.decisions.values():
        assert set(watched(decision.watch)) <= own, decision.id
        assert not others & set(re.findall(r"[\w/]+", decision.watch)), decision.id


def test_a_method_that_rewards_judge_is_nowhere_judged_by_a_loss(tmp_path: Path) -> None:
    keys = {"train.epochs": 3, "train.adaptation": "qlora", "train.schedule": "warmup-stable-decay"}
    recipe = BASES["grpo"]
    for key, value in keys.items():
        recipe = with_key(recipe, key, value)
    files = {file.path: file.text for file in compiled(tmp_path, recipe).files}
    readme, plan = files["README.md"], planned(tmp_path, "grpo", keys)
    told = " ".join(f"{decision.because} {decision.watch}" for decision in plan.decisions.values())
    for text in (readme, told):
        assert not re.search(r"eval_loss|trained_tokens|lowest|validation loss", text, re.IGNORECASE)
    speak_of_losses = {id for id, decision in plan.decisions.items() if re.search(r"\bloss\b", decision.watch)}
    assert speak_of_losses == {"loss_on"}
    assert plan.decisions["early_stopping_patience"].because.endswith("a higher eval_reward shows overfitting")
    assert "the highest eval_reward is loaded at the end" in readme
    assert "of your reward functions is not known and not counted" in " ".join(part.because for part in plan.parts)


def test_a_method_with_an_objective_of_more_parts_is_judged_by_it(tmp_path: Path) -> None:
    """The gap alone compares rewards: those of the training prompts have no penalty in them."""
    readme = next(file.text for file in compiled(tmp_path, BASES["ppo"]).files if file.path == "README.md")
    decisions = planned(tmp_path, "ppo", {}).decisions
    assert decisions["best_metric"].value == "eval_objective"
    assert decisions["save_every"].watch.startswith("eval_objective: the checkpoint with the highest value")
    assert "the highest eval_objective is loaded at the end" in readme and "read eval_objective" in readme
    assert "above eval_reward" in decisions["epochs"].watch and "above eval_objective" not in readme


def test_a_decision_of_a_variant_cites_that_variant_alone(tmp_path: Path) -> None:
    stage = planned(tmp_path, "grpo", {"alignment.variant": "cispo"})
    assert all("MiniMax-M1" in stage.decisions[id].source for id in ("kl_beta", "per_prompt", "updates"))
    assert not any("SAPO" in stage.decisions[id].source for id in ("kl_beta", "per_prompt", "updates"))
