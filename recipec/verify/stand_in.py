"""The stand-ins for a recipe's models: tiny and random, of the same class, where the loaders look for the real ones."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import resources
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from recipec.catalog.architecture import Architecture
from recipec.catalog.config_values import UnsupportedConfig
from recipec.catalog.configs import architecture_from_config, flag_keys
from recipec.catalog.hub_cache import cached_model
from recipec.catalog.layer_parts import MXFP4
from recipec.catalog.local import local_model
from recipec.catalog.model_types import MODEL_TYPES
from recipec.catalog.models import Model, model
from recipec.catalog.templates import templates
from recipec.facts.model import is_path
from recipec.verify.bundle import Bundle, BundleStage
from recipec.verify.new_tokens import new_tokens_of
from recipec.verify.stand_in_layers import HEAD_DIM, HEADS, HIDDEN, INNER, LAYERS, POSITIONS, experts, kv_heads, layers
from recipec.verify.stand_in_mxfp4 import WEIGHTS, store_in_mxfp4

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase as Tokenizer

AS_IT_IS = "itself"  # a model that needs no stand-in
USUAL_RANGE = 0.02  # initializer_range of most model types in transformers 5.23: the first loss is that of a guess
EXPRESSIVE_RANGE = 0.1  # five times the usual: a frozen random head must be able to express a confident answer
VISION = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}  # of a tower
VISION |= {"projector_input_dim": 32, "projector_output_dim": 32, "vision_output_dim": 32}  # of Llama 4's
VOCABULARY = 768  # 256 bytes, the markers, and what the sample's words need
PAD, BOS = "<|stand-in-pad|>", "<|stand-in-bos|>"
_MARKER = re.compile(r"<[|｜][^<>\s'\"]+?[|｜]>|</?[a-z][a-z_]*>")
_ADDS_BOS = ("llama", "mistral", "mixtral", "gemma")  # families whose tokenizers put a token before every text
_END_OF_TEXT = "<|endoftext|>"
_TINY_BYTES = 64 * 2**20  # a real model folder up to this size is used as it is
SEED = 0
_COMMIT = "0" * 40


class NoStandIn(Exception):
    """Nothing says which architecture a model of the plan has, or transformers has no such model."""


class PlannedModel(Struct, frozen=True):
    """A model that a plan names."""

    role: str  # what it is to the method: policy, or another model of a pass
    name: str
    like: str | None
    revision: str | None
    scores: bool  # it gives one number for a sequence, not probabilities of tokens

    @property
    def real_folder(self) -> Path | None:
        """Where a model that is named by its path is; None for one of the Hub."""
        return Path(os.environ.get("DATA_ROOT") or ".") / self.name if is_path(self.name) else None

    def folder(self, root: Path) -> Path:
        """Where loaders look for it in the private data root or hub below `root`."""
        return root / "data" / self.name if is_path(self.name) else hub_folder(root / "hub", self.name, self.revision)


def models_of(bundle: Bundle) -> list[PlannedModel]:
    """The models that the plan names: what training starts from first, then those that only run beside it."""
    first = bundle.stages[0]
    facts, revision = first.decisions, first.model_options.get("revision")
    found = [PlannedModel("policy", facts["model"], facts.get("like"), revision, scores=False)]
    for stage in bundle.stages:
        for part in stage.method.other_models:
            role, name = part.model, stage.decisions.get(part.model)
            if name and name not in [model.name for model in found]:
                like, revision = (stage.decisions.get(f"{role}_{fact}") for fact in ("like", "revision"))
                found.append(PlannedModel(role, name, like, revision, part.gives == "score"))
        found += _reward_models(stage)
    return found


def _reward_models(stage: BundleStage) -> Iterator[PlannedModel]:
    """The models that the recipe names as judges of answers."""
    judges = ("reward_models", "reward_likes", "reward_revisions")
    for name, like, revision in zip(*(stage.decisions.get(id, ()) for id in judges), strict=True):
        yield PlannedModel("reward model", name, like, revision, scores=True)


def place_models(bundle: Bundle, root: Path, texts: list[str]) -> str:
    """Put every model into the private hub or data root below `root`, and say what they are; raises NoStandIn."""
    policy, *others = models_of(bundle)
    for token in new_tokens_of(bundle.root):  # which its tokenizer cuts into pieces
        texts = [text.replace(token, " ") for text in texts]
    first, marks = bundle.stages[0], marks_of(bundle)
    said, tokenizer = place_model(policy, root, texts, None, weights=not first.method.random_weights, marks=marks)
    beside = {
        model: place_model(model, root, texts, None if model.scores else tokenizer, seed=SEED + count)[0]
        for count, model in enumerate(others, start=1)
    }
    if {said, *beside.values()} == {AS_IT_IS}:
        return AS_IT_IS
    return "; ".join([said, *(f"as {model.role} {its}" for model, its in beside.items())])


def marks_of(bundle: Bundle) -> tuple[str, ...]:
    """What ends turns of the chat template that the bundle trains with: the model's tokenizer is taken to have it, but
    where the bundle adds it."""
    end = bundle.stages[0].decisions["template_end"]
    return (end,) if end and end not in new_tokens_of(bundle.root) else ()


def place_model(
    wanted: PlannedModel,
    root: Path,
    texts: list[str],
    tokenizer: Tokenizer | None,
    weights: bool = True,
    seed: int = SEED,
    marks: tuple[str, ...] = (),
) -> tuple[str, Tokenizer]:
    """Put a model where it is looked for; what it is, and its tokenizer, which is `tokenizer` where that is given.

    A real folder that is whole and tiny is copied. Without weights, loading them fails: the bundle is to make its own.
    """
    real, folder = wanted.real_folder, wanted.folder(root)
    known = known_model(wanted)
    if real is not None and _whole_and_tiny(real):
        from transformers import AutoTokenizer

        its = AutoTokenizer.from_pretrained(real)
        if tokenizer is None or its.get_vocab() == tokenizer.get_vocab():
            shutil.copytree(real, folder)
            return AS_IT_IS, its
    template = _own_template(real) if real else template_text(known.template_family, known.kind)
    own = tokenizer or stand_in_tokenizer(known, texts, template, marks=marks)
    spread = EXPRESSIVE_RANGE if weights else USUAL_RANGE
    said = write_stand_in(known, own, folder, wanted.scores, spread, seed)
    if weights:
        return said, own
    (folder / WEIGHTS).unlink()
    return f"the configuration and tokenizer of {said}; no weights", own


def write_stand_in(
    known: Model,
    tokenizer: Tokenizer,
    folder: Path,
    scores: bool = False,
    spread: float = EXPRESSIVE_RANGE,
    seed: int = SEED,
) -> str:
    """Save a stand-in of `known` with this tokenizer into `folder`; returns what it is.

    `scores`: it gives one number for a sequence. `spread` is the standard deviation of its random weights, `seed` what
    makes them others than those of a model of the same shape.
    """
    with silence():
        import torch
        from transformers import (
            AutoConfig,
            AutoModelForCausalLM,
            AutoModelForImageTextToText,
            AutoModelForSequenceClassification,
        )
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")}
    sizes = stand_in_config(known.architecture, len(tokenizer), spread, **ids)
    config = AutoConfig.for_model(**sizes, **({"num_labels": 1} if scores else {}))
    loader = AutoModelForSequenceClassification if scores else AutoModelForCausalLM
    if known.stored:
        config = AutoConfig.for_model(known.stored.model_type, text_config=sizes, vision_config=VISION)
        config.tie_word_embeddings, loader = sizes["tie_word_embeddings"], AutoModelForImageTextToText
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        try:
            network = loader.from_config(config, dtype=torch.bfloat16)
        except ValueError as error:
            raise NoStandIn(f"{known.name}: transformers has no {loader.__name__} of {config.model_type}") from error
        with silence():
            network.save_pretrained(folder)
        shape = known.architecture
        if shape.moe is not None and shape.moe.stored == MXFP4:
            store_in_mxfp4(folder, spread)
    tokenizer.save_pretrained(folder)
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


def known_model(wanted: PlannedModel) -> Model:
    """What is known about a model: config.json in its folder, or the catalog; raises NoStandIn."""
    folder = wanted.real_folder
    if folder is not None:
        try:
            return local_model(folder)
        except UnsupportedConfig as error:
            raise NoStandIn(f"{folder / 'config.json'}: {error}") from error
    for name in (wanted.name, wanted.like):
        if name and (found := model(name)):
            return found
    try:
        if found := cached_model(wanted.name, wanted.revision):
            return found
    except UnsupportedConfig as error:
        raise NoStandIn(f"{wanted.name}: {error}") from error
    raise NoStandIn(f"`{wanted.name}` is not in the catalog, and the plan does not say what it is like")


def _whole_and_tiny(folder: Path) -> bool:
    """Whether a model folder has weights and a tokenizer and can be used as it is."""
    whole = any(folder.glob("*.safetensors")) and (folder / "tokenizer.json").is_file()
    return whole and sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= _TINY_BYTES


def _own_template(folder: Path) -> str | None:
    """The chat template in a model folder, from its own file or from tokenizer_config.json."""
    file, config = folder / "chat_template.jinja", folder / "tokenizer_config.json"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    found = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
    return found.get("chat_template") if isinstance(found.get("chat_template"), str) else None


def stand_in_config(
    shape: Architecture, vocab_size: int, spread: float = EXPRESSIVE_RANGE, **tokens: int | None
) -> dict[str, Any]:
    """The tiny config.json of `shape`'s model type; `tokens` are its special token ids (pad, bos, eos)."""
    row = MODEL_TYPES[shape.model_type]
    sizes = {
        "model_type": shape.model_type,
        "vocab_size": vocab_size,
        "hidden_size": HIDDEN,
        row.intermediate: INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": kv_heads(shape),
        "head_dim": HEAD_DIM if shape.query_size == shape.hidden_size else 2 * HEAD_DIM,
        "max_position_embeddings": POSITIONS,
        "tie_word_embeddings": shape.tie_embeddings,
        "initializer_range": spread,
    }
    return sizes | flag_keys(shape) | layers(shape, vocab_size) | experts(shape) | tokens


