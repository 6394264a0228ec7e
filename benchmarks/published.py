"""Published runs: reading the tables, naming their models, and saying by name what is not modelled."""

from __future__ import annotations

import csv
import tomllib
from functools import lru_cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from recipec.catalog.architecture import Architecture, Modules
from recipec.catalog.configs import architecture_from_config
from recipec.catalog.gpus import Gpu, gpu
from recipec.catalog.models import model
from recipec.estimate.workload import Workload
from recipec.layout import Layout

DATA = Path(__file__).parent / "data"
RESULTS = Path(__file__).parent / "results"

Row = dict[str, str]


class Unmodelled(Exception):
    """A run that uses something the estimates do not model: the feature's name."""


class Case(Struct, frozen=True):
    """One published run in our terms."""

    architecture: Architecture
    layout: Layout
    work: Workload


# Names in the tables, in lower case, that are not catalog names.
_NAMES = {
    "7b (llama2-7b-hf)": "meta-llama/Llama-2-7b-hf",
    "llama 2 7b": "meta-llama/Llama-2-7b-hf",
    "llama-2-7b": "meta-llama/Llama-2-7b-hf",
    "llama2-7b": "meta-llama/Llama-2-7b-hf",
    "llama2 7b": "meta-llama/Llama-2-7b-hf",
    "llama-7b": "meta-llama/Llama-2-7b-hf",
    "llama 7b": "meta-llama/Llama-2-7b-hf",
    "nousresearch/llama-2-7b-hf": "meta-llama/Llama-2-7b-hf",
    "llama 2 13b": "meta-llama/Llama-2-13b-hf",
    "llama-13b": "meta-llama/Llama-2-13b-hf",
    "llama2 13b": "meta-llama/Llama-2-13b-hf",
    "nousresearch/llama-2-13b-hf": "meta-llama/Llama-2-13b-hf",
    "nousresearch/llama-2-70b-hf": "meta-llama/Llama-2-70b-hf",
    "llama2 70b": "meta-llama/Llama-2-70b-hf",
    "llama 3 8b": "meta-llama/Meta-Llama-3-8B",
    "llama3 8b": "meta-llama/Meta-Llama-3-8B",
    "llama-3-8b": "meta-llama/Meta-Llama-3-8B",
    "llama 3.1 8b": "meta-llama/Llama-3.1-8B",
    "llama 3.1 8b instruct": "meta-llama/Llama-3.1-8B-Instruct",
    "llama 3.3 70b instruct": "meta-llama/Llama-3.3-70B-Instruct",
    "llama 3.1 70b": "meta-llama/Llama-3.1-70B",
    "llama 3.1 405b": "meta-llama/Llama-3.1-405B",
    "llama 3.2 3b": "meta-llama/Llama-3.2-3B",
    "mistral-7b": "mistralai/Mistral-7B-v0.1",
    "mistral-7b-v0.2": "mistralai/Mistral-7B-v0.1",
    "openbuddy-zephyr-7b-chat": "mistralai/Mistral-7B-v0.1",
    "phi-3-mini-4k-instruct": "microsoft/Phi-3-mini-4k-instruct",
    "tiny-llama": "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
    "tinyllama 1.1b": "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
    "qwen2.5 7b": "Qwen/Qwen2.5-7B",
    "qwen2.5 32b": "Qwen/Qwen2.5-32B",
    "mixtral_8x7b": "mistralai/Mixtral-8x7B-v0.1",
    "openlm-research/open_llama_7b": "meta-llama/Llama-2-7b-hf",
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
    "mpt": "MPT block (ALiBi, LayerNorm, GELU)",
}


_CARDS = {
    "A100": "a100-80gb",
    "A100 80GB": "a100-80gb",
    "A100-SXM4-80GB": "a100-80gb",
    "A100-SXM4-40GB": "a100-40gb",
    "A100 40GB": "a100-40gb",
    "H100 80GB": "h100",
    "H800 80GB": "h800",
    "A800-SXM4-80GB": "a800-80gb",
    "A10G 24GB": "a10g",
    "T4 16GB": "t4",
    "V100-SXM2 16GB": "v100-16gb",
    "RTX 4090 24GB": "rtx-4090",
    "L4 24GB": "l4",
    "RTX A6000 48GB": "rtx-a6000",
    "RTX 4070 Ti SUPER 16GB": "rtx-4070-ti-super",
}


def rows(name: str) -> list[Row]:
    """The rows of a table that ships with the benchmarks, or of any other file."""
    path = DATA / name if (DATA / name).exists() else Path(name)
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


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
    found = model(_NAMES.get(wanted, name))
    if found is None:
        raise Unmodelled(f"architecture not known: {name or '(not stated)'}")
    return found.architecture


def fused(shape: Architecture) -> Architecture:
    """The same layers with query, key and value in one projection, as LitGPT writes them."""
    return replace(shape, modules=Modules(qkv=("qkv",), output="proj", mlp_in=shape.modules.mlp_in))


@lru_cache(maxsize=1)
def _extra() -> dict[str, dict[str, object]]:
    return tomllib.loads((DATA / "architectures.toml").read_text(encoding="utf-8"))


def number(row: Row, column: str) -> int:
    """An integer cell; raises Unmodelled where the source does not state it."""
    text = row[column].strip()
    if not text:
        raise Unmodelled(f"not stated: {column}")
    try:
        return int(float(text))
    except ValueError:
        raise Unmodelled(f"not a number: {column}") from None


def card_of(row: Row) -> Gpu:
    """The catalog GPU of a row; raises Unmodelled."""
    found = gpu(_CARDS.get(row["gpu"], row["gpu"])) if row["gpu"] else None
    if found is None:
        raise Unmodelled(f"GPU not in the catalog: {row['gpu'] or '(not stated)'}")
    return found
