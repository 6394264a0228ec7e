"""The stand-in for a recipe's model: tiny and random, of the same class, where the loaders look for the real one."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from importlib import resources
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recipec.catalog.architecture import Architecture
from recipec.catalog.configs import UnsupportedConfig, window_keys
from recipec.catalog.local import local_model
from recipec.catalog.model_types import MODEL_TYPES, Key, ModelType
from recipec.catalog.models import Model, model
from recipec.facts.model import is_path
from recipec.verify.bundle import Bundle

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

AS_IT_IS = "itself"  # a model that needs no stand-in
HIDDEN, INNER, LAYERS, HEADS, HEAD_DIM, EXPERTS, PER_TOKEN, WINDOW, POSITIONS = 64, 128, 2, 4, 16, 4, 2, 64, 4096
USUAL_RANGE = 0.02  # initializer_range of most model types in transformers 5.23: the first loss is that of a guess
EXPRESSIVE_RANGE = 0.1  # five times the usual: a frozen random head must be able to express a confident answer
VOCABULARY = 768  # 256 bytes, the markers, and what the sample's words need
PAD, BOS = "<|stand-in-pad|>", "<|stand-in-bos|>"
_MARKER = re.compile(r"<[|｜][^<>\s'\"]+?[|｜]>|</?[a-z][a-z_]*>")
_ADDS_BOS = ("llama", "mistral", "mixtral", "gemma")  # families whose tokenizers put a token before every text
_END_OF_TEXT = "<|endoftext|>"
_TINY_BYTES = 64 * 2**20  # a real model folder up to this size is used as it is
SEED = 0
WEIGHTS = "model.safetensors"
_COMMIT = "0" * 40


class NoStandIn(Exception):
    """Nothing says which architecture the recipe's model has."""


def write_stand_in(
    known: Model, texts: Iterable[str], folder: Path, template: str | None, spread: float = EXPRESSIVE_RANGE
) -> str:
    """Save a stand-in of `known` with a tokenizer trained on `texts` into `folder`; returns what it is.

    `spread` is the standard deviation of its random weights.
    """
    with silence():
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM
    tokenizer = stand_in_tokenizer(known, texts, template)
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")}
    config = stand_in_config(known.architecture, len(tokenizer), spread, **ids)
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        network = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config), dtype=torch.bfloat16)
    with silence():
        network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    shape = known.architecture
    count = f"{network.num_parameters():,}"
    return f"a random {shape.model_type} of {count} parameters with the same {shape.decoder_layer} structure"


@contextmanager
def silence() -> Iterator[None]:
    """Keep what the libraries print while they load and save out of the answers of a command."""
    with StringIO() as unread, redirect_stdout(unread), redirect_stderr(unread):
        yield


def hub_folder(cache: Path, name: str, revision: str | None) -> Path:
    """The folder in a hub cache where loaders find model `name`; a full commit hash as revision is kept as such."""
    entry = cache / f"models--{name.replace('/', '--')}"
    commit = revision if revision and len(revision) == len(_COMMIT) else _COMMIT
    for reference in {"main", revision or "main"} - {commit}:
        path = entry / "refs" / reference
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(commit, encoding="utf-8")
    folder = entry / "snapshots" / commit
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def known_model(bundle: Bundle, folder: Path | None) -> Model:
    """What is known about the recipe's model: the catalog, or config.json in `folder`; raises NoStandIn."""
    facts = bundle.stages[0].decisions
    if folder is not None:
        try:
            return local_model(folder)
        except UnsupportedConfig as error:
            raise NoStandIn(f"{folder / 'config.json'}: {error}") from error
    for name in (facts["model"], facts.get("like")):
        if name and (found := model(name)):
            return found
    raise NoStandIn(f"`{facts['model']}` is not in the catalog, and the plan does not say what it is like")


def place_model(bundle: Bundle, root: Path, texts: list[str]) -> str:
    """Put a model into the private hub or data root below `root`, and say what it is; raises NoStandIn."""
    name = bundle.stages[0].decisions["model"]
    if is_path(name):
        return _place_folder(bundle, Path(os.environ.get("DATA_ROOT") or ".") / name, root / "data" / name, texts)
    known = known_model(bundle, None)
    folder = hub_folder(root / "hub", name, _revision(bundle))
    return _stand_in(bundle, known, texts, folder, template_text(known.template_family, known.kind))


def _stand_in(bundle: Bundle, known: Model, texts: list[str], folder: Path, template: str | None) -> str:
    """A stand-in; without weights where the bundle makes its own, so that loading them would fail."""
    spread = USUAL_RANGE if bundle.stages[0].method.random_weights else EXPRESSIVE_RANGE
    said = write_stand_in(known, texts, folder, template, spread)
    if not bundle.stages[0].method.random_weights:
        return said
    (folder / WEIGHTS).unlink()
    return f"the configuration and tokenizer of {said}; no weights"


