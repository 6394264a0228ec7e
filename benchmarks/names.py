"""The models and GPUs that published tables name, as the catalog calls them, whatever the spelling."""

from __future__ import annotations

import re
import tomllib
from functools import cache, lru_cache
from pathlib import Path

from benchmarks.published import DATA, Row, Unmodelled
from recipec.catalog.architecture import Architecture
from recipec.catalog.configs import architecture_from_config
from recipec.catalog.gpus import Gpu, gpu
from recipec.catalog.lookup import names_in
from recipec.catalog.models import model

_MODELS = Path(model.__code__.co_filename).parent / "models"
# What no spelling leads to, as `plain` writes it: the version that a name leaves out, and models of the same shape.
_MEANT = {
    "llama7b": "meta-llama/Llama-2-7b-hf",
    "llama13b": "meta-llama/Llama-2-13b-hf",
    "7b(llama27b": "meta-llama/Llama-2-7b-hf",
    "openllama7b": "meta-llama/Llama-2-7b-hf",
    "mistral7b": "mistralai/Mistral-7B-v0.1",
    "mistral7bv0.2": "mistralai/Mistral-7B-v0.1",
    "openbuddyzephyr7b": "mistralai/Mistral-7B-v0.1",
    "mixtral8x7b": "mistralai/Mixtral-8x7B-v0.1",
    "tinyllama": "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
    "tinyllama1.1b": "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
}
# Block layouts that no supported model type has.
_OTHER_BLOCKS = {
    "phi-1.5": "parallel attention and feed-forward",
    "phi-2": "parallel attention and feed-forward",
    "falcon": "parallel attention and feed-forward",
    "stablelm": "parallel attention and feed-forward",
    "santacoder": "multi-query GPT block with learned positions",
    "chatglm": "ChatGLM block",
    "baichuan2-13b": "ALiBi attention",
    "simpletransformer": "a benchmark's own block",
    "moonlight": "multi-head latent attention",
    "nemotron": "hybrid state-space block",
}
_TUNED = re.compile(r"(instruct|chat|base|hf|it)$")  # of one shape with the model that was tuned
_MEMORY = re.compile(r"[ _-]?(\d+) ?gi?b$")
_FORM = re.compile(r"[ _-](sxm\d?|pcie|nvl|oam)\b")


@lru_cache(maxsize=256)
def architecture(name: str) -> Architecture:
    """The architecture of a published model name; raises Unmodelled."""
    wanted = name.strip().lower()
    for part, block in _OTHER_BLOCKS.items():
        if part in wanted:
            raise Unmodelled(f"architecture: {block}")
    if "gptq" in wanted:
        raise Unmodelled("GPTQ base weights")
    extra = _extra().get(wanted.rpartition("/")[2].removesuffix("-chat")) or _extra().get(wanted.replace("/", "-"))
    if extra is not None:
        return architecture_from_config(extra)
    found = model(_catalog_name(name))
    if found is None:
        raise Unmodelled(f"architecture not known: {name or '(not stated)'}")
    return found.architecture


def plain(name: str) -> str:
    """A model's name without its organization, case, hyphens, and words of tuning: "llama3.18b"."""
    short = re.sub(r"[\s_-]+", "", name.strip().lower().rpartition("/")[2]).rstrip(")").removeprefix("meta")
    while (shorter := _TUNED.sub("", short)) != short:
        short = shorter
    return short


def _catalog_name(name: str) -> str:
    """What the catalog calls it: its own spelling first, then any that differs in what `plain` leaves out."""
    return name if model(name) else _MEANT.get(plain(name)) or _spellings().get(plain(name), name)


@cache
def _spellings() -> dict[str, str]:
    return {plain(name): name for name in reversed(names_in(_MODELS))}


@cache
def _extra() -> dict[str, dict[str, object]]:
    return tomllib.loads((DATA / "architectures.toml").read_text(encoding="utf-8"))


def card_of(row: Row) -> Gpu:
    """The catalog GPU of a row: with its memory where that tells GPUs of one name apart; raises Unmodelled."""
    wanted = _FORM.sub("", re.sub(r"\s*\(.*", "", row["gpu"].strip().lower()))
    stated = _MEMORY.search(wanted)
    bare = _MEMORY.sub("", wanted)
    found = gpu(f"{bare}-{stated[1]}gb") if stated else None
    found = found or (gpu(bare or wanted) if wanted else None)
    if found is None or (stated and not _holds(found, int(stated[1]))):
        raise Unmodelled(f"GPU not in the catalog: {row['gpu'] or '(not stated)'}")
    return found


def _holds(card: Gpu, stated_gb: int) -> bool:
    """Whether a card is sold with so much memory: within 3 GB, as drivers, clouds and data sheets differ."""
    return abs(card.memory_gb - stated_gb) <= 3
