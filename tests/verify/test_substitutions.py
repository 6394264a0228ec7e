"""The table of substitutions: every row applies where it is needed, and only there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from emitted import built
from msgspec.structs import replace

from recipec.axes import ADAPTATIONS
from recipec.catalog.models import models
from recipec.verify.bundle import read_bundle
from recipec.verify.learn import rows_to_learn
from recipec.verify.sandbox import SHIM
from recipec.verify.sizes import RESUME_CHECKPOINT, RESUME_DEATH, RESUME_STEPS, batch_of, resuming_patches
from recipec.verify.substitutions import AS_IT_IS, TABLE, Situation, merged, substitutions

EXAMPLES = Path(__file__).parents[2] / "generated-examples"
SMALL = next(model for model in models() if model.name == "Qwen/Qwen2.5-0.5B").architecture
ALWAYS = {"model", "data", "steps"}
ON_A_GPU = {"device", "memory"}
SFT_LORA = ALWAYS | ON_A_GPU | {"number formats", "data loading", "disk"}
GRPO = SFT_LORA | {"hyperparameters", "rows", "answers", "rewards"}


def situation(recipe: str, ranks: int = 1, **changes: Any) -> Situation:
    return replace(Situation(read_bundle(built(recipe)), ranks, False, "tiny", "few"), **changes)


def changed(recipe: str, choice: dict[str, Any], **arguments: Any) -> Situation:
    """A bundle whose first stage was planned differently."""
    given = situation(recipe)
    stage = given.bundle.stages[0]
    other = replace(stage, choice={**stage.choice, **choice})
    other.__dict__["arguments"] = {**stage.arguments, **arguments}
    return replace(given, bundle=replace(given.bundle, stages=(other,)))


CASES = {
    "a single GPU": (situation("sft-lora"), SFT_LORA),
    "a tiny model of one's own": (situation("sft-lora", model=AS_IT_IS), SFT_LORA - {"model", "disk"}),
    "adapters": (situation("sft-lora", shape=SMALL), SFT_LORA | {"adapters"}),
    "an adapter that is there": (situation("warm"), SFT_LORA | {"first adapter"}),
    "fewer processes": (situation("full-ddp", 2), SFT_LORA | {"world size"}),
    "all processes": (situation("full-ddp", 4), SFT_LORA),
    "sharding": (situation("fsdp", 8), SFT_LORA | {"sharding"}),
    "a paged optimizer": (situation("qlora"), SFT_LORA | {"optimizer", "quantized layers"}),
    "an 8-bit base": (situation("lora-int8"), SFT_LORA | {"quantized layers"}),
    "learning": (situation("sft-lora", learns=True), SFT_LORA | {"hyperparameters", "rows"}),
    "hub data": (situation("sft-lora", hub_data={"org/rows": "rows.jsonl"}), SFT_LORA | {"hub data"}),
    "data outside": (situation("sft-lora", outside={"/a.jsonl": "outside/a.jsonl"}), SFT_LORA | {"data paths"}),
    "a template whose text is not here": (situation("sft-dpo"), SFT_LORA | {"chat template"}),
    "packing": (situation("pretrain"), SFT_LORA | {"accumulation", "packed length"}),
    "variable-length attention": (changed("sft-lora", {"attention": "torch_varlen"}), SFT_LORA | {"attention"}),
    "flash attention": (changed("sft-lora", {"attention": "flash_attention_2"}), SFT_LORA | {"attention"}),
    "compilation": (changed("sft-lora", {}, torch_compile=True), SFT_LORA | {"compiler"}),
    "FP8": (situation("fp8"), SFT_LORA | {"compiler", "FP8", "accumulation"}),
    "a tracker": (changed("sft-lora", {}, report_to="no-such-tracker"), SFT_LORA | {"tracker"}),
    "activations": (changed("sft-lora", {"activation_offload": True}), SFT_LORA | {"activation offload"}),
    "answers and rewards": (situation("grpo", learns=True), GRPO),
    "answers by vLLM": (situation("grpo-vllm", learns=True), GRPO | {"generation"}),
    "answers by a server": (situation("grpo-vllm-server", learns=True), GRPO | {"generation"}),
    "spread experts": (
        situation("grpo", learns=False, bundle=read_bundle(EXAMPLES / "pretrain-mixture")),
        {
            "accumulation",
            "data",
            "data loading",
            "device",
            "disk",
            "experts",
            "memory",
            "model",
            "packed length",
            "sharding",
            "steps",
            "world size",
        },
    ),
    "tools": (
        situation("grpo", learns=True, bundle=read_bundle(EXAMPLES / "tools")),
        GRPO | {"tool calls", "accumulation"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_rows_that_a_bundle_needs_are_listed(name: str) -> None:
    given, expected = CASES[name]
    listed, _ = substitutions(given)
    assert {row.what for row in listed} == expected


def test_every_row_is_needed_by_a_case() -> None:
    assert {row.what for row in TABLE} == set().union(*(expected for _, expected in CASES.values()))


def test_every_row_says_what_is_lost() -> None:
    assert all(row.claim_lost for row in TABLE)
    assert len({row.what for row in TABLE}) == len(TABLE)


def test_the_shim_knows_every_patch_and_has_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SHIM))
    from cpu_stand_in import PATCHES

    used = {patch for given, _ in CASES.values() for patch in substitutions(given)[1]}
    noted = {"learned-tokens", "first-step", "noted-rows", "built-arguments", "witness", "written"}
    noted |= {"scored", "scored-adapters", "best-is-loaded"}
    assert used | noted | {"final-logits", "die-after"} == set(PATCHES)
    assert not any("torch" in name for name in sys.modules if name.startswith("cpu_stand_in"))


def test_the_stand_ins_adapters_are_counted_for_every_stage() -> None:
    patches = substitutions(situation("sft-dpo", shape=SMALL))[1]
    assert set(patches["planned-parameters"]) == {"stages/1-sft/train.py", "stages/2-dpo/train.py"}
    assert 0 < patches["planned-parameters"]["stages/1-sft/train.py"] < SMALL.params / 10


def test_patches_are_united() -> None:
    parts = [{"arguments": {"a": 1}}, {"arguments": {"b": 2}, "attention": "sdpa"}]
    assert merged(parts) == {"arguments": {"a": 1, "b": 2}, "attention": "sdpa"}


def test_the_shim_holds_nothing_but_itself() -> None:
    assert {path.name for path in Path(SHIM).iterdir()} - {"__pycache__"} == {"sitecustomize.py", "cpu_stand_in"}


def test_each_stage_learns_at_the_rate_of_its_own_weights() -> None:
    given = situation("sft-dpo", learns=True)
    first = replace(given.bundle.stages[0], choice={**given.bundle.stages[0].choice, "adaptation": "full"})
    patches = substitutions(replace(given, bundle=replace(given.bundle, stages=(first, given.bundle.last))))[1]
    rates = {script: values["learning_rate"] for script, values in patches["script-arguments"].items()}
    assert rates == {
        "stages/1-sft/train.py": ADAPTATIONS["full"].toy_learning_rate,
        "stages/2-dpo/train.py": ADAPTATIONS["lora"].toy_learning_rate,
    }


def test_every_stage_learns_the_rows_of_a_batch_of_its_own() -> None:
    """Batches of one, behind a stage of 64: each of 64 rows would be seen less than once."""
    given = situation("mixed-ranks", 2, learns=True)
    patches = substitutions(given)[1]
    assert patches["first-rows"] == {"stages/1-sft/train.py": 32, "stages/2-dpo/train.py": 2}
    assert substitutions(situation("pretrain", learns=True))[1]["first-rows"] == {"train.py": 32}


def test_a_training_that_is_resumed_has_several_batches_and_epochs() -> None:
    given = situation("sft-lora", 1, learns=True)
    patches = resuming_patches(given.bundle, given.bundle.last, given.ranks)
    batch = batch_of(given.bundle, given.bundle.last, given.ranks)
    steps = -(-patches["first_rows"]["train.py"] // batch)
    assert 1 < steps < patches["script_arguments"]["train.py"]["save_steps"] < RESUME_DEATH < RESUME_STEPS
    assert RESUME_CHECKPOINT % steps and RESUME_CHECKPOINT // steps < RESUME_STEPS // steps
    assert rows_to_learn(given.bundle, given.ranks) * 0.8 >= patches["first_rows"]["train.py"]
