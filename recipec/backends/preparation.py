"""prepare_data.py and the chat template: from the user's rows to what the trainers read."""

from __future__ import annotations

from typing import Any

from recipec.backends.arguments import has_template_file
from recipec.backends.job import Job, StageJob
from recipec.backends.models import base_model, from_hub
from recipec.dataset import DataShape
from recipec.facts.model import is_path
from recipec.render.artifact import Artifact
from recipec.render.call import Arg, Call
from recipec.render.traced import Raw, Traced

ROLES = ("text", "instruction", "input", "output", "messages", "prompt", "completion", "chosen", "rejected")


def preparation_artifacts(job: Job) -> list[Artifact]:
    """prepare_data.py for all stages, and the bundle's own chat template where it has one."""
    ids = tuple(id for stage in job.stages for id in stage.ids("data_format", "stage"))
    files = [Artifact("prepare_data.py", ids, "data/prepare_data.py.j2", _names(job))]
    if uses_template_file(job):
        files.append(_template_artifact(job))
    return files


def uses_template_file(job: Job) -> bool:
    """Whether the bundle brings its own chat template."""
    return any(has_template_file(stage) for stage in job.stages)


def _template_artifact(job: Job) -> Artifact:
    stage = next(stage for stage in job.stages if has_template_file(stage))
    template = stage.value("template")
    if template in ("plain", "chatml"):
        return Artifact("chat_template.jinja", stage.ids("template"), f"chat/{template}.jinja.j2")
    assert job.facts.template_text is not None, "facts read the template that the recipe names"
    names = {"text": Raw(job.facts.template_text)}
    return Artifact("chat_template.jinja", stage.ids("template"), "chat/own.jinja.j2", names)


def _names(job: Job) -> dict[str, Any]:
    stages, first = job.stages, job.stages[0]
    return {
        "name": job.name,
        "several_stages": first.because(len(stages) > 1, "stage"),
        "seed": first.traced("seed"),
        "stages": [_stage(stage) for stage in stages],
        "local_model": is_path(job.facts.model.name),
        "tokenizer": from_hub(first, "AutoTokenizer", base_model(first, "root")),
        "chat_template_file": first.because(uses_template_file(job), "template"),
        **_reading(job),
        **_splitting(job),
        **_converting(stages),
        **_selecting(stages),
        **_column_names([stage.shape for stage in stages]),
        **_wrapping(stages),
    }


def _reading(job: Job) -> dict[str, Any]:
    """Where rows come from."""
    data, sources = job.loaded.recipe.data, _sources(job)
    hub = any(source.hub for source in sources)
    return {
        "reads_eval": data.eval is not None,
        "reads_test": data.test is not None,
        "reads_hub": hub,
        "keeps_rows": not hub,  # what the hub holds may have changed
        "reads_text_files": any(str(source.path).endswith(".txt") for source in sources),
        "weighs": any(source.weight not in (None, 1) for source in sources),
        "columns": sorted(_columns(job)),
    }


def _splitting(job: Job) -> dict[str, Any]:
    """How evaluation and test rows are set aside."""
    split = job.loaded.recipe.data.split
    column = (split and (split.time or split.group or split.stratify)) or None
    return {
        "splits_eval": any(stage.value("eval_fraction") for stage in job.stages),
        "splits_test": any(stage.value("test_fraction") for stage in job.stages),
        "splits_by_time": bool(split and split.time),
        "splits_by_group": bool(split and split.group),
        "splits_by_class": bool(split and split.stratify),
        "splits_at_random": column is None,
        "split_column": column,
    }


def _converting(stages: list[StageJob]) -> dict[str, Any]:
    """Which formats of rows there are, and what turns them into the trainer's columns."""
    formats = {stage.shape.format for stage in stages}
    named = [f'"{name}": from_{name.replace("-", "_")}' for name in sorted(formats)]
    turns = any(as_turns(stage) for stage in stages)
    return {
        "converters": Raw("{" + ", ".join(named) + "}"),
        "only_text": formats == {"text"},
        "only_chat": formats == {"chat"} and not turns,
        "chat_as_turns": stages[0].because(turns, "loss_on"),
        "uses_chat_template": formats != {"text"} and any(is_chat(stage) for stage in stages),
        "plain_pairs": any(not is_chat(stage) and stage.shape.format != "text" for stage in stages),
        "masked_chat": any(masks(stage) for stage in stages),
        **{f"format_{name.replace('-', '_')}": name in formats for name in _FORMATS},
    }