def stand_in_shape(wanted: PlannedModel) -> Architecture:
    """The architecture of a model's stand-in, whose vocabulary is its tokenizer's; raises NoStandIn."""
    return architecture_from_config(stand_in_config(known_model(wanted).architecture, VOCABULARY))


UNKNOWN_TEMPLATE = (  # for templates whose text is not at hand: turns in brackets, no assistant mask
    "{% if tools %}[tools] {{ tools | tojson }}\n{% endif %}"
    "{% for message in messages %}[{{ message['role'] }}] "
    "{% if message.reasoning_content %}<think>{{ message.reasoning_content }}</think>{% endif %}"
    "{{ message['content'] }}{% if message.tool_calls %}{{ message.tool_calls | tojson }}{% endif %}"
    "END\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


def template_text(family: str | None, kind: str) -> str | None:
    """The chat template of a family as the installed TRL knows it, or one in its place that ends turns as it does.

    None for a base model without one.
    """
    if family is None:
        return UNKNOWN_TEMPLATE.replace("END", "{{ eos_token }}") if kind == "chat" else None
    text = resources.files("trl").joinpath("chat_templates", f"{family}.jinja")
    if text.is_file():
        return text.read_text(encoding="utf-8")
    return UNKNOWN_TEMPLATE.replace("END", templates()[family].end)


def template_stands_in(wanted: PlannedModel) -> bool:
    """Whether the model has a chat template whose text is not at hand; raises NoStandIn."""
    if wanted.real_folder is not None:
        return False
    known = known_model(wanted)
    text = template_text(known.template_family, known.kind)
    return text is not None and text.startswith(UNKNOWN_TEMPLATE.partition("END")[0])


def stand_in_tokenizer(
    model: Model,
    texts: Iterable[str],
    template: str | None,
    vocabulary: int = VOCABULARY,
    marks: tuple[str, ...] = (),
) -> Tokenizer:
    """A byte-level tokenizer trained on `texts`, with `template`, its markers and `marks`, and `model`'s stop token."""
    from transformers import PreTrainedTokenizerFast

    stop = model.stop_tokens[0] if model.stop_tokens else _END_OF_TEXT
    found = {_END_OF_TEXT, *marks, *_MARKER.findall(template or "")}  # Qwen2Tokenizer adds the first at loading
    markers = sorted(found - {stop})
    bos = BOS if model.family.startswith(_ADDS_BOS) or "bos_token" in (template or "") else None
    specials = [*filter(None, (PAD, bos, stop)), *markers]
    corpus = [*texts, *[template or ""] * 3]  # the template's own words should not cost a token a letter
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_trained(corpus, specials, vocabulary, bos if model.family.startswith(_ADDS_BOS) else None),
        pad_token=PAD,
        bos_token=bos,
        eos_token=stop,
    )
    tokenizer.chat_template = template
    return tokenizer


def _trained(texts: Iterable[str], specials: list[str], vocabulary: int, leading: str | None):
    """A byte-pair model; `leading` is put before every text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=specials, initial_alphabet=alphabet)
    )
    if leading:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{leading} $A",
            pair=f"{leading} $A {leading} $B",
            special_tokens=[(leading, tokenizer.token_to_id(leading))],
        )
    return tokenizer
