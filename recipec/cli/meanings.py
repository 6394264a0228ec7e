"""What a word means that is no key, id or row of recipec: one of other tools, a value, a model, a GPU, a variable."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from recipec.axes import METHODS, ROW_FORMATS, Method
from recipec.axes.attention import ATTENTIONS
from recipec.axes.spelling import joined
from recipec.cli.glossary import in_bundles
from recipec.cli.plan_words import in_plans
from recipec.recipe.fields import OWN_TEMPLATES
from recipec.recipe.foreign import KEYS, keys_in, keys_named
from recipec.recipe.foreign_values import values_meant
from recipec.recipe.kept_arguments import LAUNCHER_VARIABLES, UNFIT_ARGUMENTS
from recipec.recipe.reference import Entry, entries, page
from recipec.recipe.schema_keys import usual_first
from recipec.recipe.trainer_arguments import configs_with, values_without_effect
from recipec.rules.row_pages import explain_row, explain_row_called

_NEED_A_PACKAGE = {row.name for row in ATTENTIONS.values() if row.package}  # that is not in the pinned stack (BAD-011)

_LIKE_A_MODEL = re.compile(r"/|\d")  # a name of the Hub, or one with a size or a generation


def meaning_of(word: str) -> str | None:
    """The page of a word, from the first table that has it; None where none has."""
    wanted = word.strip().strip("[]")
    spellings = dict.fromkeys((wanted, "_".join(wanted.replace("-", "_").split())))
    return next((found for word in spellings for finder in _FINDERS if (found := finder(word))), None)


def keys_about(word: str) -> set[str]:
    """The keys that a word is about: one that tools call so, one that takes it as a value, or what to write for it."""
    wanted = word.strip().lower()
    meant = {line.partition(" = ")[0] for line in values_meant(wanted)}
    taken = {entry.path for entry in entries().values() if wanted in _values(entry)}
    return {*keys_named(wanted), *meant, *taken, *keys_in(KEYS.get(wanted, ""))}


def variable(word: str) -> str | None:
    """The page of a variable of the environment that a run reads, by its name in capitals."""
    means = LAUNCHER_VARIABLES.get(word)
    return f"# {word}: a variable of the environment\n\n{means[:1].upper()}{means[1:]}.\n" if means else None


def _value(word: str) -> str | None:
    """The keys that take the word as a value; the page of the key where it is one."""
    found = [entry for entry in entries().values() if word.lower() in _values(entry)]
    if word.lower() in _NEED_A_PACKAGE:
        return f"# {word}: a value that `{found[0].path}` refuses\n\n{page(found[0])}"
    return _as_values(word, [f'{entry.path} = "{word.lower()}"' for entry in found], found)


def _template(word: str) -> str | None:
    """A chat template that recipec brings, before the rows that other tools call so."""
    if word.lower() not in OWN_TEMPLATES:
        return None
    meant = _as_values(word, [f'data.template = "{word.lower()}"'], [entries()["data.template"]])
    return "\n".join(filter(None, (meant, explain_row_called(word))))


def _titled(word: str) -> str | None:
    """The pages of the keys and tables with this title."""
    known = entries()
    found = usual_first(path for path, one in known.items() if joined(one.node["title"]) == joined(word))
    return "\n".join(page(known[path]) for path in found) or None


def _column(word: str) -> str | None:
    """The formats whose rows have a column of this name."""
    rows = [
        row for row in ROW_FORMATS.values() if any(word.lower() in (role.name, *role.aliases) for role in row.roles)
    ]
    if not rows:
        return None
    head = f"# {word}: a column of {' and '.join(row.name for row in rows)} rows"
    named = "`data.columns` names a column that is called otherwise."
    return "\n".join([head, "", named, "", *filter(None, (explain_row(row.name) for row in rows))])


def _values(entry: Entry) -> tuple[str, ...]:
    """The names that a key takes, alone or in a list."""
    node = entry.node
    choices = (node, *node.get("anyOf", ()), node.get("items", {}))
    return tuple(value for choice in choices for value in choice.get("enum", ()) if isinstance(value, str))


def _value_elsewhere(word: str) -> str | None:
    lines = list(values_meant(word.lower()))
    return _as_values(word, lines, [entries()[line.partition(" = ")[0]] for line in lines])


def _as_values(word: str, lines: list[str], keys: list[Entry]) -> str | None:
    if not lines:
        return None
    head = f"# {word}: write {' or '.join(f'`{line}`' for line in lines)}\n"
    return "\n".join([head, page(keys[0])] if len(keys) == 1 else [head])


def _gpu(word: str) -> str | None:
    from recipec.catalog.gpus import gpu, others_meant

    if (found := gpu(word)) is None:
        return None
    lines = [
        f'- Choose it with: `hardware.gpu = "{found.name}"`',
        f"- Memory: {found.memory_gib:g} GiB, {found.bandwidth_gb_s:,g} GB/s",
        f"- Speed: {found.bf16_tflops or found.fp16_tflops:g} TFLOPS in {'bf16' if found.bf16_tflops else 'fp16'}",
        *(f"- The word may also mean: `{other}`" for other in others_meant(word, found)),
    ]
    return "\n".join([f"# {found.name}: a GPU of the catalog", "", *lines, ""])


def _model(word: str) -> str | None:
    from recipec.catalog.models import model

    if (found := model(word)) is None:
        return None
    shape = found.architecture
    lines = [
        f'- Choose it with: `model.name = "{found.name}"`',
        f"- Parameters: {shape.params / 1e9:.2f} billion; longest context: {shape.max_position:,} tokens",
        f"- Family: `{found.family}`, a {found.kind} model",
        *([f"- License: {found.licence}"] if found.licence else []),
    ]
    return "\n".join([f"# {found.name}: a model of the catalog", "", *lines, ""])


def _family(word: str) -> str | None:
    """The models of a family, by its name with or without its generation and hyphens."""
    from recipec.catalog.models import models

    wanted = _plain(word)
    names = [found.name for found in models() if wanted in (_plain(found.family), _plain(found.line))]
    if not names:
        return None
    lines = [
        *(f"- `{name}`" for name in names),
        "",
        "Name one in `model.name`; its own chat template is used (`data.template`).",
    ]
    return "\n".join([f"# {word}: a family of models in the catalog", "", *lines, ""])


def _model_outside(word: str) -> str | None:
    """Why a model is not in the catalog, as far as that is known, and what is instead."""
    from recipec.catalog.refused import why_not
    from recipec.catalog.vision import named_for_images, trained_on_text

    if why := why_not(word):
        return f"# {word}: a model that is known and not built yet\n\nThe reason: {why}.\n"
    if not (named_for_images(word) and _LIKE_A_MODEL.search(word)):
        return None
    said = (
        "Its name says that it reads images or sound. recipec trains models on text, and takes the language model out"
    )
    ways = [f"- {line[:1].upper()}{line[1:]}." for line in trained_on_text(word)]
    return "\n".join([f"# {word}: a model outside the catalog", "", f"{said} of some such checkpoints.", "", *ways, ""])


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _argument(word: str) -> str | None:
    """What becomes of a keyword of a trainer that no key of a recipe is for."""
    configs = configs_with(word)
    if why := UNFIT_ARGUMENTS.get(word):
        head = f"# {word}: a keyword of the trainer that a recipe cannot set\n\nThe reason: {why}.\n"
        return "\n".join([head, *(_stated(word, value) for value in values_without_effect(word))])
    if not configs or word in KEYS:
        return None
    return (
        f"# {word}: a keyword of {' and '.join(configs)}\n\nA recipe has no key for it. What you write under "
        "[train.arguments] is passed on to the trainer as it is, unless it does harm in the plan: `recipec check` then "
        "says why (E0407).\n"
    )


def _stated(word: str, value: object) -> str:
    return (
        f"`{word} = {json.dumps(value)}` changes nothing: `recipec check` accepts it under [train.arguments] of a "
        "method whose trainer has the keyword.\n"
    )


def _instead(word: str) -> str | None:
    instead = KEYS.get(word.lower())
    return f"# {word}: no key of a recipe\n\nWhat to write: {instead}.\n" if instead else None


def _class_of_trainer(word: str) -> str | None:
    """The methods that a trainer of TRL, or its configuration class, runs."""
    wanted = _plain(word)
    rows = [row for row in METHODS.values() if wanted in _classes(row)]
    if not rows:
        return None
    head = f"# {word}: the class of TRL for {', '.join(row.name for row in rows)}"
    lines = [f"- {row.title}: {_asked(row)}" for row in rows]
    return "\n".join(
        [head, "", "Choose it with:", "", *lines, "", "Its arguments are keys of [train] and [alignment].", ""]
    )


def _classes(method: Method) -> tuple[str, ...]:
    """Its trainer and configuration, and what such a class would be called after the method alone."""
    return tuple(map(_plain, (method.trainer, method.config, f"{method.name}trainer", f"{method.name}config")))


def _asked(method: Method) -> str:
    task = f'`goal.task = "{method.task}"`'
    return f'{task} and `alignment.method = "{method.alignment}"`' if method.alignment else task


def _command(word: str) -> str | None:
    from recipec.cli.group import COMMANDS

    does = COMMANDS.get(word.lower())
    return f"# {word}: a command\n\n{does} See `recipec {word} --help`.\n" if does else None


def _command_elsewhere(word: str) -> str | None:
    from recipec.cli.habits import ELSEWHERE

    does = ELSEWHERE.get(word.lower())
    return f"# {word}: a command of other tools\n\n{does[:1].upper()}{does[1:]}.\n" if does else None


_FINDERS: tuple[Callable[[str], str | None], ...] = (
    variable,
    _value,
    _template,
    _titled,
    explain_row_called,
    _column,
    _gpu,
    _model,
    _family,
    _model_outside,
    _value_elsewhere,
    _argument,
    _class_of_trainer,
    _instead,
    _command,
    in_plans,
    in_bundles,
    _command_elsewhere,
)
