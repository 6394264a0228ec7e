"""Bundles for the tests of verification, built once each from the recipes that tests/execution runs."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from recipec.bundle.build import write_bundle
from recipec.compiler import compile_recipe
from recipec.verify.bundle import Bundle, read_bundle

_SHARED = TemporaryDirectory(prefix="recipec-test-")
RECIPES = Path(__file__).parents[1] / "execution" / "recipes"


@cache
def built(name: str) -> Path:
    """The folder of the bundle of a recipe; shared, so not to be changed."""
    done = compile_recipe(RECIPES / f"{name}.toml")
    assert done.lock is not None, done.diagnostics
    out = Path(_SHARED.name) / name
    write_bundle(out, done.files, done.plan_json, done.lock)
    return out


def copy_of(name: str, folder: Path) -> Bundle:
    """A bundle of one's own, to be damaged."""
    return read_bundle(Path(shutil.copytree(built(name), folder / name)))
