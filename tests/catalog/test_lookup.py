"""Suggestions, the pinned stack, and what importing the catalog may load."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from recipec.catalog.gpus import gpu_names
from recipec.catalog.lookup import nearest
from recipec.catalog.models import model_names
from recipec.catalog.stack import requirements, stack

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("Qwen/Qwen3-8b-Bse", "Qwen/Qwen3-8B-Base"),
        ("meta-llama/Llama-3.1-8B-instuct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("llama3.1-8b", "meta-llama/Llama-3.1-8B"),
        ("unsloth/Qwen2.5-7B-bnb-4bit", "Qwen/Qwen2.5-7B"),
        ("mistral-7b", "mistralai/Mistral-7B-v0.1"),
        ("google/gemma2-9b", "google/gemma-2-9b"),
    ],
)
def test_the_nearest_model_shares_family_and_size(name: str, first: str) -> None:
    assert nearest(name, model_names())[0] == first


def test_nothing_is_suggested_for_what_resembles_nothing() -> None:
    assert nearest("frobnicate", model_names()) == []
    assert nearest("Qwen/Qwen3-8B", []) == []


def test_the_nearest_gpu_and_the_number_of_suggestions() -> None:
    assert nearest("rtx-4091", gpu_names())[0] == "rtx-4090"
    assert len(nearest("Qwen/Qwen3-9B", model_names(), n=2)) == 2


def test_the_project_pins_the_stack() -> None:
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["verify"]
    exact = dict(requirement.split("==") for requirement in extra if "==" in requirement)
    assert exact
    assert exact == {name: stack()[name] for name in exact}
    framework = {"torch", "transformers", "trl", "peft", "accelerate", "deepspeed", "datasets", "bitsandbytes"}
    assert framework <= exact.keys()


def test_every_pin_is_exact() -> None:
    assert all(re.fullmatch(r"[a-z]+==\d+(\.\d+)+", pin) for pin in requirements(stack()))
    assert requirements(["trl", "torch"]) == (f"torch=={stack()['torch']}", f"trl=={stack()['trl']}")


def test_a_package_outside_the_stack_is_a_bug() -> None:
    with pytest.raises(KeyError, match="not in the stack: left-pad"):
        requirements(["torch", "left-pad"])


def test_importing_the_catalog_loads_no_framework() -> None:
    modules = sorted(path.stem for path in (ROOT / "recipec" / "catalog").glob("*.py") if path.stem != "__init__")
    imports = "; ".join(f"import recipec.catalog.{module}" for module in modules)
    heavy = "{'torch', 'transformers', 'trl', 'pydantic', 'difflib'} & sys.modules.keys()"
    loaded = subprocess.run([sys.executable, "-c", f"import sys; {imports}; print(*{heavy})"], capture_output=True)
    assert (loaded.returncode, loaded.stdout.split()) == (0, [])
