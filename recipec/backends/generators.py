"""A generator of answers with a copy of the weights: its trainer arguments, and how an adapter reaches the copy."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.backends.job import StageJob
from recipec.backends.parts import Import, Part, lines
from recipec.render.artifact import Artifact
from recipec.render.call import Arg

MERGED = "merged_weights"  # the file of the bundle that adds adapters to the weights which the copy gets
# The most that a token counts of which the copy is too sure: truncated importance sampling as VeRL's and TRL's recipes
# have it (TRL 1.16 docs/source/paper_index.md, "Your Efficient RL Framework Secretly Brings You Off-Policy RL").
MOST_RATIO = 2.0
_OF_LENGTH = "max_length", "max_new_tokens", "generator"


def generator_arguments(stage: StageJob) -> Iterator[Arg]:
    """Nothing for a generator that writes with the very weights."""
    if not stage.method.written_by.own_copy:
        return
    ids = stage.ids("generator")
    longest = stage.value("max_length") + stage.value("max_new_tokens")
    yield Arg("use_vllm", True, ids)
    yield Arg("vllm_mode", "colocate", ids, "on the GPUs that train")
    yield Arg("vllm_enable_sleep_mode", True, ids, "gives its memory back while the model learns")
    yield stage.arg("vllm_gpu_memory_utilization", "generator_share", note=True)
    yield Arg("vllm_max_model_length", longest, stage.ids(*_OF_LENGTH), "a prompt and its answer")
    yield Arg("vllm_importance_sampling_correction", True, ids, "its probabilities are not quite those that learn")
    yield Arg("vllm_importance_sampling_mode", "token_truncate", ids)
    yield Arg("vllm_importance_sampling_clip_max", MOST_RATIO, ids)


def merges_for_copy(stage: StageJob) -> bool:
    """Whether the copy gets weights that no module has: those of the base with an adapter."""
    return stage.method.written_by.own_copy and not stage.adapts.trains_all


def generator_part(stage: StageJob) -> Part:
    """What train.py does for it."""
    if not merges_for_copy(stage):
        return Part()
    ids = stage.ids("generator", "adaptation")
    return Part(
        own_imports=(Import(MERGED, "send_merged", ids),),
        after_trainer=lines(ids, "send_merged(trainer)  # TRL would merge into the base and subtract again"),
    )


def generator_files(stage: StageJob) -> list[Artifact]:
    """The file that adds an adapter to what the copy gets."""
    ids = stage.ids("generator", "adaptation")
    return [Artifact(f"{stage.folder}{MERGED}.py", ids, "trl/merged_weights.py.j2", {})] * merges_for_copy(stage)
