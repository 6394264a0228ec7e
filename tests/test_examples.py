"""The shipped recipes compile to the committed bundles, file for file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recipec.axes import METHODS
from recipec.bundle.build import write_bundle
from recipec.compiler import compile_recipe

ROOT = Path(__file__).parent.parent
PRESETS = {"team"}  # extended by others, not a recipe by itself
RECIPES = sorted(path for path in (ROOT / "recipes").glob("*.toml") if path.stem not in PRESETS)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_the_committed_bundle_is_what_the_recipe_compiles_to(recipe: Path, request: pytest.FixtureRequest) -> None:
    out = ROOT / "generated-examples" / recipe.stem
    compilation = compile_recipe(recipe, out=out)
    assert not compilation.diagnostics
    update = request.config.getoption("--update-golden")

    result = write_bundle(
        out, compilation.files, compilation.plan_json, compilation.lock, force=update, check=not update
    )

    accept = "python -m pytest tests/test_examples.py --update-golden"
    changed = [f"{change.action} {change.path}" for change in result.changes if change.action != "unchanged"]
    assert update or result.exit_code == 0, f"{changed}; to accept: {accept}"


def test_every_method_has_a_recipe_that_is_named_after_it_or_runs_it() -> None:
    """A recipe with a method's name ends with that method; every method is shipped."""
    plans = {path.stem: ROOT / "generated-examples" / path.stem / ".recipec" / "plan.json" for path in RECIPES}
    read = {name: json.loads(plan.read_text())["stages"] for name, plan in plans.items()}
    stages = {name: [stage["objective"] for stage in found] for name, found in read.items()}
    assert {name for found in stages.values() for name in found} == METHODS.keys()
    assert {name: stages[name][-1] for name in stages if name in METHODS} == {n: n for n in stages if n in METHODS}


def test_every_example_has_its_recipe() -> None:
    assert {path.name for path in (ROOT / "generated-examples").iterdir()} == {path.stem for path in RECIPES}
