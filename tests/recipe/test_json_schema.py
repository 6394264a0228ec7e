"""The published JSON Schema: fresh, draft-07, and understood by a linter that is not ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from recipec.recipe.json_schema import COMMITTED, recipe_json_schema, schema_text
from recipes import BASE

TOMBI = Path(sys.executable).with_name("tombi")
SHARED = "[hardware]\ngpu = 'h100'\n[policy]\nmax_gpus = 2\n"
BAD = {
    "unknown key": (BASE + "[train]\nlearning_rte = 1e-4\n", "learning_rte"),
    "unknown table": (BASE + "[trian]\nepochs = 1\n", "trian"),
    "unknown key of a source": (BASE.replace('"train.jsonl"', '{pth = "a"}'), "pth"),
    "wrong type": (BASE + "[train]\nepochs = 'three'\n", "found String"),
    "not one of the values": (BASE.replace("instruct", "instrct"), "instrct"),
    "out of range": (BASE + "[train]\nlearning_rate = 1\n", "1"),
    "no task": (BASE.replace('task = "instruct"', ""), "task"),
}


def test_the_committed_schema_is_fresh() -> None:
    assert COMMITTED.read_text(encoding="utf-8") == schema_text(), "run python -m recipec.recipe.json_schema"


def test_the_schema_is_draft_07() -> None:
    schema = recipe_json_schema()
    jsonschema.Draft7Validator.check_schema(schema)
    assert not {"prefixItems", "$defs", "null"} & set(_words(schema))


def test_every_key_has_a_title_a_description_and_examples() -> None:
    for name, definition in recipe_json_schema()["definitions"].items():
        for key, schema in definition.get("properties", {}).items():
            assert {"title", "description", "examples"} <= schema.keys(), f"{name}.{key}"


@pytest.mark.parametrize("text", [BASE, SHARED], ids=["a recipe", "a shared part"])
def test_the_linter_accepts(tmp_path: Path, text: str) -> None:
    assert _lint(tmp_path, text) == (0, "")


@pytest.mark.parametrize(("text", "word"), BAD.values(), ids=BAD.keys())
def test_the_linter_refuses(tmp_path: Path, text: str, word: str) -> None:
    code, said = _lint(tmp_path, text)
    assert code == 1 and word in said


def _lint(folder: Path, text: str) -> tuple[int, str]:
    """Lint a recipe as an editor would: the schema named in its first line, nothing from the network."""
    recipe = folder / "recipe.toml"
    recipe.write_text(f"#:schema {COMMITTED}\n{text}")
    command = [TOMBI, "lint", "--offline", "--quiet", "--error-on-warnings", recipe.name]
    done = subprocess.run(command, cwd=folder, env={"NO_COLOR": "1"}, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def _words(node: object) -> list[str]:
    if isinstance(node, dict):
        return [word for key, value in node.items() for word in (key, *_words(value))]
    if isinstance(node, list):
        return [word for entry in node for word in _words(entry)]
    return [node] if isinstance(node, str) else []
