"""What the catalog says of chat templates: true of the texts that the pinned TRL has, and of their models."""

from __future__ import annotations

from datetime import date
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from jinja2.exceptions import TemplateError
from transformers.utils.chat_template_utils import _compile_jinja_template as compile_template

from recipec.catalog.models import models
from recipec.catalog.templates import BEFORE_ANSWER, BESIDE_CALLS, LOST, SHOWN, SYSTEMS, template_with, templates

SPEC = find_spec("trl")
TEXTS = Path(SPEC.origin).parent / "chat_templates" if SPEC and SPEC.origin else Path()
IN_TRL = [name for name in templates() if (TEXTS / f"{name}.jinja").is_file()]


@pytest.mark.parametrize("name", templates())
def test_a_template_states_where_it_was_read(name: str) -> None:
    found = templates()[name]
    assert found.marks in ("trl", "turns", "none") and found.system in SYSTEMS
    assert found.beside_call in BESIDE_CALLS
    assert found.source and found.end and date(2026, 11, 1) <= found.checked <= date.today()
    assert all(len(digest) == 64 for digest in found.sha256)


@pytest.mark.parametrize("name", IN_TRL)
def test_what_trl_has_is_as_the_catalog_says(name: str) -> None:
    text = (TEXTS / f"{name}.jinja").read_text(encoding="utf-8")
    found = templates()[name]
    assert sha256(text.encode()).hexdigest() in found.sha256
    assert (found.marks == "trl") == (TEXTS / f"{name}_training.jinja").is_file()
    assert found.end in text
    assert template_with(text) == name
    assert template_with(f"{text} ") is None


@pytest.mark.parametrize("name", IN_TRL)
def test_which_turns_a_template_takes_is_as_the_catalog_says(name: str) -> None:
    text = (TEXTS / f"{name}.jinja").read_text(encoding="utf-8")
    user, assistant, system = ({"role": role, "content": "said"} for role in ("user", "assistant", "system"))
    found = templates()[name]
    assert takes(text, [user, assistant])
    assert (found.system == "refused") is not takes(text, [system, user, assistant])
    assert found.alternates is not takes(text, [user, user, assistant])


USER, SAID = ({"role": role, "content": text} for role, text in (("user", "asked"), ("assistant", "said")))
RESULT = {"role": "tool", "content": "31", "tool_call_id": "call-first"}


def called(*tools: str, text: str = "") -> dict[str, Any]:
    calls = [
        {"id": f"call-{tool}", "type": "function", "function": {"name": f"{tool}_tool", "arguments": {"a": 1}}}
        for tool in tools
    ]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def written(name: str, *turns: dict[str, Any]) -> str:
    """What a template makes of messages; "" where it refuses them, or stops at them."""
    text = (TEXTS / f"{name}.jinja").read_text(encoding="utf-8")
    try:
        return compile_template(text).render(messages=turns, bos_token="<s>", eos_token="</s>")
    except (TemplateError, TypeError):
        return ""


WITH_TOOLS = [name for name in IN_TRL if templates()[name].tools]


@pytest.mark.parametrize("name", WITH_TOOLS)
def test_whether_a_template_writes_every_call_of_a_message_is_as_the_catalog_says(name: str) -> None:
    assert ("second_tool" in written(name, USER, called("first", "second"))) is not templates()[name].one_call


@pytest.mark.parametrize("name", WITH_TOOLS)
def test_what_becomes_of_a_text_beside_a_call_is_as_the_catalog_says(name: str) -> None:
    beside, told = called("first", text="I look."), templates()[name].beside_call
    assert ("I look." in written(name, USER, beside)) is (told != LOST)
    assert ("I look." in written(name, USER, beside, RESULT, SAID)) is (told == SHOWN)
    assert ("I look." in written(name, USER, beside, RESULT, called("second"))) is (told != LOST)
    assert told in (SHOWN, LOST, BEFORE_ANSWER)
    assert "I look." in written(name, USER, {**SAID, "content": "I look."}, called("first"), RESULT, SAID)


@pytest.mark.parametrize("name", IN_TRL)
def test_whether_a_template_writes_calls_is_as_the_catalog_says(name: str) -> None:
    assert ("first_tool" in written(name, USER, called("first"))) is not templates()[name].no_calls


@pytest.mark.parametrize("name", [name for name in IN_TRL if templates()[name].system == SHOWN])
def test_whether_a_system_message_must_be_the_first_is_as_the_catalog_says(name: str) -> None:
    told, late = ({"role": "system", "content": text} for text in ("Be kind.", "Be brief."))
    assert "Be kind." in written(name, told, USER, SAID)
    texts = (written(name, told, late, USER, SAID), written(name, USER, SAID, late, USER, SAID))
    assert all("Be brief." in text for text in texts) is not templates()[name].system_first


@pytest.mark.parametrize("name", IN_TRL)
def test_what_ends_an_answer_stands_behind_it_or_the_catalog_says_that_nothing_does(name: str) -> None:
    text = (TEXTS / f"{name}.jinja").read_text(encoding="utf-8")
    asked, said = {"role": "user", "content": "asked"}, {"role": "assistant", "content": "said"}
    written = compile_template(text).render(messages=[asked, said], bos_token="<s>", eos_token="</s>")
    assert written.rstrip().endswith("said") is templates()[name].unended


@pytest.mark.executes
@pytest.mark.parametrize("name", IN_TRL)
def test_whose_calls_the_trainer_reads_is_as_the_catalog_says(name: str) -> None:
    """What GRPOTrainer asks of a template with tools; a tokenizer of bytes renders and cuts as any other."""
    from trl import chat_template_utils as trl

    tokenizer = tokenizer_of_bytes()
    tokenizer.chat_template = (TEXTS / f"{name}.jinja").read_text(encoding="utf-8")
    able = trl.supports_tool_calling(tokenizer)
    try:
        able = able and bool(trl.add_response_schema(tokenizer))
        able = able and (trl.is_chat_template_prefix_preserving(tokenizer) or bool(training_text(tokenizer)))
    except ValueError:
        able = False
    assert templates()[name].tools is able


def training_text(tokenizer: Any) -> str | None:
    from trl.chat_template_utils import get_training_chat_template

    return get_training_chat_template(tokenizer)


def tokenizer_of_bytes() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE(vocab={letter: place for place, letter in enumerate(alphabet)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|im_end|>", bos_token="<s>", pad_token="<pad>")


def takes(text: str, turns: list[dict[str, str]]) -> bool:
    try:
        compile_template(text).render(messages=turns, bos_token="<s>", eos_token="</s>")
    except TemplateError:
        return False
    return True


def test_what_trl_marks_is_in_trl() -> None:
    assert {name for name, found in templates().items() if found.marks == "trl"} <= set(IN_TRL)


@pytest.mark.parametrize("model", [found for found in models() if found.template], ids=lambda found: found.name)
def test_a_chat_model_stops_where_its_turns_end_and_a_base_model_does_not(model) -> None:
    assert (model.template.end in model.stop_tokens) == (model.kind == "chat")


def test_every_template_of_a_model_is_known_and_every_known_one_in_trl_or_used() -> None:
    used = {found.template_family for found in models() if found.template_family}
    assert used <= set(templates())
    assert set(templates()) - used <= set(IN_TRL)
