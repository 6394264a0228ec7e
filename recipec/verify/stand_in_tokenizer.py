"""A small tokenizer with the chat template and the special tokens of a model's family."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import resources
from typing import TYPE_CHECKING

from recipec.catalog.models import Model

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

VOCABULARY = 768  # 256 bytes, the markers, and what the sample's words need
PAD, BOS = "<|stand-in-pad|>", "<|stand-in-bos|>"
_MARKER = re.compile(r"<[|｜][^<>\s'\"]+?[|｜]>|</?[a-z][a-z_]*>")
_ADDS_BOS = ("llama", "mistral", "mixtral", "gemma")  # families whose tokenizers put a token before every text
_END_OF_TEXT = "<|endoftext|>"


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