def _place_folder(bundle: Bundle, real: Path, folder: Path, texts: list[str]) -> str:
    """A copy of the real folder where it is whole and tiny, else a stand-in for what its config.json says."""
    known = known_model(bundle, real)
    whole = any(real.glob("*.safetensors")) and (real / "tokenizer.json").is_file()
    if whole and sum(path.stat().st_size for path in real.rglob("*") if path.is_file()) <= _TINY_BYTES:
        shutil.copytree(real, folder)
        return AS_IT_IS
    return _stand_in(bundle, known, texts, folder, _own_template(real))


def _own_template(folder: Path) -> str | None:
    """The chat template in a model folder, from its own file or from tokenizer_config.json."""
    file, config = folder / "chat_template.jinja", folder / "tokenizer_config.json"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    found = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
    return found.get("chat_template") if isinstance(found.get("chat_template"), str) else None


def _revision(bundle: Bundle) -> str | None:
    return bundle.stages[0].model_options.get("revision")


def stand_in_config(
    shape: Architecture, vocab_size: int, spread: float = EXPRESSIVE_RANGE, **tokens: int | None
) -> dict[str, Any]:
    """The tiny config.json of `shape`'s model type; `tokens` are its special token ids (pad, bos, eos)."""
    row = MODEL_TYPES[shape.model_type]
    sizes = {
        "model_type": shape.model_type,
        "vocab_size": vocab_size,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": _kv_heads(shape),
        "head_dim": HEAD_DIM if shape.query_size == shape.hidden_size else 2 * HEAD_DIM,
        "max_position_embeddings": POSITIONS,
        "tie_word_embeddings": shape.tie_embeddings,
        "initializer_range": spread,
    }
    return sizes | _flags(shape, row) | _window(shape) | _experts(shape, row) | tokens


def _kv_heads(shape: Architecture) -> int:
    """One for multi-query attention, all for multi-head attention, half for grouped queries."""
    if shape.num_kv_heads in (1, shape.num_heads):
        return 1 if shape.num_kv_heads == 1 else HEADS
    return HEADS // 2


def _flags(shape: Architecture, row: ModelType) -> dict[str, bool]:
    """The biases that the configuration decides; those that the class decides need no key."""
    pairs = ((row.qkv_bias, shape.attention_bias), (row.output_bias, shape.output_bias), (row.mlp_bias, shape.mlp_bias))
    return {flag.name: value for flag, value in pairs if isinstance(flag, Key)}


def _window(shape: Architecture) -> dict[str, Any]:
    window = None if shape.sliding_window is None else WINDOW
    return window_keys(replace(shape, num_layers=LAYERS, sliding_window=window))


def _experts(shape: Architecture, row: ModelType) -> dict[str, Any]:
    """Four experts of which two are used, and the shared expert and dense layers of the real model."""
    if shape.moe is None or row.moe is None:
        return {}
    config: dict[str, Any] = {
        row.moe.count: EXPERTS,
        "num_experts_per_tok": PER_TOKEN,
        row.moe.intermediate: INNER // 2,
    }
    if row.moe.shared:
        config[row.moe.shared] = INNER // 2
    if shape.moe.dense_layers:
        config["mlp_only_layers"] = [0]
    return config


UNKNOWN_TEMPLATE = (  # for chat models whose template is not known here: turns in brackets, no assistant mask
    "{% for message in messages %}[{{ message['role'] }}] {{ message['content'] }}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


def template_text(family: str | None, kind: str) -> str | None:
    """The chat template of a family as the installed TRL knows it; None for a base model without one."""
    if family is None:
        return UNKNOWN_TEMPLATE if kind == "chat" else None
    return resources.files("trl").joinpath("chat_templates", f"{family}.jinja").read_text(encoding="utf-8")


def stand_in_tokenizer(model: Model, texts: Iterable[str], template: str | None) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer trained on `texts`, with `template` and its markers, and `model`'s stop token."""
    from transformers import PreTrainedTokenizerFast

    stop = model.stop_tokens[0] if model.stop_tokens else _END_OF_TEXT
    markers = sorted({_END_OF_TEXT, *_MARKER.findall(template or "")} - {stop})  # Qwen2Tokenizer adds it at loading
    bos = BOS if model.family.startswith(_ADDS_BOS) or "bos_token" in (template or "") else None
    specials = [*filter(None, (PAD, bos, stop)), *markers]
    corpus = [*texts, *[template or ""] * 3]  # the template's own words should not cost a token a letter
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_trained(corpus, specials, bos if model.family.startswith(_ADDS_BOS) else None),
        pad_token=PAD,
        bos_token=bos,
        eos_token=stop,
    )
    tokenizer.chat_template = template
    return tokenizer


def _trained(texts: Iterable[str], specials: list[str], leading: str | None):
    """A byte-pair model; `leading` is put before every text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=specials, initial_alphabet=alphabet)
    )
    if leading:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{leading} $A",
            pair=f"{leading} $A {leading} $B",
            special_tokens=[(leading, tokenizer.token_to_id(leading))],
        )
    return tokenizer