def _selecting(stages: list[StageJob]) -> dict[str, Any]:
    """What is taught, proven and done to rows that are too long."""
    taught = {column for stage in stages for column in _taught(stage)}
    return {
        "taught_columns": sorted(taught),
        "answer_columns": sorted(taught - {"text", "messages"}),
        "proves_mask": any(masks(stage) for stage in stages),
        "overflow_drop": _overflow(stages, any(stage.value("overflow") == "drop" for stage in stages)),
        "overflow_split": _overflow(stages, any(_splits(stage) for stage in stages)),
    }


_TAUGHT = {
    "text": ("text",),
    "chat": ("messages",),
    "instruction": ("completion",),
    "prompt-completion": ("completion",),
    "preference": ("chosen", "rejected"),
}


def _overflow(stages: list[StageJob], used: bool) -> Traced:
    return Traced(used, ",".join(id for stage in stages for id in stage.ids("overflow", "packing")))


def _splits(stage: StageJob) -> bool:
    """Whether long texts are cut into pieces here; packing cuts them itself."""
    return stage.value("overflow") == "split" and not stage.value("packing")


_FORMATS = ("text", "instruction", "chat", "prompt-completion", "preference")


def as_turns(stage: StageJob) -> bool:
    """Whether every answer of a conversation becomes a row of its own."""
    return stage.shape.format == "chat" and stage.value("loss_on") == "completion"


def masks(stage: StageJob) -> bool:
    """Whether whole conversations are learned, with the template saying which tokens are the assistant's."""
    return stage.shape.format == "chat" and not as_turns(stage)


def _taught(stage: StageJob) -> tuple[str, ...]:
    return ("completion",) if as_turns(stage) else _TAUGHT[stage.shape.format]


def is_chat(stage: StageJob) -> bool:
    """Whether the stage's rows are rendered with a chat template: always, but for raw text and plain pairs."""
    return stage.shape.format != "text" and not (
        stage.shape.content == "strings"
        and stage.shape.format in ("prompt-completion", "preference")
        and stage.value("template") == "none"
    )


def _sources(job: Job) -> list[Any]:
    data = job.loaded.recipe.data
    return [source for part in (data.train, data.preferences, data.eval, data.test) for source in part or []]


def _columns(job: Job) -> set[str]:
    split = job.loaded.recipe.data.split
    columns = {column for stage in job.stages for column in stage.shape.columns.values()}
    return columns | {column for column in (split and (split.time or split.group or split.stratify),) if column}


def _column_names(shapes: list[DataShape]) -> dict[str, str | None]:
    """column_ROLE for every role; None for those that no stage has."""
    found = {role: column for shape in shapes for role, column in shape.columns.items()}
    return {f"column_{role}": found.get(role) for role in ROLES}


def _wrapping(stages: list[StageJob]) -> dict[str, bool]:
    """Which converters turn plain strings into messages, and other shapes of the content."""
    wraps = {stage.shape.format: stage.shape.content == "strings" and is_chat(stage) for stage in stages}
    shapes = {stage.shape.format: stage.shape for stage in stages}
    preference = shapes.get("preference")
    return {
        "chat_from_value": "chat" in shapes and shapes["chat"].content == "from-value",
        "wraps_pairs": wraps.get("prompt-completion", False),
        "wraps_preferences": wraps.get("preference", False),
        "implicit_prompt": preference is not None and preference.implicit_prompt,
    }


def _stage(stage: StageJob) -> Call:
    """The stage as the constructor call that stands in prepare_data.py."""
    data = stage.job.loaded.recipe.data
    train = data.preferences if stage.method.preference and data.preferences else data.train
    args = [
        Arg("name", stage.traced("stage")),
        Arg("format", stage.traced("data_format"), note=stage.shape.evidence),
        Arg("train", [_source(source) for source in train], stage.ids("data_format")),
    ]
    for part in ("eval", "test"):
        if stage.value(f"has_{part}_file"):
            args.append(Arg(part, [_source(source) for source in getattr(data, part)], stage.ids(f"has_{part}_file")))
    args.append(stage.arg("max_length", "max_length", note=True))
    for fraction in ("eval_fraction", "test_fraction"):
        if stage.value(fraction):
            args.append(stage.arg(fraction, fraction))
    return Call("Stage", args)


def _source(source: Any) -> dict[str, Any]:
    """A data source as the dictionary that read() takes."""
    found = {name: getattr(source, name) for name in ("path", "hub", "subset", "split", "revision", "weight")}
    if source.hub and not source.split:
        found["split"] = "train"
    return {name: value for name, value in found.items() if value is not None}
