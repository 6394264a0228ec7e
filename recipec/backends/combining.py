"""combine.py of a bundle with [[adapters]]: compares, merges, ensembles and routes them."""

from __future__ import annotations

from collections.abc import Iterator
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
    first, second, *_ = job.stages
    standard, installed = import_blocks(_imports(job))
    typed = [stage.mixes_fields for stage in job.stages]
    return {
        "name": job.name,
        "first": first.named,
        "second": second.named,
        "standard_imports": standard,
        "installed_imports": installed,
        "scripts": assigned("SCRIPTS", {stage.name: stage.folder.rstrip("/") for stage in job.stages}),
        "rows_to_route_by": ROWS_TO_ROUTE_BY,
        "seed": first.traced("seed"),
        "load_tokenizer": Call("AutoTokenizer.from_pretrained", _tokenizer(first)),
        "system_prompt": first.because(job.loaded.recipe.data.system or "", "data_format"),
        "thinks_not": first.because(first.thinks_not, "reasoning"),
        "in_turns": job.because(any(stage.format.turns for stage in job.stages), "data_format"),
        "spreads": first.because(spreads_layers(first), "prediction"),
        "all_typed": job.because(all(typed), "data_format", "reasoning"),
        "some_typed": job.because(any(typed), "data_format", "reasoning"),
    }


def _tokenizer(stage: StageJob) -> list[Arg]:
    trusts = stage.job.loaded.recipe.model.trust_remote_code
    return [Arg("", Raw("source")), *[Arg("trust_remote_code", True, stage.ids("model"))] * bool(trusts)]


def _imports(job: Job) -> Iterator[Import]:
    yield from (Import(module) for module in ("argparse", "json", "math", "os", "sys", "torch"))
    yield Import("collections.abc", "Iterable")
    yield from (Import("functools", "cache"), Import("pathlib", "Path"))
    yield from (Import("types", name) for name in ("ModuleType", "SimpleNamespace"))
    yield from (Import("importlib.util", name) for name in ("module_from_spec", "spec_from_file_location"))
    yield from (Import("peft", name) for name in ("PeftConfig", "PeftModel"))
    yield from (Import("safetensors.torch", name) for name in ("load_file", "save_file"))
    yield from (Import("transformers", name) for name in ("AutoTokenizer", "PreTrainedTokenizerBase"))
    yield Import("datasets", "Dataset")
    if not all(stage.mixes_fields for stage in job.stages):
        yield Import("datasets", "load_dataset", job.ids("data_format", "reasoning"))
