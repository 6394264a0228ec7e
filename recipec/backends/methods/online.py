"""What methods share that learn from answers which the model writes itself: generation, rewards, their files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recipec.backends.job import StageJob
from recipec.backends.methods.backend import Measure
from recipec.backends.parts import Import, Part, lines
from recipec.render.artifact import Artifact
from recipec.render.call import Arg
from recipec.render.traced import Raw

REWARDS = "rewards"  # the file of the bundle that has the functions as they are trained with
FUNCTIONS = "functions"  # the folder with copies of the user's files
SECONDS = 60  # that one call may take before the run stops: our decision
CLAMP = 100.0  # our decision; one reward of 1e30 makes the gradient of its batch 0, without a word (TRL 1.16, run)


def generation_arguments(stage: StageJob) -> Iterator[Arg]:
    """How answers are written, and how many times they are learned from."""
    micro = stage.value("gradient_accumulation") * stage.value("updates")
    yield stage.arg("num_generations", "per_prompt", note=True)
    yield Arg("num_generations_eval", 1, stage.ids("best_metric"), "one answer to each held-out prompt")
    ids = stage.ids("updates", "gradient_accumulation")
    yield Arg("steps_per_generation", micro, ids, "micro steps that share the answers of a generation")
    yield Arg("num_iterations", 1, stage.ids("updates"))
    yield stage.arg("max_completion_length", "max_new_tokens", note=True)
    yield stage.arg("temperature", "temperature")
    ids = stage.ids("temperature")
    yield Arg("top_p", 1.0, ids, "answers are drawn from the probabilities that are learned: no filter, no penalty")
    yield Arg("top_k", 0, ids)
    yield Arg("repetition_penalty", 1.0, ids)
    if stage.thinks_not:
        yield Arg("chat_template_kwargs", {"enable_thinking": False}, stage.ids("reasoning"))
    yield Arg("shuffle_dataset", True, stage.ids("sampling"))
    yield Arg("reward_weights", Raw("WEIGHTS"), stage.ids("rewards"))


_CHECK = 'check_rewards(rows["train"], config.generation_batch_size // config.num_generations, DATA / "train.jsonl")'


def rewards_part(stage: StageJob) -> Part:
    """The functions that judge, tried on the first rows before a model is loaded."""
    ids = stage.ids("rewards")
    names, needed = ("REWARDS", "WEIGHTS", "check_rewards"), stage.ids("global_batch_size", "per_prompt", "updates")
    return Part(
        own_imports=tuple(Import(REWARDS, name, ids) for name in names),
        before_trainer=lines((*ids, *needed), _CHECK),
        arguments=(Arg("reward_funcs", Raw("REWARDS"), ids),),
    )


def reward_artifacts(stage: StageJob) -> list[Artifact]:
    """rewards.py, and the user's files beside it."""
    rewards, ids = stage.job.facts.rewards, stage.ids("rewards")
    copies = [
        Artifact(f"{stage.folder}{FUNCTIONS}/{module}.py", ids, "trl/given.py.j2", {"given": Raw(text)})
        for module, text in rewards.files.items()
    ]
    return [Artifact(f"{stage.folder}{REWARDS}.py", ids, "trl/rewards.py.j2", _names(stage)), *copies]


def _names(stage: StageJob) -> dict[str, Any]:
    functions = stage.job.facts.rewards.functions
    handed = stage.shape.handed
    return {
        "stage": stage.traced("stage"),
        "modules": [Raw(name) for name in sorted({reward.module for reward in functions})],
        "functions": [
            {
                "name": reward.name,
                "call": Raw(f"{reward.module}.{reward.function}"),
                "asks": reward.reads.given,
                "columns": reward.reads.handed(handed),
                "weight": stage.because(reward.weight, "rewards"),
            }
            for reward in functions
        ],
        "columns": bool(handed),
        "seconds": SECONDS,
        "clamp": CLAMP,
    }


MEASURE = Measure(
    template="measures/rewards.py.j2",
    names=lambda _: {},
    by_row=False,
    metrics=("mean_reward", "prompt_loss", "mean_length", "cut_share", "distinct_2"),
    loss="prompt_loss",
    imports=(Import("statistics", "fmean"), Import("transformers", "TrainerState")),
    reads=("encode", "opening"),
)
