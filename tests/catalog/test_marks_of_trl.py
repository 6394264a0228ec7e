"""Chat templates that TRL marks: their training version is the model's own text and marks what the assistant says."""

from __future__ import annotations

from importlib import resources

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from recipec.catalog.templates import BY_TRL, SHOWN, templates

MARKED = [name for name, found in templates().items() if found.marks == BY_TRL]
BETWEEN = {"gptoss": "<|end|>"}  # what ends an answer that another turn follows, where it is not what ends the last
CLOSING = {"cohere2": "<|END_RESPONSE|>"}  # what closes an answer before its turn ends
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def rendered(name: str, talk: list[dict[str, str]]) -> tuple[str, list[str]]:
    """The text of a conversation and the stretches of it that are marked."""
    text = resources.files("trl").joinpath("chat_templates", f"{name}.jinja").read_text(encoding="utf-8")
    (whole,), (spans,) = render_jinja_template([talk], chat_template=text, return_assistant_tokens_mask=True, **TOKENS)
    return whole, [whole[begin:end] for begin, end in spans]


def conversations(name: str) -> list[list[dict[str, str]]]:
    """Of one to three exchanges, with a system prompt too where the template shows one; Ünïcode, breaks and markup."""
    told = [[], [{"role": "system", "content": "told <b>"}]] if templates()[name].system == SHOWN else [[]]
    return [first + exchanges(count) for first in told for count in (1, 2, 3)]


def exchanges(count: int) -> list[dict[str, str]]:
    texts = [(f"asked {n}\n\n日本 {{{{ x }}}}", f"said {n} <b>\n\nÜnïcode") for n in range(count)]
    roles = ("user", "assistant")
    return [{"role": role, "content": text} for pair in texts for role, text in zip(roles, pair, strict=True)]


@pytest.mark.parametrize("name", MARKED)
def test_the_training_version_is_the_text_of_the_model_to_the_byte(name: str) -> None:
    """But for what the catalog says: an end behind the last answer, and empty thoughts before earlier ones."""
    found = templates()[name]
    for talk in conversations(name):
        own, trained = rendered(name, talk)[0], rendered(f"{name}_training", talk)[0]
        assert trained == own + found.end * found.unended or (found.keeps_thoughts and trained.count("<think>") > 1)


@pytest.mark.parametrize("name", MARKED)
def test_only_templates_that_are_said_to_keep_thoughts_differ_in_them(name: str) -> None:
    talk = exchanges(3)
    thoughts = [rendered(version, talk)[0].count("<think>") for version in (name, f"{name}_training")]
    assert (thoughts[0] != thoughts[1]) == templates()[name].keeps_thoughts


@pytest.mark.parametrize("name", MARKED)
def test_every_answer_is_marked_with_its_end_and_nothing_that_others_say(name: str) -> None:
    for talk in conversations(name):
        spans = rendered(f"{name}_training", talk)[1]
        answers = [turn["content"] for turn in talk if turn["role"] == "assistant"]
        ends = [BETWEEN.get(name, templates()[name].end)] * (len(answers) - 1) + [templates()[name].end]
        behind = spans[len(answers) :]
        assert behind in ([], [TOKENS["eos_token"]])
        for answer, end, span in zip(answers, ends, spans, strict=False):
            assert span.rstrip("\n").endswith(answer + CLOSING.get(name, "") + end)
        assert len(spans) >= len(answers) and "asked" not in "".join(spans) and "told" not in "".join(spans)
