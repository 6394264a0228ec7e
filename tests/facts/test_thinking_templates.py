"""Which families' chat templates write an empty thought, and have a mode that puts it into the prompt."""

from __future__ import annotations

from importlib import resources

import pytest

from recipec.catalog.models import models
from recipec.facts.conversations import EMPTY_THOUGHTS

TEMPLATES = resources.files("trl").joinpath("chat_templates")
KNOWN = {row.template_family for row in models() if row.template_family} | {*EMPTY_THOUGHTS}
FAMILIES = sorted(family for family in KNOWN if TEMPLATES.joinpath(f"{family}.jinja").is_file())


@pytest.mark.parametrize("family", FAMILIES)
def test_the_empty_thought_is_what_the_template_writes(family: str) -> None:
    from transformers.utils.chat_template_utils import _compile_jinja_template

    template = _compile_jinja_template(TEMPLATES.joinpath(f"{family}.jinja").read_text(encoding="utf-8"))
    asked = [{"role": "user", "content": "Why?"}]
    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    text = template.render(messages=[*asked, {"role": "assistant", "content": "So."}], **tokens)
    prompt = template.render(messages=asked, add_generation_prompt=True, enable_thinking=False, **tokens)
    assert ("</think>" in text and "</think>" in prompt) == (family in EMPTY_THOUGHTS)
