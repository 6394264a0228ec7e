"""Substitutions of answers that a model writes itself: how long, by what, acting in what, and judged by what."""

from __future__ import annotations

from math import gcd

from recipec.verify.bundle import BundleStage
from recipec.verify.situation import Applied, Situation
from recipec.verify.sizes import batch_of, group_of

MOST_WRITTEN = 16  # tokens of an answer here
DRAWN = "what it draws, which no checkpoint holds, so that a resumed run goes on with other answers"
MOST_ACTED = 192  # of one that calls a tool, with the call and its result: 16 in each turn are the model's
# Toy rewards are learned from once and alone: at these rates a second pass is clipped.
ONE_PASS = {"answer_passes": 1, "beta": 0.0, "missing_eos_penalty": 0.0}


def answers(given: Situation) -> Applied | None:
    """Short answers; as many to a prompt as a small batch can hold in whole groups."""
    stages = [stage for stage in given.bundle.stages if stage.method.generates]
    if not stages:
        return None
    own = {f"{stage.folder}train.py": _generation(given, stage) for stage in stages}
    planned = [
        f"{stage.decisions.get('per_prompt', 1)} of {stage.decisions['max_new_tokens']} tokens" for stage in stages
    ]
    used = [
        f"{values.get('num_generations', 1)} of {values['max_completion_length']} tokens" for values in own.values()
    ]
    return Applied(", ".join(planned), ", ".join(used), {"script-arguments": own})


def _generation(given: Situation, stage: BundleStage) -> dict[str, int]:
    """A generation is learned from by as many steps as planned, of the batch here."""
    most = MOST_ACTED if stage.acts else MOST_WRITTEN
    written = {"max_completion_length": min(stage.decisions["max_new_tokens"], most)}
    if not stage.method.earns:
        return written  # one answer for each prompt, learned from in one step
    batch = batch_of(given.bundle, stage, given.ranks)
    micro = stage.choice["micro_batch_size"] * min(given.ranks, stage.choice["world_size"])
    updates, group = stage.decisions["updates"], group_of(given.bundle, stage, given.ranks)
    found = {"num_generations": group, "steps_per_generation": batch // micro * updates}
    return found | written | (ONE_PASS if stage.method.has_value_head else {})


def generator(given: Situation) -> Applied | None:
    """What writes with a copy of the weights needs a GPU."""
    rows = [stage.method for stage in given.bundle.stages if stage.method.generates]
    copied = [row.written_by for row in rows if row.written_by.own_copy]
    if not copied:
        return None
    beside = any(row.beside for row in copied)
    used = "transformers, with a copy of the model that gets its weights as planned"
    used += ", in a server that gets them in a file in place of NCCL" * beside
    titles = ", ".join(dict.fromkeys(row.title for row in copied))
    patches = {"vllm-server": True, "shared-gpus": given.ranks + _most_serving(given)} if beside else {}
    groups = {f"{stage.folder}train.py": found for stage in given.bundle.stages if (found := _groups(given, stage))}
    used += ", in groups of the ranks that are here" * bool(groups)
    return Applied(f"answers of {titles}", used, {"vllm": True, "script-arguments": groups} | patches)


def _groups(given: Situation, stage: BundleStage) -> dict[str, int]:
    """Ranks that share a copy of the weights: as many as planned, if there are; nothing where none share one."""
    planned, ranks = stage.decisions.get("engine_tensor_parallel", 1), min(given.ranks, stage.choice["world_size"])
    return {"vllm_tensor_parallel_size": gcd(planned, ranks)} if planned > 1 else {}


def _most_serving(given: Situation) -> int:
    """GPUs that a server of answers has for itself, at most."""
    return max(stage.decisions.get("server_gpus", 0) for stage in given.bundle.stages)


def calls(given: Situation) -> Applied | None:
    """A model of chance calls no tool; rows of chance need not begin an episode."""
    stages = [stage for stage in given.bundle.stages if stage.acts]
    if not stages:
        return None
    planned = ", ".join(name for stage in stages for name in stage.decisions["tools"])
    used = "the first tool, called with made-up arguments in every second answer, in episodes that may begin empty"
    return Applied(f"calls of {planned}", used, {"scripted-calls": True, "toy-episodes": True})


def rewards(given: Situation) -> Applied | None:
    """A model of chance earns nothing from real ones."""
    stages = [stage for stage in given.bundle.stages if stage.method.earns]
    if not stages or not given.learns:
        return None
    planned = ", ".join(name for stage in stages for name in stage.decisions["rewards"])
    toy = "the share of an answer's tokens whose embedding begins with a positive number"
    return Applied(planned, toy, dict.fromkeys(("toy-rewards", "toy-rloo-rewards", "toy-scores"), True))
