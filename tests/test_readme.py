"""What the README shows is true."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from recipec.catalog.gpus import gpu_names
from recipec.cli.group import recipec
from recipec.compiler import compile_recipe

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_recipe_in_the_readme_compiles(tmp_path: Path) -> None:
    recipe = re.search(r"```toml\n(.*?)```", README, re.DOTALL)
    assert recipe
    (tmp_path / "recipe.toml").write_text(recipe[1])
    (tmp_path / "data").mkdir()
    rows = (ROOT / "recipes" / "data" / "support_chat.jsonl").read_text(encoding="utf-8")
    (tmp_path / "data" / "support_chat.jsonl").write_text(rows, encoding="utf-8")

    assert compile_recipe(tmp_path / "recipe.toml").files


def test_the_commands_in_the_readme_exist() -> None:
    for command in set(re.findall(r"^recipec (\w+)", README, re.MULTILINE)):
        assert CliRunner().invoke(recipec, [command, "--help"]).exit_code == 0, command


def test_the_counts_in_the_readme_are_those_of_the_catalog() -> None:
    models = len(list((ROOT / "recipec" / "catalog" / "models").glob("*.toml")))

    for what, count in (("models", models), ("GPUs", len(gpu_names()))):
        told = re.search(rf"\| {what} \| more than (\d+) of the catalog", README)
        assert told and int(told[1]) < count <= int(told[1]) + 20, f"{count} {what}"


def test_links_in_the_readme_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / link).exists(), link


def test_the_plan_in_the_readme_is_what_the_command_prints() -> None:
    shown = re.search(r"answers before anything is downloaded:\n\n```text\n(.*?)```", README, re.DOTALL)
    assert shown
    printed = CliRunner().invoke(recipec, ["plan", str(ROOT / "recipes" / "support-chat.toml")]).output
    for part in shown[1].split("  ...\n"):
        assert part in printed
