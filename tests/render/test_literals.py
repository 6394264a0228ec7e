"""Every literal reads back as the same data in its own language, and keeps its marks."""

from __future__ import annotations

import ast
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from literal_values import HOSTILE, nested, numbers, scalars, texts

from recipec.render import literals, prose
from recipec.render.traced import Raw, Traced, plain, split, visible

READERS = {
    "py": (literals.py, ast.literal_eval),
    "json": (literals.json, json.loads),
    "yaml": (literals.yaml, yaml.safe_load),
}


@pytest.mark.parametrize("language", READERS)
@given(value=nested(scalars))
def test_reads_back(language: str, value: Any) -> None:
    write, read = READERS[language]
    back = read(write(value))
    assert back == value
    assert repr(back) == repr(value)  # 1 is not True, 1.0 is not 1, -0.0 is not 0.0


@given(value=st.tuples(scalars) | st.tuples(scalars, scalars) | st.just(()))
def test_tuples_stay_tuples_in_python(value: tuple[Any, ...]) -> None:
    assert repr(ast.literal_eval(literals.py(value))) == repr(value)


@pytest.mark.parametrize("language", READERS)
@given(value=nested(scalars | st.builds(Traced, scalars, st.sampled_from(["a", "b"]))))
def test_marks_change_no_text(language: str, value: Any) -> None:
    write, _ = READERS[language]
    assert visible(write(value)) == write(plain(value))


@given(value=numbers)
def test_number_is_shortest(value: float) -> None:
    assert float(literals.number(value)) == value
    assert len(literals.number(value)) <= len(repr(value)) + 1  # 2e-4 for 0.0002, 1.5e-4 for 0.00015


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2e-4, "2e-4"), (2e-5, "2e-5"), (1.5e-4, "1.5e-4"), (0.05, "0.05"), (1.0, "1.0"), (0.0, "0.0"), (1e16, "1e16"),
        (1e-3, "0.001"), (-2e-4, "-2e-4"), (1e22, "1e22"), (100_000, "100_000"), (99_999, "99999"), (True, "True"),
        (-1_234_567, "-1_234_567"), ("a", '"a"'), ('say "x"', "'say \"x\"'"), ("it's", '"it\'s"'), ((1,), "(1,)"),
        ({"a": [1, None]}, '{"a": [1, None]}'), (Raw("torch.bfloat16"), "torch.bfloat16"),
    ],
)  # fmt: skip
def test_python_is_as_people_write_it(value: Any, text: str) -> None:
    assert literals.py(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("no", '"no"'),
        ("NCCL_DEBUG", "NCCL_DEBUG"),
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        (2e-4, "2.0e-4"),
        ("1e5", '"1e5"'),
    ],
)
def test_yaml_is_as_people_write_it(value: Any, text: str) -> None:
    assert literals.yaml(value) == text


@given(text=texts, width=st.integers(40, 110))
def test_long_python_strings_are_broken_into_parts(text: str, width: int) -> None:
    assert ast.literal_eval(literals.py(text, width=width)) == text


def test_broken_string_keeps_to_the_width() -> None:
    lines = literals.py("some words " * 30, width=100, indent=4).splitlines()

    assert len(lines) > 3
    assert max(map(len, lines)) <= 100
    assert lines[1].startswith('        "') and lines[-1] == "    )"


@pytest.mark.parametrize("text", ["\0", "\x1b", "\r", "\x85", "\ue000", "\ufdd0", "\U0001ffff", "\ud800", "\U000f0000"])
@pytest.mark.parametrize(
    "write", [literals.py, literals.json, literals.yaml, prose.sh, prose.md, prose.comment, prose.docstring]
)
def test_refused_characters_are_a_bug(write: Any, text: str) -> None:
    with pytest.raises(AssertionError):
        write(f"a{text}b")


@pytest.mark.parametrize("write", [literals.py, literals.json, literals.yaml])
def test_what_has_no_literal_is_a_bug(write: Any) -> None:
    with pytest.raises(TypeError):
        write({1, 2})
    with pytest.raises(AssertionError):
        write(float("nan"))


def test_ruff_leaves_python_literals_alone(tmp_path: Path) -> None:
    lines = [f"x = {literals.py(text)}\n" for text in HOSTILE if len(text) < 100]
    lines += [f"x = {literals.py(value)}\n" for value in (2e-4, 1e16, -0.0, 1_000_000, (1,), {"a": [1, (2, 3)]}, [])]
    (tmp_path / "x.py").write_text("".join(lines), encoding="utf-8")

    check = subprocess.run(["ruff", "format", "--check", "--line-length=120", "x.py"], cwd=tmp_path, check=False)
    assert check.returncode == 0


def test_marks_of_a_filtered_value_give_its_line() -> None:
    text, lines = split("a\n" + literals.py([Traced(1, "one"), Traced("two", "two")]) + "\nb\n")

    assert text == 'a\n[1, "two"]\nb\n'
    assert lines == {2: ("one", "two")}
