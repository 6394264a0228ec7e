"""prepare_data.py and the chat template: from the user's rows to what the trainers read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from recipec.axes import KINDS, ROW_FORMATS, Kind
from recipec.axes.row_formats import EITHER, IDS, TEXTS
from recipec.backends.incomplete import leaving_out
from recipec.backends.job import Job, StageJob
from recipec.backends.machine import made_bytes, written_gib
from recipec.backends.mixing import ordering, replaying
from recipec.backends.models import MARKED_TEMPLATE, base_folder, base_model, from_hub, has_template_file, no_model
from recipec.backends.overlong import handling, losing, selecting, stages_differ
from recipec.backends.prepared_rows import (
    asks_hardness,
    contents_of_rows,
    flags_of,
    keeps_together,
    marks_of,
    opening_of,
    weighs,
)
from recipec.backends.reading import (
    Way,
    asks_commits,
    carries,
    contents,
    fields_by_way,
    joins,
    kept_fields,
    marks_learned,
    mixes_fields,
    mixes_formats,
    reading,
    sources_of,
    split_column,
    split_columns,
    way_of,
    ways_to_write,
)
from recipec.backends.splitting import cuts_answers, leaking, parts_brought, parts_of_rows, requiring, splitting
from recipec.backends.stated_rows import planned_rows, states_rows, stating
from recipec.dataset import DataShape, reaches_down
from recipec.facts.converting import SKIP
from recipec.facts.model import is_path
from recipec.facts.unlearned import LAST_ANSWER
from recipec.recipe.schema_data import GENERAL, DataSource
from recipec.render.artifact import Artifact
from recipec.render.call import WIDTH, Arg, Call, assigned
from recipec.render.environment import snippet
from recipec.render.traced import Raw, Traced, fragment, mark


def preparation_artifacts(job: Job) -> list[Artifact]:
    """prepare_data.py for all stages, and the bundle's own chat template where it has one."""
    files = [
        Artifact("prepare_data.py", job.ids("data_format", "loss_on", "stage"), "data/prepare_data.py.j2", _names(job))
    ]
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
    names = {"given": Raw(job.facts.template_text)}
    return Artifact("chat_template.jinja", stage.ids("template"), "chat/own.jinja.j2", names)


def _names(job: Job) -> dict[str, Any]:
    stages, first, model = job.stages, job.stages[0], job.facts.model.name
    tokenizer = Raw("str(folder)") if is_path(model) else base_model(first)
    return {
        "name": job.name,
        "several_stages": first.because(len(stages) > 1, "stage"),
        "untold": first.because(len({stage.format.turns for stage in stages}) > 1, "data_format"),
        "seed": first.traced("seed"),
        "stages": [_stage(stage) for stage in stages],
        "local_model": is_path(model),
        "model_folder": base_folder(first, "root"),
        "no_model": Raw(no_model("folder", model)),
        "tokenizer": from_hub(first, "AutoTokenizer", tokenizer, whole=True),
        "new_tokens": first.traced("new_tokens") if job.facts.new_tokens else 0,
        "chat_template_file": first.because(uses_template_file(job), "template"),
        "turn_end": _end_to_look_for(stages),
        "marks_turns": first.because(
            any(stage.marks_turns for stage in stages), "template", "template_marks", "loss_on"
        ),
        "marked_template": MARKED_TEMPLATE,
        "stage_fields": _fields(stages),
        **reading(job),
        **parts_of_rows(job),
        **_bringing(job),
        **splitting(job),
        **_converting(stages),
        **leaving_out(stages),
        **contents(stages),
        **selecting(stages),
        **losing(stages),
        **ordering(stages),
        **replaying(stages),
        **requiring(job),
        **stating(stages),
        **leaking(job),
        "shuffles": first.because(any(map(_shuffles, stages)), "sampling"),
        "all_shuffle": first.because(all(map(_shuffles, stages)), "sampling"),
        **contents_of_rows(stages),
        **marks_of(stages),
        **_room(job),
        "dataset_names": _dataset_names(stages),
        "iterator_names": _iterator_names(stages),
        "abstract_names": _abstract_names(stages),
    }


