"""Which chat templates write an empty thought, have a mode that gives it, and are written otherwise by TRL."""

from __future__ import annotations

from importlib import resources

import pytest

from recipec.catalog.templates import templates

TEMPLATES = resources.files("trl").joinpath("chat_templates")
FAMILIES = sorted(family for family in templates() if TEMPLATES.joinpath(f"{family}.jinja").is_file())
MARKED = [family for family in FAMILIES if TEMPLATES.joinpath(f"{family}_training.jinja").is_file()]
SPOKEN = "<think>Hm.</think>Write </think> and go on."
ARGUMENTS = {"deepseekv3": "{}"}  # as text, where the template takes no other
ASKED = [{"role": "user", "content": "Why?"}]
TOLD = [*ASKED, {"role": "assistant", "content": "So."}]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_empty_thought_is_what_the_template_writes(family: str) -> None:
    text = rendered(family, TOLD)
    prompt = rendered(family, ASKED, add_generation_prompt=True, enable_thinking=False)
    assert ("</think>" in text and "</think>" in prompt) == templates()[family].empty_thought


@pytest.mark.parametrize("family", MARKED)
def test_what_the_training_version_writes_before_earlier_answers(family: str) -> None:
    own, training = rendered(family, [*TOLD, *TOLD]), rendered(f"{family}_training", [*TOLD, *TOLD])
    assert (training.count("</think>") > own.count("</think>")) == templates()[family].keeps_thoughts


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("said", ["Write the tag </think> and go on.", "It is <think> and </think>.", SPOKEN])
def test_which_templates_cut_an_answer_that_speaks_of_tags(family: str, said: str) -> None:
    texts = [family, *[f"{family}_training"] * (family in MARKED)]
    cut = [said not in rendered(name, [*ASKED, {"role": "assistant", "content": said}]) for name in texts]
    assert all(cut) == templates()[family].cuts


@pytest.mark.parametrize("family", FAMILIES)
def test_which_templates_write_a_thought(family: str) -> None:
    """In a field of its own few do that have no empty thought to write."""
    thought = {"role": "assistant", "reasoning_content": "Hm.", "thinking": "Hm."}  # as transformers hands them on
    told = rendered(family, [*ASKED, {**thought, "content": "So."}])
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "find", "arguments": ARGUMENTS.get(family, {})}}
    called = rendered(family, [*ASKED, {**thought, "content": "", "tool_calls": [call]}])
    tagged = rendered(family, [*ASKED, {"role": "assistant", "content": "<think>\nHm.\n</think>\n\nSo."}])
    known = templates()[family]
    assert ("Hm." in told) == (known.empty_thought or known.told_thoughts == "answers")
    assert ("Hm." in called) == (known.empty_thought or bool(known.told_thoughts))
    assert ("Hm." not in tagged) == templates()[family].drops_thoughts


@pytest.mark.parametrize("family", [family for family in FAMILIES if not templates()[family].alternates])
def test_which_templates_move_the_empty_thought_to_the_last_of_several_answers(family: str) -> None:
    first, both = (rendered(family, [*TOLD, *more]) for more in ([], TOLD[1:]))
    moved = "</think>" in first and first.partition("</think>")[0] not in both
    assert moved == templates()[family].moves_thought


def rendered(name: str, messages: list[dict[str, str]], **mode: bool) -> str:
    from transformers.utils.chat_template_utils import _compile_jinja_template

    template = _compile_jinja_template(TEMPLATES.joinpath(f"{name}.jinja").read_text(encoding="utf-8"))
    return template.render(messages=messages, bos_token="<s>", eos_token="</s>", **mode)
