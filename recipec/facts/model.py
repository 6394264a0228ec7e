"""The model that a recipe names: in the catalog, in a local folder, or like one of those."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from recipec.axes import stages_of
from recipec.catalog.architecture import Architecture
from recipec.catalog.config_values import OddValue, UnbuiltType, UnsupportedConfig
from recipec.catalog.local import local_model, missing_files
from recipec.catalog.lookup import nearest
from recipec.catalog.model_types import MODEL_TYPES
from recipec.catalog.models import Model, model, model_names, others_meant
from recipec.catalog.refused import why_not
from recipec.catalog.templates import BY_TRL, BY_TURNS, NO_MARKS
from recipec.catalog.vision import named_for_images, trained_on_text, ways_out
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.facts.cached import cached, in_the_shape_of, not_built
from recipec.facts.fact import known, short_name, stated
from recipec.facts.quantized import quantized
from recipec.facts.working_folder import path_from_recipe
from recipec.recipe import LoadedRecipe
from recipec.recipe.extends import is_path
from recipec.recipe.locate import dotted
from recipec.recipe.schema import AUTO
from recipec.rules.core import Decision


def look_up_model(loaded: LoadedRecipe, report: Report) -> Model | None:
    """The model with its architecture; None with a diagnostic when it is not known."""
    return look_up(loaded, loaded.recipe.model, ("model",), report)


def look_up(loaded: LoadedRecipe, section: Any, table: tuple[str, ...], report: Report) -> Model | None:
    """The model that a section names by `name`, or says to be `like` another; `table` is where the section is."""
    found = (
        _folder(loaded, section, table, report) if is_path(section.name) else _of_hub(loaded, section, table, report)
    )
    if found is not None and found.stored and (table != ("model",) or not can_begin(loaded, found)):
        report.add(_holds_more(loaded, (*table, "name"), found))
        return None
    return found


def can_begin(loaded: LoadedRecipe, model: Model) -> bool:
    """Whether training can begin with a model: of random weights, only where its checkpoint holds nothing else."""
    return not (model.stored and _starts_random(loaded))


def _of_hub(loaded: LoadedRecipe, section: Any, table: tuple[str, ...], report: Report) -> Model | None:
    """The model of the Hub that a section names."""
    found, reported = model(section.name), len(report.diagnostics)
    if found is None and (why := _no_hub_id(loaded, section.name)):
        report.add(_folder_meant(loaded, (*table, "name"), section.name, why))
        return None
    if found is not None and section.like is not None:
        label = Label(loaded.place(*table, "like"), f"the catalog has the shape of {found.name}")
        title = f"`{dotted(table)}.like` is for a model outside the catalog"
        report.add(Diagnostic("E0401", title, (label,), ("remove it",)))
        return None
    if found is None and (why := why_not(section.name)):
        report.add(not_built(loaded, (*table, "name"), section.name, why))
        return None
    if found is None and (copy := quantized(loaded, (*table, "name"), section.name)):
        report.add(copy)
        return None
    if found is None and section.like is not None:
        path = (*table, "like")
        like = _local(loaded, section.like, path, report) if is_path(section.like) else model(section.like)
        found = like and in_the_shape_of(loaded, section, table, like, report)
        if found is not None and table == ("model",) and _renders_as_base(loaded, found):
            report.add(_taken_for_base(loaded, section))
    elif found is None:
        found = cached(loaded, section, table, report)
    if found is None and len(report.diagnostics) == reported:
        report.add(_unknown(loaded, (*table, "like" if section.like else "name"), section.like or section.name))
    elif found is not None and (others := others_meant(section.name, found)):
        report.add(short_name(loaded, (*table, "name"), found.name, others))
    return found


def _folder(loaded: LoadedRecipe, section: Any, table: tuple[str, ...], report: Report) -> Model | None:
    """The model in a folder that a section names."""
    if section.like is not None:
        label = Label(loaded.place(*table, "like"), "recipec reads the shape in the config.json of the folder")
        title = f"`{dotted(table)}.like` is for a model of the Hub outside the catalog"
        report.add(Diagnostic("E0401", title, (label,), ("remove it",)))
    folder = _local(loaded, section.name, (*table, "name"), report)
    for finding in _incomplete(loaded, section.name, table) if folder else ():
        report.add(finding)
    return folder


def _local(loaded: LoadedRecipe, name: str, path: tuple[str, ...], report: Report) -> Model | None:
    try:
        return replace(local_model(loaded.folder / name), name=name)
    except (UnsupportedConfig, OSError) as error:
        label = Label(loaded.place(*path, part="value"), str(error))
        help = ("name the folder that holds config.json and the tokenizer, as save_pretrained writes them",)
        if file := _may_be_damaged(error):
            help = (*help, f"if `{name}/{file}` is damaged, copy it again or save the model again")
        help = path_from_recipe(name, loaded.folder) or (*help, *made_by_a_run(loaded, name))
        help = ways_out(name, error.model_type) if isinstance(error, UnbuiltType) else help
        report.add(Diagnostic("E0306", f"`{name}` is not a model folder that can be used", (label,), help))
        return None


def _may_be_damaged(error: Exception) -> str:
    """The file of a model folder that holds an odd value, or lacks a key; "" for what is whole and not supported."""
    if isinstance(error, OddValue):
        return error.file
    return "config.json" if isinstance(error, UnsupportedConfig) and error.missing else ""


def made_by_a_run(loaded: LoadedRecipe, name: str) -> tuple[str, ...]:
    """What to do about a folder that is not there yet."""
    later = "if the run of another recipe makes this folder, check, plan and build this recipe when that run has ended"
    return () if os.path.exists(loaded.folder / name) else (later,)


def _no_hub_id(loaded: LoadedRecipe, name: str) -> str:
    """Why a name is none of a model on the Hub; "" where it may be one."""
    if name.startswith("~"):
        return "`~` stands for a home folder in a shell alone"
    if name.count("/") > 1:
        return "an id of the Hub is `name` or `owner/name`"
    return "a folder beside the recipe has this name" if os.path.isdir(loaded.folder / name) else ""


def _folder_meant(loaded: LoadedRecipe, path: tuple[str, ...], name: str, why: str) -> Diagnostic:
    label = Label(loaded.place(*path, part="value"), why)
    _, is_url, id = name.partition("huggingface.co/")
    help = f'write `"{id}"`' if is_url else f'write `"./{name}"` for a folder, as seen from the recipe'
    if name.startswith("~"):
        help = f'write the whole path of the folder, here `"{os.path.expanduser(name)}"`'
    if seen := path_from_recipe(f"./{name}", loaded.folder) if not is_url else ():
        return Diagnostic("E0301", f"`{name}` is not the id of a model on the Hugging Face Hub", (label,), (*seen,))
    more = () if is_url else made_by_a_run(loaded, name)
    return Diagnostic("E0301", f"`{name}` is not the id of a model on the Hugging Face Hub", (label,), (help, *more))


def _incomplete(loaded: LoadedRecipe, name: str, table: tuple[str, ...]) -> Iterator[Diagnostic]:
    """Yield what a folder lacks to be loaded (W0517); a stage that starts from random weights needs none."""
    missing = missing_files(loaded.folder / name, weights=table != ("model",) or not _starts_random(loaded))
    if missing:
        label = Label(loaded.place(*table, "name", part="value"), f"no {' and no '.join(missing)}")
        help = ("copy the missing files into the folder before you run the bundle",)
        yield Diagnostic("W0517", f"the model folder `{name}` is not complete", (label,), help)


def _starts_random(loaded: LoadedRecipe) -> bool:
    """Whether no stage needs the weights of a model."""
    return all(row.random_weights for row in stages_of(loaded.recipe.goal.task))


def _holds_more(loaded: LoadedRecipe, path: tuple[str, ...], found: Model) -> Diagnostic:
    label = Label(loaded.place(*path, part="value"), "its checkpoint holds a vision tower beside the language model")
    help = ("the language model is taken out for a model that is trained, not for one that only runs or starts random",)
    return Diagnostic("E0401", f"`{found.name}` cannot be loaded here", (label,), help)


def _renders_as_base(loaded: LoadedRecipe, found: Model) -> bool:
    """Whether rows would be rendered as for a base model, without the recipe having said so."""
    asked = loaded.is_set("data", "template")
    return not (asked or has_template(found)) and any(not row.of_text for row in stages_of(loaded.recipe.goal.task))


def _taken_for_base(loaded: LoadedRecipe, section: Any) -> Diagnostic:
    label = Label(loaded.place("model", "like"), f"{section.like} is a base model without a chat template")
    help = (
        f"if {section.name} is a chat model, name one of its shape in `like`, so that training keeps its template",
        'if it is a base model: `template = "plain"` under [data] says so',
    )
    return Diagnostic("W0521", f"`{section.name}` is taken for a base model", (label,), help)


def _unknown(loaded: LoadedRecipe, path: tuple[str, ...], name: str) -> Diagnostic:
    close = nearest(name, (*model_names(), AUTO))
    label = Label(loaded.place(*path, part="value"), "not in the catalog")
    if named_for_images(name) and path[0] == "model":  # of other models no text part is taken out
        return Diagnostic("E0301", f"unknown model `{name}`", (label,), (*trained_on_text(name),))
    here = not is_path(name) and os.path.isdir(loaded.folder / name)
    return Diagnostic(
        "E0301",
        f"unknown model `{name}`",
        (label,),
        (
            *([f'for the folder beside the recipe, write `"./{name}"`'] if here else []),
            f"similar names in the catalog: {', '.join(close)}" if close else "see `recipec list models`",
            f"a model of a known architecture: `hf download {name} config.json` lets recipec read its shape",
            _alike(close),
        ),
    )


def _alike(close: list[str]) -> str:
    """How to plan with the shape of another model: a name of the catalog alone would be a guess."""
    if close and close[0] != AUTO:
        shape = f'or, if it has the very shape of {close[0]}, write `like = "{close[0]}"`'
        return f"{shape}; a folder with config.json does too"
    return "or write whose shape it has as `like`: a name of the catalog, or a folder with config.json"


def model_facts(loaded: LoadedRecipe, model: Model, others: Iterable[Model] = ()) -> list[Decision]:
    """The facts about the model that rules use; `others` run beside it, all with one kind of attention."""
    like = "the architecture that the recipe names, if any"
    return [
        stated(loaded, "model", model.name, "model", "name"),
        *facts_of(model, *others),
        known("like", loaded.recipe.model.like, like, "model", origin="recipe"),
    ]


def facts_of(model: Model, *others: Model) -> list[Decision]:
    """What is known of a model, whatever a recipe says."""
    shape, source = model.architecture, source_of(model)
    return [
        known("params", shape.params, size_of(model), "model", source=source),
        known("moe", shape.moe is not None, _experts(shape), "model", source=source),
        *_per_token(shape, source),
        known("model_type", shape.model_type, f"architecture of {model.name}", "model", source=source),
        known("max_position", shape.max_position, f"context of {model.name}", "model", source=source),
        known("model_kind", model.kind, f"{model.name} is a {model.kind} model", "model", source=source),
        _has_sdpa(model, *others),
        known("has_template", has_template(model), _template(model), "model", source=source),
        *_template_facts(model),
    ]


def _template_facts(model: Model) -> Iterator[Decision]:
    """What is known of the model's chat template, who marks the assistant's tokens in it, and where the model stops."""
    found = model.template
    source = f"{found.source} (checked {found.checked})" if found else source_of(model)
    marks = found.marks if found else NO_MARKS
    yield known("template_has_mask", model.marked, _marked_by(model), "model", source=source)
    yield known("template_marks", marks, _marked_by(model), "model", source=source)
    stops = " or ".join(model.stop_tokens) or "at no token that is known"
    yield known("stop_tokens", model.stop_tokens, f"{model.name} stops: {stops}", "model", source=source_of(model))
    yield known("template_sha256", model.template_sha256, _template(model), "model", source=source_of(model))


def _marked_by(model: Model) -> str:
    """Who tells the assistant's tokens apart in the model's chat template."""
    if model.template is None:
        return f"{_template(model)}, whose text recipec does not know" if has_template(model) else _template(model)
    more = f", and {_KEEPS_THOUGHTS}" if model.template.keeps_thoughts else ""
    return f"{_template(model)}: {_MARKS[model.template.marks]}{more}"


_KEEPS_THOUGHTS = "writes a thought, empty where a row has none, before earlier answers too, which it itself leaves out"
_MARKS = {
    BY_TRL: "TRL has a training version of it that marks the assistant's tokens",
    BY_TURNS: "its turns can be marked in its own text",
    NO_MARKS: "the assistant's tokens cannot be marked in its text",
}


def source_of(model: Model) -> str:
    """Where the shape of a model is from."""
    return f"{model.source} (checked {model.checked})" if model.checked else model.source


def size_of(model: Model) -> str:
    """How large a model is, for people."""
    return f"{model.architecture.params / 1e9:.2f}B parameters, computed from its shape"


def _has_sdpa(*models: Model) -> Decision:
    """Whether all of them run in SDPA: transformers 5.23 has no soft-capped scores and no attention sinks there."""
    types = [model.architecture.model_type for model in models]
    lacking = [name for name in types if MODEL_TYPES[name].softcap or MODEL_TYPES[name].sinks]
    return known("has_sdpa", not lacking, f"attention of {(lacking or types)[0]}", "model")


def has_template(model: Model) -> bool:
    """Whether the tokenizer brings a chat template; a chat model always does."""
    return model.kind == "chat" or model.template_family is not None


def _template(model: Model) -> str:
    if not has_template(model):
        return f"{model.name} has no chat template"
    family = model.template_family
    return f"{model.name} has {f'the chat template of {family}' if family else 'a chat template of its own'}"


def _per_token(shape: Architecture, source: str) -> list[Decision]:
    """How many experts a token passes, in a model that has some."""
    if shape.moe is None:
        return []
    shared = shape.moe.shared_intermediate_size
    beside = f"an MLP of {shared} features beside them" if shared else "no MLP beside them"
    return [
        known("experts_per_token", shape.moe.per_token, _experts(shape), "model", source=source),
        known("shared_mlp", bool(shared), beside, "model", source=source),
    ]


def _experts(shape: Architecture) -> str:
    if shape.moe is None:
        return "dense: no experts"
    return f"{shape.moe.count} experts, {shape.moe.per_token} for each token"