def _room(job: Job) -> dict[str, Any]:
    """What the script looks for on the disks beside rows, caches and outputs/."""
    folders = ", ".join(f'BUNDLE / "{folder}"' for folder in made_bytes(job))
    ids = ("model", "quantization", "strategy", *("new_tokens",) * bool(job.facts.new_tokens))
    return {
        "made": job.because(Raw(f"[{folders}]" if folders else ""), *ids),
        "room_of_outputs": fragment("outputs_gib: float" + ", *made_gib: float" * bool(folders), job.ids(*ids)),
        "written_sizes": job.because(len(written_gib(job)), *ids),
    }


def _end_to_look_for(stages: list[StageJob]) -> Traced:
    """What ends turns of the chat template, where answers are to end with it and the tokenizer may lack it."""
    ends = (stage.value("template_end") for stage in stages if _may_lack_its_end(stage))
    return stages[0].because(next(ends, ""), "template_end", "has_turn_end", "eos_token", "template", "stage")


def _may_lack_its_end(stage: StageJob) -> bool:
    assumed = stage.value("has_turn_end") is None and bool(stage.eos_token)
    return stage.method.writes and stage.format.turns and (has_template_file(stage) or assumed)


def _abstract_names(stages: list[StageJob]) -> Raw:
    """What the script takes from collections.abc."""
    return Raw(", ".join(["Callable"] * ("tools" in carries(stages)) + ["Iterable", "Iterator"]))


def _iterator_names(stages: list[StageJob]) -> Raw | None:
    """What the script takes from itertools; None where it takes nothing."""
    job = stages[0].job
    cuts = any(map(cuts_answers, stages)) and any(stage.kind.masked for stage in stages)
    takes = any(source.path and source.take for source in sources_of(job))
    cuts = cuts or any(source.path and reaches_down(source.path) for source in sources_of(job))
    used = {"accumulate": any(stage.replays for stage in stages), "chain": keeps_together(job)}
    used |= {"islice": takes, "takewhile": cuts}
    names = ", ".join(name for name, has in used.items() if has)
    return mark(",".join(job.ids("overflow", "packing", "replay")), names) if names else None


def _dataset_names(stages: list[StageJob]) -> Raw:
    """What the script takes from datasets."""
    used = {
        "Json": mixes_fields(stages),
        "List": any(stage.format.turns or stage.shape.content == IDS for stage in stages),
        "load_dataset": any(source.hub for source in sources_of(stages[0].job)),
        "load_dataset_builder": asks_commits(stages[0].job),
        "IterableDataset": any(source.hub for source in sources_of(stages[0].job)),
    }
    names = ["Dataset", "Features", "Value", "concatenate_datasets", *(name for name, has in used.items() if has)]
    line = ", ".join(sorted(names))
    fits = len(f"from datasets import {line}") <= WIDTH
    return Raw(line if fits else "(\n" + "".join(f"    {name},\n" for name in sorted(names)) + ")")


_OF_ORDER = ("shuffled", "parts", "hardness")  # what the order of the rows decides


def _fields(stages: list[StageJob]) -> list[Raw]:
    """What a stage has beside what every stage has; without a default where all stages of the bundle have it."""
    types = {"eval": ("list[dict]", "has_eval_file"), "test": ("list[dict]", "has_test_file")}
    types |= {name: ("float", name) for name in ("eval_fraction", "test_fraction")}
    given = {name: (type, [bool(stage.value(id)) for stage in stages]) for name, (type, id) in types.items()}
    given[GENERAL] = ("list[dict]", [stage.elastic or stage.replays for stage in stages])
    given["replay"] = ("float", [stage.replays for stage in stages])
    shuffled = [_shuffles(stage) for stage in stages]
    given["shuffled"] = ("bool", [one and not all(shuffled) for one in shuffled])
    given["overflow"] = ("str", [stages_differ(stages)] * len(stages))
    given["parts"] = ("int", [stage.ordered for stage in stages])
    given["hardness"] = ("str", [bool(stage.hardness_column) for stage in stages])
    given["planned"] = ("int", [states_rows(stages)] * len(stages))
    fields = [f"{name}: {type}" for name, (type, has) in given.items() if all(has)]
    empty = {"list[dict]": "list[dict] | None = None", "float": "float = 0.0", "bool": "bool = False"}
    empty |= {"int": "int = 0", "str": 'str = ""'}
    fields += [f"{name}: {empty[type]}" for name, (type, has) in given.items() if any(has) and not all(has)]
    ordered = ",".join(stages[0].job.ids("sampling"))
    return [mark(ordered, field) if field.startswith(_OF_ORDER) else Raw(field) for field in fields]


