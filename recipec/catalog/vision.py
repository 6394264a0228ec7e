"""Models that read images or sound: which of them recipec trains on text, for those that name another one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from recipec.catalog.lookup import nearest
from recipec.catalog.models import models
from recipec.catalog.refused import reads_images
from recipec.catalog.text_parts import TEXT_PARTS

# What makers of such models write into names on the Hub (huggingface.co/models, looked at 2026-11-29).
_WORDS = r"vl\d*|vlm|vision|multimodal|omni|audio|(?:llava|pixtral|paligemma|smolvlm|internvl|idefics|molmo)\d*"
_NAMED = re.compile(rf"(?:^|[-_.])(?:{_WORDS})(?=[-_.]|$)", re.IGNORECASE)


def named_for_images(name: str) -> bool:
    """Whether the name of a model on the Hub says that it reads images or sound."""
    return bool(_NAMED.search(name.rpartition("/")[2]))


def trained_on_text(name: str) -> Iterator[str]:
    """Yield what to do about a model with such a name, of which nothing is known."""
    yield _in_catalog(name)
    types = f"{', '.join([*TEXT_PARTS][:-1])} or {[*TEXT_PARTS][-1]}"
    yield f"if its model_type is {types}: `hf download {name} config.json` lets recipec read its shape"


def ways_out(name: str, model_type: str) -> tuple[str, ...]:
    """What to do about a model of a type that is not built: `like` does not help, since no shape is its own."""
    listed = "`recipec list models` has the models that are built; `like` does not help, since no shape is its own"
    return (*[_in_catalog(name)] * reads_images(model_type), listed)


def _in_catalog(name: str) -> str:
    """The checkpoints with a text part, those first that are called most alike."""
    names = [model.name for model in models() if model.stored]
    close = dict.fromkeys([*nearest(name, names), *names])
    shown = ", ".join([*close][:3])
    return f"name a checkpoint of the catalog whose language model is trained on text, such as {shown}"
