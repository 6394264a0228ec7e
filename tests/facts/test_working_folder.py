"""A path that is typed as seen from the shell's folder is answered with the path from the recipe's folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recipec.compiler import compile_recipe

RECIPE = """
[recipe]
name = "case"
[goal]
task = "{task}"
[model]
name = "{model}"
[data]
{data}
[hardware]
gpu = "h100"
"""
CHATS = [
    {"messages": [{"role": "user", "content": f"{n}?"}, {"role": "assistant", "content": f"{n}."}]} for n in range(40)
]


def helps(folder: Path, monkeypatch: pytest.MonkeyPatch, more: str = "", **values: str) -> tuple[str, tuple[str, ...]]:
    """The code and the help of the first finding about a recipe in a folder below that of the shell."""
    values = {"task": "instruct", "model": "Qwen/Qwen3-8B", "data": 'train = "../data/rows.jsonl"'} | values
    (folder / "data").mkdir()
    (folder / "recipes").mkdir()
    (folder / "data/rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in CHATS))
    (folder / "data/prompts.jsonl").write_text("".join(f'{{"prompt": "{n}?"}}\n' for n in range(40)))
    (folder / "data/rewards.py").write_text("def score(completions, **kwargs):\n    return [0.0] * len(completions)\n")
    (folder / "recipes/recipe.toml").write_text(RECIPE.format(**values) + more)
    monkeypatch.chdir(folder)
    finding = compile_recipe(Path("recipes/recipe.toml")).diagnostics[0]
    return finding.code, finding.help


def instead(wrong: str, right: str) -> str:
    return f"write `{right}` instead of `{wrong}`: paths start at the recipe's folder, not at that of your shell"


@pytest.mark.parametrize("name", ["data/rows.jsonl", "./data/rows.jsonl", "data/*.jsonl"])
def test_a_data_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    code, help = helps(tmp_path, monkeypatch, data=f'train = "{name}"')
    assert (code, help) == ("E0303", (instead(name, f"../data/{name.rpartition('/')[2]}"),))


def test_a_file_of_rewards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = '[alignment]\nmethod = "grpo"\nreward = "data/rewards.py:score"\n'
    found = helps(tmp_path, monkeypatch, more, task="align", data='prompts = "../data/prompts.jsonl"')
    assert found == ("E0310", (instead("data/rewards.py", "../data/rewards.py"),))


@pytest.mark.parametrize("name", ["./models/mine", "models/of/mine"])
def test_a_folder_of_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / name).mkdir(parents=True)
    plain = name.removeprefix("./")
    code, help = helps(tmp_path, monkeypatch, model=name)
    assert help == (instead(f"./{plain}", f"../{plain}"),)
    assert code in ("E0301", "E0306")


def test_a_file_that_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the shell's folder has no such file either, the Hub may, or another machine."""
    code, help = helps(tmp_path, monkeypatch, data='train = "owner/rows"')
    assert (code, len(help)) == ("E0303", 2)
    assert "if the rows are on another machine" in help[1]
    assert "paths start at" not in " ".join(help)


@pytest.mark.parametrize("share", ["10%", "0.1", "10 %"])
def test_a_share_in_quotes_is_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: str) -> None:
    code, help = helps(tmp_path, monkeypatch, data=f'train = "../data/rows.jsonl"\neval = "{share}"')
    assert (code, help) == ("E0303", ("set `data.eval_fraction = 0.1`",))
