"""What methods share that learn from answers which the model writes itself: generation, rewards, their files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recipec.axes.strategies import DEEPSPEED
from recipec.backends.acting import acting_arguments, acting_artifacts, acting_part, has_judge, has_rewards
from recipec.backends.engines.engine import torch_dtype
from recipec.backends.generators import generator_arguments, generator_files, generator_part
from recipec.backends.job import StageJob
from recipec.backends.methods.backend import Gain, Measure
from recipec.backends.models import below_root, bundle_root, code, in_bundle, is_below_root
from recipec.backends.parts import Import, Part, joined, lines
from recipec.backends.score_head import head_in_fp32
from recipec.backends.wrapped import CLAMP, JUDGE, REWARDS, SECONDS, copy_artifact
from recipec.facts.rewards import JUDGE as NAME
from recipec.render.artifact import Artifact
from recipec.render.call import Arg
from recipec.render.traced import Raw


def generation_arguments(stage: StageJob) -> Iterator[Arg]:
    """How answers are written, and how many times they are learned from."""
    micro = stage.value("gradient_accumulation") * stage.value("updates")
    yield stage.arg("num_generations", "per_prompt", note=True)
    yield Arg("num_generations_eval", 1, stage.ids("best_metric"), "one answer to each held-out prompt")
    ids = stage.ids("updates", "gradient_accumulation")
    yield Arg("steps_per_generation", micro, ids, "micro steps that share the answers of a generation")
    yield Arg("num_iterations", 1, stage.ids("updates"))
    yield from drawing_arguments(stage)
    yield from generator_arguments(stage)
    if has_rewards(stage):
        yield Arg("reward_weights", Raw("WEIGHTS"), stage.ids("rewards"))
    yield from acting_arguments(stage)


def drawing_arguments(stage: StageJob) -> Iterator[Arg]:
    """How answers are drawn: from the probabilities that are learned."""
    yield stage.arg("max_completion_length", "max_new_tokens", note=True)
    yield stage.arg("temperature", "temperature")
    ids = stage.ids("temperature")
    yield Arg("top_p", 1.0, ids, "answers are drawn from the probabilities that are learned: no filter, no penalty")
    yield Arg("top_k", 0, ids)
    yield Arg("repetition_penalty", 1.0, ids)
    if stage.thinks_not:
        yield Arg("chat_template_kwargs", {"enable_thinking": False}, stage.ids("reasoning"))
    yield Arg("shuffle_dataset", True, stage.ids("sampling"))


_CHECK = 'check_rewards(rows["train"], config.generation_batch_size // config.num_generations, DATA / "train.jsonl")'


def rewards_part(stage: StageJob) -> Part:
    """The functions that judge, tried on the first rows before a model is loaded."""
    if not has_rewards(stage):
        return joined((acting_part(stage), generator_part(stage)))
    ids = stage.ids("rewards")
    names = (*["JUDGE"] * (stage.judge is not None), "REWARDS", "WEIGHTS", "check_rewards")
    needed = stage.ids("global_batch_size", "per_prompt", "updates")
    judging = Part(
        own_imports=tuple(Import(REWARDS, name, ids) for name in names),
        before_trainer=lines((*ids, *needed), _CHECK),
        arguments=(Arg("reward_funcs", Raw("REWARDS"), ids),),
    )
    return joined((judging, acting_part(stage), generator_part(stage)))


def reward_artifacts(stage: StageJob) -> list[Artifact]:
    """rewards.py, the user's files beside it, what runs a reward model, and what writes answers and acts."""
    if not has_rewards(stage):
        return [*acting_artifacts(stage), *generator_files(stage)]
    rewards, ids = stage.job.facts.rewards, stage.ids("rewards")
    file_of = {reward.module: reward.file for reward in rewards.functions}
    copies = [copy_artifact(stage, name, text, file_of[name], ids) for name, text in rewards.files.items()]
    judge = [Artifact(f"{stage.folder}{JUDGE}.py", ids, "trl/judge.py.j2", _names_of_judge(stage))] * has_judge(stage)
    return [
        Artifact(f"{stage.folder}{REWARDS}.py", ids, "trl/rewards.py.j2", _names(stage)),
        *copies,
        *judge,
        *generator_files(stage),
        *acting_artifacts(stage),
    ]


def _names_of_judge(stage: StageJob) -> dict[str, Any]:
    return {
        "stage": stage.named,
        "dtype": code(stage, torch_dtype(stage.value("precision")), "precision"),
        "fp32_head": head_in_fp32(stage),
        "at_once": stage.traced("micro_batch_size"),
        "shards_loaded": stage.because(
            stage.strategy.engine == DEEPSPEED and stage.strategy.shards_weights, "strategy", "offload"
        ),
        "leaves_buffers": stage.because(stage.engine.dtensors, "strategy"),
    }


def _judges(stage: StageJob) -> Iterator[dict[str, Any]]:
    """Where each reward model comes from, as code, by what its rewards are logged, and what they count."""
    if stage.judge:
        yield {"name": NAME, "source": Raw("str(JUDGE)"), "revision": None, "weight": stage.because(1.0, "rewards")}
    for judge in stage.job.facts.rewards.models:
        yield {
            "name": judge.name,
            "source": below_root(stage, "rewards", judge.model.name),
            "revision": judge.revision,
            "weight": stage.because(judge.weight, "rewards"),
        }


def _names(stage: StageJob) -> dict[str, Any]:
    functions, models = stage.job.facts.rewards.functions, list(_judges(stage))
    handed = stage.shape.handed
    below = any(is_below_root(judge.model.name) for judge in stage.job.facts.rewards.models)
    return {
        "stage": stage.named,
        "modules": [Raw(name) for name in sorted({reward.module for reward in functions})],
        "functions": [
            {
                "name": reward.name,
                "call": Raw(f"{reward.module}.{reward.function}"),
                "asks": reward.reads.given,
                "columns": reward.reads.handed(handed),
            }
            for reward in functions
        ],
        "judges": models,
        "judge": code(stage, in_bundle(stage.judge), "judge") if stage.judge else None,
        "bundle_root": bundle_root(stage),
        "below_root": stage.because(below, "rewards"),
        "weights": [
            *(stage.because(reward.weight, "rewards") for reward in functions),
            *(model["weight"] for model in models),
        ],
        "columns": bool(handed),
        "seconds": SECONDS,
        "clamp": CLAMP,
    }


MEASURE = Measure(
    template="measures/rewards.py.j2",
    answers_all=True,
    errors=True,
    names=lambda stage: {"merges": stage.because(stage.adapts.merges, "adaptation")},
    by_row=False,
    metrics=("mean_reward", "prompt_loss", "mean_length", "cut_share", "distinct_2"),
    loss="prompt_loss",
    gain=Gain(metric="mean_reward", noise='3 * metrics["after"].get("mean_reward_error", float("inf"))'),
    imports=(
        *(Import("statistics", name) for name in ("fmean", "stdev")),
        Import("transformers", "TrainerState"),
    ),
    reads=("encode", "opening"),
    same="the rewards of answers to the same prompts",
    unit="Rewards are means over the prompts, of one greedy answer to each; +- is the standard error of a mean.",
)
