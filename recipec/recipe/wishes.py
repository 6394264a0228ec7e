"""The decisions that a recipe takes itself, by stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from recipec.recipe.exclusive import STAGES, rivals
from recipec.recipe.fields import Section
from recipec.recipe.schema import Recipe
from recipec.rules.core import Wish

# What says how a stage learns belongs in [train] to the last stage only; what says how it runs, and the adapters
# that one stage hands to the next, hold for all.
LAST_STAGE_ONLY = frozenset(
    (
        *("learning_rate", "schedule", "warmup", "weight_decay", "max_grad_norm"),
        *("epochs", "max_steps", "global_batch_size", "arguments"),
    )
)
_NOT_DECISIONS = ("policy",)

Where = Callable[..., str]


def wishes(recipe: Recipe, where: Where, stage: str, last: bool) -> dict[str, Wish]:
    """Return every value that the recipe sets for `stage`, by its recipe key; "auto" sets nothing.

    `where` tells where a key path is written. [train.STAGE] overrides [train].
    """
    found: dict[str, Wish] = {}
    for name in Recipe.model_fields:
        if name not in _NOT_DECISIONS and name != "train":
            found |= _of_section(getattr(recipe, name), (name,), where)
    found |= _of_section(recipe.train, ("train",), where, skip=STAGES if last else (*STAGES, *LAST_STAGE_ONLY))
    if stage in STAGES:
        own = _of_section(getattr(recipe.train, stage.replace("-", "_")), ("train", stage), where)
        found = _overridden(found, {key.replace(f".{stage}.", ".", 1): wish for key, wish in own.items()})
    return _without_alias(found)


def _of_section(section: Section, path: tuple[str, ...], where: Where, skip: tuple[str, ...] = ()) -> dict[str, Wish]:
    found = {}
    for key, value in _set_keys(section):
        here = (*path, key)
        if key in skip or value == "auto":
            continue
        if isinstance(value, Section):
            found |= _of_section(value, here, where)
        else:
            found[".".join(here)] = Wish(_whole(value) if key == "epochs" else value, where(*here))
    return found


def _whole(value: float) -> float:
    """2 and not 2.0, as the rules and people write it."""
    return int(value) if value == int(value) else value


def _set_keys(section: Section) -> Iterator[tuple[str, Any]]:
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if value is not None:
            yield field.alias or name, value


def _overridden(general: Mapping[str, Wish], own: Mapping[str, Wish]) -> dict[str, Wish]:
    """Lay a stage's own values over the general ones; `max_steps` also displaces a general `epochs`."""
    displaced = {".".join(rival) for key in own for rival in rivals(tuple(key.split(".")))}
    merged = {key: wish for key, wish in general.items() if key not in displaced} | dict(own)
    both = general.get("train.arguments"), own.get("train.arguments")
    if all(both):
        merged["train.arguments"] = Wish(both[0].value | both[1].value, both[1].where)
    return merged


def _without_alias(found: dict[str, Wish]) -> dict[str, Wish]:
    """Write the alias "qlora" out as what it means."""
    wish = found.get("train.adaptation")
    if wish and wish.value == "qlora":
        found["train.adaptation"] = Wish("lora", wish.where)
        found.setdefault("train.quantization", Wish("nf4", wish.where))
    return found