def _bringing(job: Job) -> dict[str, Any]:
    """What a converted row has beside the columns of its kind."""
    turns, columns = any(stage.format.turns for stage in job.stages), split_columns(job)
    beside = columns | {"hardness": "float64"} if asks_hardness(job.stages) else columns
    typed = ", ".join(f'"{name}": Value("{type}")' for name, type in beside.items())
    return {
        "split_type": columns.get("split_by", ""),
        "beside_features": Raw(f"{{{typed}}}"),
        "brings_more": turns or bool(split_column(job)) or asks_hardness(job.stages),
    }


def _converting(stages: list[StageJob]) -> dict[str, Any]:
    """What turns the formats of the rows into the trainers' columns."""
    ways, mixes = ways_to_write(stages), mixes_formats(stages[0].job)
    functions = {way.name: _function(way) for way in ways}
    return {
        "mixes_formats": mixes,
        **_row_parameters(stages[0].job, mixes),
        "format": Raw('source["format"]' if mixes else "stage.format"),
        "converters": [_converter(way) for way in ways],
        "converters_by_format": assigned("CONVERTERS", {name: Raw(functions[name]) for name in sorted(functions)}),
        "features_by_format": _features_by_format(ways),
        "unrolled": [
            _unrolled(KINDS[kind], stages) for kind in dict.fromkeys(s.format.kind for s in stages if s.unrolls)
        ],
    }


def _row_parameters(job: Job, mixes: bool) -> dict[str, Any]:
    """What the conversion of a row depends on beside the row: its source, its stage or both."""
    hard = asks_hardness(job.stages)
    asks_source = (hard or split_column(job) is not None) and parts_brought(job)
    types = {"source": "dict"} if mixes or asks_source else {}
    types |= {"stage": "Stage"} if asks_source or hard or not mixes else {}
    return {
        "asks_source": asks_source,
        "needs_source": "source" in types or weighs(job),
        "looks_at_source": "source" in types,
        "looks_at_stage": "stage" in types,
        "given_to_row": Raw(", ".join(types)),
        "asked_of_row": Raw(", ".join(f"{name}: {type}" for name, type in types.items())),
    }


def _function(way: Way) -> str:
    return f"from_{way.name.replace('-', '_')}"


def _features_by_format(ways: Sequence[Way]) -> Raw:
    """The columns that are filled, and their types: of all ways to write rows alike, or of each."""
    features = {way.name: Raw(_features(way.stage)) for way in sorted(ways, key=lambda way: way.name)}
    if len(features) > 1 and len({*features.values()}) == 1:
        return Raw(f"dict.fromkeys(CONVERTERS, {next(iter(features.values()))})")
    return assigned("FEATURES", features)


def _unrolled(kind: Kind, stages: list[StageJob]) -> Any:
    """answers_of_KIND: one row for each answer."""
    split, tools = split_columns(stages[0].job), "tools" in carries(stages)
    along = ["place", *split, *["hardness"] * asks_hardness(stages), *["tools"] * tools]
    names = {
        "along": along,
        "unrolled_columns": ["prompt", "completion", "conversation", "rest", *along],
        "several_stages": len(stages) > 1,
        "marks_learned": marks_learned(stages),
        "mixes_fields": mixes_fields(stages),
        "learns_last": _learns_last(stages[0].job),
    }
    text = snippet(f"data/unrolled/{kind.name}.py.j2", names, stages[0].job.ids("loss_on", "stage"))
    return SimpleNamespace(column=kind.taught[0], function=Raw(f"answers_of_{kind.name}"), text=text)


def _learns_last(job: Job) -> bool:
    return bool(job.loaded.recipe.data.loss_on == LAST_ANSWER)


_VALUES = {IDS: 'List(Value("int32"))'}


