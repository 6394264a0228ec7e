"""marked_template.jinja: the text of the model's own chat template to the byte, and what the assistant says marked."""

from __future__ import annotations

import random
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, good, texts, with_key
from emitted_modules import load

from recipec.catalog.templates import templates

pytestmark = pytest.mark.executes

MARKED_BY_BUNDLE = with_key(BASES["lora-single"], "model.name", "meta-llama/Llama-3.1-8B-Instruct")
WORDS = ["boat", "<b>", "{{ messages }}", "{% raw %}", "end.\n\n", "assistant", "Ünïcode 日本 🙂", "user\n", "</s>"]
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}


@cache
def in_trl(name: str) -> str:
    return resources.files("trl").joinpath("chat_templates", f"{name}.jinja").read_text(encoding="utf-8")


def of_a_base_model() -> str:
    """Qwen 2.5: that of the chat models with another default system prompt."""
    theirs = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
    text = in_trl("qwen2_5")
    assert text.count(theirs) == 2
    return text.replace(theirs, "You are a helpful assistant.")


TURN = "{% if m.role == 'assistant' %}<a>{{ m.content }}</s>"
ELSE = "{% elif m.role == 'user' %}<u>{{ m.content }}{% else %}<i>{{ m.content }}{% endif %}"
ASK = "{% if add_generation_prompt %}<a>{% endif %}"
# What real templates do, in the fewest words: name -> text.
CONSTRUCTIONS = {
    "plain": f"{{% for m in messages %}}{TURN}{ELSE}{{% endfor %}}{ASK}",
    "a break behind an answer, but the last": (
        f"{{% for m in messages %}}{TURN}{{{{ '' if loop.last else '\n' }}}}{ELSE}{{% endfor %}}{ASK}"
    ),
    "no prompt for an answer": f"{{% for m in messages %}}{TURN}{ELSE}{{% endfor %}}",
    "lines of their own": (
        "\n{% for m in messages %}\n  {% if m.role == 'assistant' %}\n<a>{{ m.content }}{{ eos_token }}\n"
        "  {% else %}\n<{{ m.role }}>{{ m.content }}\n  {% endif %}\n{% endfor %}\n  {% if add_generation_prompt %}\n"
        "<a>{% endif %}\n"
    ),
    "the system prompt in the first question": (
        "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% set told = messages[0].content %}"
        "{% else %}{% set rest = messages %}{% set told = false %}{% endif %}{% for m in rest %}"
        "{% if loop.index0 == 0 and told != false %}{% set said = told + m.content %}{% else %}"
        "{% set said = m.content %}{% endif %}{% if m.role == 'user' %}{{ bos_token + '[' + said.strip() + ']' }}"
        "{% else %}{{ ' ' + said.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
    ),
    "variables, macros and tools that may be undefined": (
        "{%- if not tools is defined %}{%- set tools = none %}{%- endif %}{%- set ns = namespace(n=0) %}"
        "{%- macro head(role) %}<{{ role }} {{ ns.n }}>{% endmacro %}{{- bos_token }}{%- for message in messages %}"
        "{%- set ns.n = ns.n + 1 %}{{- head(message.role) + message.content | trim + eos_token }}{%- endfor %}"
        "{%- if add_generation_prompt %}{%- set ns.n = ns.n + 1 %}{{- head('assistant') }}{%- endif %}\n\n"
    ),
    "an end and a break behind every answer": (
        f"{{% for m in messages %}}{TURN.replace('</s>', '<end>')}\n{ELSE}{{% endfor %}}{ASK}"
    ),
}
KNOWN = {
    name: lambda name=name: in_trl(name) for name in ("llama3_1", "llama3_2", "llama3", "gemma3", "cohere2", "lfm2")
}
GEMMA4 = ["gemma4", *(f"gemma4_v{revision}" for revision in range(2, 6))]
KNOWN |= {name: lambda name=name: in_trl(name) for name in GEMMA4}
KNOWN["qwen2_5_base"] = of_a_base_model
# What is written otherwise when turns follow: name -> text.
NOT_MARKED = {
    "the end of the text behind the last turn": (
        f"{{% for m in messages %}}{TURN.replace('</s>', '<end>')}{ELSE}{{% endfor %}}"
        "{% if add_generation_prompt %}<a>{% else %}{{ eos_token }}{% endif %}"
    ),
    "a thought in the last answer only": (
        "{% for m in messages %}<{{ m.role }}>{{ '<think></think>' if loop.last and m.role == 'assistant' else '' }}"
        "{{ m.content }}</s>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
    ),
    "the system prompt in the last question": (
        "{% for m in messages if m.role != 'system' %}<{{ m.role }}>"
        "{{ messages[0].content if loop.last and m.role == 'user' else '' }}{{ m.content }}</s>{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    ),
}


def conversations(count: int, seed: int = 0) -> list[list[dict[str, str]]]:
    """Of one to four exchanges, every other with a system prompt; some begin and end with white space."""
    rng = random.Random(seed)

    def text() -> str:
        return rng.choice(["", " ", "\n"]) + " ".join(rng.choices(WORDS, k=rng.randint(1, 6))) + rng.choice(["", "\n"])

    def talk(number: int) -> list[dict[str, str]]:
        roles = ["system"] * (number % 2) + ["user", "assistant"] * rng.randint(1, 4)
        return [{"role": role, "content": text()} for role in roles]

    return [talk(number) for number in range(count)]


@pytest.fixture(scope="module")
def marks(tmp_path_factory: pytest.TempPathFactory) -> str:
    return texts(good(tmp_path_factory.mktemp("bundle"), MARKED_BY_BUNDLE))["marked_template.jinja"]


def tokenizer(template: str) -> Any:
    """One token for each byte, and tokens that end a turn."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({letter: place for place, letter in enumerate(letters)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    found = PreTrainedTokenizerFast(tokenizer_object=inner, **SPECIAL, chat_template=template)
    ends = sorted({known.end for known in templates().values()} - {"</s>"})
    found.add_tokens([AddedToken(end, special=True) for end in ends])
    return found


def marked(marks: str, own: str) -> str:
    """As rows.py and prepare_data.py put them together."""
    return marks.replace("OWN_TEMPLATE", own.removesuffix("\n"))


def spans(template: str, talk: list[dict[str, str]]) -> tuple[str, list[str]]:
    """The text of a conversation and the stretches of it that are marked."""
    from transformers.utils.chat_template_utils import render_jinja_template

    rendered, indices = render_jinja_template(
        [talk], chat_template=template, return_assistant_tokens_mask=True, **SPECIAL
    )
    return rendered[0], [rendered[0][start:end] for start, end in indices[0]]


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("name", [*CONSTRUCTIONS, *KNOWN])
def test_the_text_is_the_model_s_own_to_the_byte(marks: str, name: str, asks: bool) -> None:
    own = CONSTRUCTIONS[name] if name in CONSTRUCTIONS else KNOWN[name]()
    words = tokenizer(own)
    for talk in conversations(200):
        said = {"tokenize": False, "add_generation_prompt": asks}
        whole = words.apply_chat_template(talk, **said)
        assert words.apply_chat_template(talk, chat_template=marked(marks, own), **said) == whole


@pytest.mark.parametrize("name", ["llama3", "gemma3", "cohere2", "lfm2"])
def test_what_is_marked_is_what_trl_marks_where_it_knows_the_template(marks: str, name: str) -> None:
    for talk in conversations(200):
        assert spans(marked(marks, in_trl(name)), talk) == spans(in_trl(f"{name}_training"), talk)


@pytest.mark.parametrize("name", ["llama3_1", "llama3_2", "qwen2_5_base", *GEMMA4])
def test_the_mask_is_right_to_the_token(marks: str, name: str) -> None:
    """The tokens of every answer with the one that ends it, none of the header and none of what others say."""
    words, end = tokenizer(KNOWN[name]()), templates()[name.partition("_v")[0]].end
    for talk in conversations(100):
        tokens = words.apply_chat_template(
            talk,
            chat_template=marked(marks, words.chat_template),
            return_dict=True,
            return_assistant_tokens_mask=True,
        )
        learned = [token for token, mask in zip(tokens["input_ids"], tokens["assistant_masks"], strict=True) if mask]
        answers = [turn["content"] for turn in talk if turn["role"] == "assistant"]
        trimmed, behind = "qwen" not in name, "" if "llama" in name else "\n"
        written = [f"{answer.strip() if trimmed else answer}{end}{behind}" for answer in answers]
        assert words.decode(learned) == "".join(written)
        assert learned.count(words.convert_tokens_to_ids(end)) == len(answers)


@pytest.mark.parametrize("name", [*CONSTRUCTIONS, *KNOWN])
def test_the_end_of_a_turn_is_learned(marks: str, name: str) -> None:
    from trl.chat_template_utils import is_chat_template_stop_token_trained

    own = (CONSTRUCTIONS[name] if name in CONSTRUCTIONS else KNOWN[name]()).replace("<end>", "<|im_end|>")
    assert is_chat_template_stop_token_trained(tokenizer(own), marked(marks, own))


@pytest.mark.parametrize("name", NOT_MARKED)
def test_an_answer_that_is_written_otherwise_when_turns_follow_is_refused(marks: str, name: str) -> None:
    from jinja2 import TemplateError

    own = NOT_MARKED[name]
    [talk] = [talk for talk in conversations(40) if len(talk) > 6 and talk[0]["role"] == "system"][:1]
    with pytest.raises(TemplateError, match="writes an answer otherwise when turns follow"):
        spans(marked(marks, own), talk)


def test_rows_are_learned_as_they_are_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """rows.py marks the template that the tokenizer has, and leaves the tokenizer as it is."""
    bundle = texts(good(tmp_path / "recipe", MARKED_BY_BUNDLE))
    for name in ("rows.py", "marked_template.jinja"):
        (tmp_path / name).write_text(bundle[name])
    rows, words = load(tmp_path / "rows.py", monkeypatch), tokenizer(in_trl("llama3_1"))
    talk = [{"role": role, "content": text} for role, text in (("user", "Why?"), ("assistant", " Because. "))]
    tokens, mask = rows.encode({"messages": talk}, words)
    learned = [token for token, counts in zip(tokens, mask, strict=True) if counts]
    assert words.decode(learned) == "Because.<|eot_id|>"
    assert tokens[: -len(learned)] == rows.opening({"messages": talk}, words)
    assert words.chat_template == in_trl("llama3_1")


def test_the_result_is_saved_with_the_model_s_own_template(tmp_path: Path) -> None:
    lines = [line.strip() for line in texts(good(tmp_path, MARKED_BY_BUNDLE))["train.py"].splitlines()]
    places = [
        lines.index("own_template = tokenizer.chat_template"),
        lines.index("tokenizer.chat_template = marked(tokenizer)"),
        lines.index("trainer = SFTTrainer("),
        lines.index("tokenizer.chat_template = own_template  # the result keeps the model's"),
        lines.index("trainer.train(resume_from_checkpoint=checkpoint)"),
    ]
    assert places == sorted(places)
