"""The chat templates that bundles bring: of every answer its text and the token that ends it are learned, no more."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key

pytestmark = pytest.mark.executes

TALK = [
    {"role": "user", "content": "Which boat?"},
    {"role": "assistant", "content": "The blue one."},
    {"role": "user", "content": "Why?"},
    {"role": "assistant", "content": "It floats.\n"},
]
LEARNED = {
    "plain": (" The blue one.</s>", " It floats.\n</s>"),
    "chatml": ("The blue one.<|im_end|>", "It floats.\n<|im_end|>"),
}
WHOLE = {
    "plain": "<s>User: Which boat?\nAssistant: The blue one.</s>\nUser: Why?\nAssistant: It floats.\n</s>",
    "chatml": "<s><|im_start|>user\nWhich boat?<|im_end|>\n<|im_start|>assistant\nThe blue one.<|im_end|>\n"
    "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\nIt floats.\n<|im_end|>",
}


@pytest.mark.parametrize("name", LEARNED)
def test_an_answer_is_learned_to_the_token_that_ends_it(tmp_path: Path, name: str) -> None:
    from transformers.utils.chat_template_utils import render_jinja_template

    recipe = with_key(with_key(BASES["lora-single"], "model.name", "EleutherAI/pythia-1b"), "data.template", name)
    template = texts(good(tmp_path, recipe))["chat_template.jinja"]
    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    shown, marked = render_jinja_template([TALK], chat_template=template, return_assistant_tokens_mask=True, **tokens)
    assert shown == [WHOLE[name]]
    assert tuple(shown[0][start:end] for start, end in marked[0]) == LEARNED[name]
    (asked,), _ = render_jinja_template([TALK[:1]], chat_template=template, add_generation_prompt=True, **tokens)
    assert WHOLE[name].startswith(asked)