def _features(stage: StageJob) -> str:
    """The columns that the converter of a format fills, and their types."""
    kind = KINDS[stage.format.kind]
    types = {kind.flag: 'Value("bool")'} if kind.flag else {}
    text = "TURNS" if stage.format.turns else _VALUES.get(stage.shape.content, 'Value("string")')
    tools = ['"tools": Value("string")'] * ("tools" in carries(stage.job.stages))
    handed = ['"judged_by": Value("string")'] * bool(stage.shape.handed)
    columns = ", ".join([*(f'"{name}": {types.get(name, text)}' for name in kind.columns), *handed, *tools])
    inline = f"Features({{{columns}}})"
    return (
        inline if len(f'    "{stage.format.name}": {inline},') <= WIDTH else f"Features(\n        {{{columns}}}\n    )"
    )


def _converter(way: Way) -> Raw:
    """from_FORMAT: which column holds what, and how it is written."""
    shape, stages = way.shape, way.stage.job.stages
    row = ROW_FORMATS[shape.format]
    names: dict[str, Any] = {
        **{f"column_{role.name}": shape.columns.get(role.name) for role in row.roles},
        "function": Raw(_function(way)),
        "wraps": row.wraps and shape.content == TEXTS,
        "implicit": shape.implicit_prompt,
        "either": shape.content == EITHER,
        "joins": joins(way),
        "ends": KINDS[row.kind].ends == way.stage.format.kind,
        "marks_learned": marks_learned(stages),
        "handed": bool(shape.handed),
        "answers_anew": way.stage.method.answers_anew,
        "learns_last": _learns_last(way.stage.job),
        **opening_of(way, f", FIELDS[{json.dumps(way.name)}]" if fields_by_way(stages) else ""),
        "weights": bool(kept_fields(way.stage.job, "weight")) and "weight" in carries(stages),
        "fields": Raw(f", FIELDS[{json.dumps(way.name)}]" if fields_by_way(stages) else ""),
        "skips_incomplete": way.stage.job.because(way.stage.job.loaded.recipe.data.incomplete == SKIP, "incomplete"),
        **flags_of(shape.flags),
    }
    return snippet(f"data/formats/{row.name.replace('-', '_')}.py.j2", names, ())


def _stage(stage: StageJob) -> Call:
    """The stage as the constructor call that stands in prepare_data.py."""
    args = [Arg("name", stage.named)]
    if not mixes_formats(stage.job):
        format = stage.traced("data_format", way_of(stage, stage.shape))
        args.append(Arg("format", format, note=stage.shape.evidence))
    args.append(Arg("train", _sources(stage, ""), stage.ids("data_format")))
    for part in stage.brought:
        args.append(Arg(part, _sources(stage, part), stage.ids(f"has_{part}_file")))
    if stage.replays:
        args.append(stage.arg("replay", "replay"))
    args.append(stage.arg("max_length", "max_length", note=True))
    for fraction in ("eval_fraction", "test_fraction"):
        if stage.value(fraction):
            args.append(stage.arg(fraction, fraction))
    if stages_differ(stage.job.stages):
        args.append(stage.arg("overflow", "overflow", handling(stage)))
    if _shuffles(stage) and not all(map(_shuffles, stage.job.stages)):
        args.append(stage.arg("shuffled", "sampling", True))
    if stage.ordered:
        args.append(stage.arg("parts", "curriculum_parts"))
    if stage.hardness_column:
        args.append(stage.arg("hardness", "curriculum_column"))
    if states_rows(stage.job.stages):
        args.append(planned_rows(stage))
    return Call("Stage", args)


def _shuffles(stage: StageJob) -> bool:
    """Whether the rows are put into the random order here that the trainer then keeps."""
    return bool(stage.value("sampling") == "sequential") and not stage.ordered


def _sources(stage: StageJob, part: str) -> list[dict[str, Any]]:
    return [_source(stage, source, shape) for source, shape in stage.sources(part)]


def _source(stage: StageJob, source: DataSource, shape: DataShape) -> dict[str, Any]:
    """A data source as the dictionary that read() takes."""
    found = {name: getattr(source, name) for name in ("path", "hub", "subset", "split", "revision", "take")}
    if source.hub and not source.split:
        found["split"] = "train"
    if mixes_formats(stage.job):
        found["format"] = way_of(stage, shape)
    found["weight"] = source.weight
    return {name: value for name, value in found.items() if value is not None}
