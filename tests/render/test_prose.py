"""Words stay words: in a shell command, in Markdown, in a comment, in a docstring."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from literal_values import HOSTILE, texts
from markdown_it import MarkdownIt

from recipec.render import prose
from recipec.render.traced import Raw, Traced, visible


def words(text: str) -> list[str]:
    return re.split(r"[ \t\n]+", text.strip(" \t\n"))


@settings(max_examples=25)
@given(values=st.lists(texts, min_size=10, max_size=40))
def test_shell_words_reach_the_program(values: list[str]) -> None:
    script = f"printf '%s\\0' {prose.sh(values)}"
    out = subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout
    assert out.decode().split("\0")[:-1] == values


def test_hostile_shell_words_reach_the_program() -> None:
    for shell in ("bash", "sh"):
        script = f"printf '%s\\0' {prose.sh(list(HOSTILE))}"
        out = subprocess.run([shell, "-c", script], capture_output=True, check=True).stdout
        assert out.decode().split("\0")[:-1] == list(HOSTILE)


@pytest.mark.parametrize(
    ("value", "word"),
    [("a-b/c.d:1", "a-b/c.d:1"), ("A=1", "'A=1'"), ("~", "'~'"), (2, "2"), (2e-4, "2e-4"), (True, "true")],
)
def test_shell_words_are_plain_when_safe(value: Any, word: str) -> None:
    assert prose.sh(value) == word


def shown(tokens: list[Any]) -> str:
    inline = next(token for token in tokens if token.type == "inline")
    return "".join(child.content for child in inline.children)


SHAPES = ["{}", "# {}", "| {} |\n|---|", "before {} after", "- {}", "> {}"]


@pytest.mark.parametrize("shape", SHAPES)
@given(text=texts)
def test_markdown_shows_the_text(shape: str, text: str) -> None:
    expected = " ".join(words(text))
    if not expected:
        return
    tokens = MarkdownIt("gfm-like", {"linkify": False, "html": True}).parse(shape.format(prose.md(text)))
    before, after = ("before ", " after") if "before" in shape else ("", "")

    assert shown(tokens) == before + expected + after


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("learning_rate", "learning_rate"),
        ("a & b", "a & b"),
        ("2.5", "2.5"),
        ("-5", "-5"),
        ("a|b", r"a\|b"),
        ("C#", r"C\#"),
        ("$1.61", "$1.61"),
        ("$x$", r"\$x\$"),
    ],
)
def test_markdown_stays_readable(text: str, markdown: str) -> None:
    assert prose.md(text) == markdown


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("raise `train.lora.rank`, not a_b", "raise `train.lora.rank`, not a_b"),
        ('set `a_b = "x*y"` or *c*', r'set `a_b = "x*y"` or \*c\*'),
        ("about $1.61: 2 hours at $0.80", "about $1.61: 2 hours at $0.80"),
        ("$x$ and $1$", r"\$x\$ and $1\$"),
        ("one ` alone", r"one \` alone"),
        ("a `b|c` d", r"a \`b\|c\` d"),
    ],
)
def test_a_sentence_keeps_its_code_and_its_money(text: str, markdown: str) -> None:
    assert prose.sentence(text) == markdown


@pytest.mark.parametrize("shape", SHAPES)
@given(text=texts)
def test_a_sentence_shows_the_text(shape: str, text: str) -> None:
    """But for the backticks of its code."""
    expected = " ".join(words(text))
    if not expected:
        return
    tokens = MarkdownIt("gfm-like", {"linkify": False, "html": True}).parse(shape.format(prose.sentence(text)))
    before, after = ("before ", " after") if "before" in shape else ("", "")
    seen = (before + expected + after).replace("`", "").replace(" ", "")
    assert shown(tokens).replace("`", "").replace(" ", "") == seen


def test_markdown_joins_a_list() -> None:
    assert visible(prose.md([Traced("q_proj", "a"), "v_proj"])) == "q_proj, v_proj"


@given(text=texts)
def test_comment_is_one_line_in_every_language(text: str) -> None:
    line = prose.comment(text)
    source = f"x = 1  # {line}\ny = 2\n"

    assert not set(line) & set("\n\r\t\x0b\x0c\x85\u2028\u2029")
    comments = [t for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type == tokenize.COMMENT]
    assert [t.string for t in comments] == [f"# {line}".rstrip()] or not line.strip()
    assert yaml.safe_load(f"x: 1  # {line}\ny: 2\n") == {"x": 1, "y": 2}


@pytest.mark.parametrize("shape", ['"""{}"""', '"""Trains {}."""', '"""\n    {}\n    """', '"""{} ""x"""'])
@given(text=texts)
def test_docstring_holds_the_words(shape: str, text: str) -> None:
    before, after = shape[3:-3].split("{}")
    back = ast.literal_eval(shape.format(prose.docstring(text)))
    assert back == before + " ".join(words(text)) + after


@given(text=texts)
def test_wrapped_docstring_holds_the_words(text: str) -> None:
    back = ast.literal_eval(f'"""{prose.docstring(text, width=60, indent=4)}"""')
    assert words(back) == words(text)


@pytest.mark.parametrize("write", [prose.sh, prose.md, prose.comment, prose.docstring])
@given(text=texts)
def test_marks_change_no_text(write: Any, text: str) -> None:
    assert visible(write(Traced(text, "id"))) == write(text)


@pytest.mark.parametrize("write", [prose.sh, prose.md, prose.comment, prose.docstring])
def test_what_is_not_text_is_a_bug(write: Any) -> None:
    with pytest.raises(TypeError):
        write({"a": 1})


def test_names_are_safe_words() -> None:
    assert prose.name("configs/fsdp.yaml") == "configs/fsdp.yaml"
    for text in ("", "a b", "$HOME", "-x", "a\n", "a'b"):
        with pytest.raises(AssertionError):
            prose.name(text)


def test_code_is_chosen_in_python() -> None:
    assert visible(prose.code(Traced(Raw("x = 1"), "id"))) == "x = 1"
    for value in ("x = 1", Traced("x = 1", "id")):
        with pytest.raises(TypeError):
            prose.code(value)
