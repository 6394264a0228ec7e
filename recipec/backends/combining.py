"""combine.py of a bundle with [[adapters]]: compares, merges, ensembles and routes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from recipec.backends.evaluation import spreads_layers
from recipec.backends.job import Job, StageJob
from recipec.backends.parts import Import, import_blocks
from recipec.render.artifact import Artifact
from recipec.render.call import Arg, Call, assigned
from recipec.render.traced import Raw

SCRIPT = "combine.py"
ROWS_TO_ROUTE_BY = 100  # recipec's choice: the mean of more questions hardly moves
_IDS = ("stage", "adaptation")


def combining_artifacts(job: Job) -> Iterator[Artifact]:
    """combine.py, where the recipe has adapters to combine."""
    if job.tasks:
        yield Artifact(SCRIPT, job.ids(*_IDS), "combine.py.j2", _names(job))


def _names(job: Job) -> dict[str, Any]:
    stages, mix = _tasks(job), next((stage for stage in job.stages if stage.mixed), None)
    first, second, *_ = stages
    standard, installed = import_blocks(_imports(stages))
    return {
        "name": job.name,
        "first": first.named,
        "second": second.named,
        "standard_imports": standard,
        "installed_imports": installed,
        "scripts": assigned("SCRIPTS", {stage.name: stage.folder.rstrip("/") for stage in stages}),
        "merges": first.because(first.adapts.merges, "adaptation"),
        "mix": mix.named if mix else None,
        "mix_script": assigned("MIX", {mix.name: mix.folder.rstrip("/")}) if mix else None,
        "rows_to_route_by": ROWS_TO_ROUTE_BY,
        "seed": first.traced("seed"),
        "load_tokenizer": Call("AutoTokenizer.from_pretrained", _tokenizer(first)),
        "system_prompt": first.because(job.loaded.recipe.data.system or "", "data_format"),
        "thinks_not": first.because(first.thinks_not, "reasoning"),
        "in_turns": job.because(any(stage.format.turns for stage in stages), "data_format"),
        "spreads": first.because(spreads_layers(first), "prediction"),
    }


def told_of_tasks(job: Job) -> dict[str, Any]:
    """What README.md says of the adapters of several tasks, and of the mix of them."""
    first, last = job.stages[0], job.last
    return {
        "tasks": [stage.named for stage in _tasks(job)],
        "mix": last.named if last.mixed else None,
        "task_merges": first.because(first.adapts.merges, "adaptation"),
        "first_file": Raw(f"{first.folder}{first.adapts.module}.py"),
    }


def _tokenizer(stage: StageJob) -> list[Arg]:
    trusts = stage.job.loaded.recipe.model.trust_remote_code
    return [Arg("", Raw("source")), *[Arg("trust_remote_code", True, stage.ids("model"))] * bool(trusts)]


def _tasks(job: Job) -> list[StageJob]:
    """The stages that train an adapter of a task."""
    return [stage for stage in job.stages if not stage.mixed]


def _imports(stages: Sequence[StageJob]) -> Iterator[Import]:
    yield from (Import(module) for module in ("argparse", "json", "os", "sys", "torch"))
    if stages[0].adapts.merges:
        yield from _merging_imports(stages[0].ids("adaptation"))
    yield from (Import("functools", "cache"), Import("pathlib", "Path"))
    yield from (Import("types", name) for name in ("ModuleType", "SimpleNamespace"))
    yield from (Import("importlib.util", name) for name in ("module_from_spec", "spec_from_file_location"))
    yield Import("peft", "PeftModel")
    yield Import("transformers", "PreTrainedTokenizerBase")
    yield Import("datasets", "Dataset")


def _merging_imports(ids: tuple[str, ...]) -> Iterator[Import]:
    """What adding up updates needs, which networks with an activation have none of."""
    yield from (Import("math", "", ids), Import("collections.abc", "Iterable", ids))
    yield Import("peft", "PeftConfig", ids)
    yield from (Import("safetensors.torch", name, ids) for name in ("load_file", "save_file"))
    yield Import("transformers", "AutoTokenizer", ids)
