"""What the loss of CPO decides of its other hyperparameters, and what the recipe then still may set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key

OWN = ("cpo_beta", "cpo_gamma", "nll_weight")


def _decided(folder: Path, **keys: Any) -> tuple[float, ...]:
    recipe = with_key(BASES["cpo"], "alignment", {"method": "cpo", **keys})
    plan = compiled(folder, recipe, only_plan=True).plan
    assert plan
    return tuple(plan.stages[-1].decisions[name].value for name in OWN)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, (0.1, 0.0, 1.0)),
        ({"loss": "simpo"}, (2.0, 1.0, 0.0)),
        ({"loss": "simpo", "beta": 2.5}, (2.5, 1.25, 0.0)),
        ({"loss": "simpo", "gamma": 0.4, "nll_weight": 0.05}, (2.0, 0.4, 0.05)),
        ({"gamma": 0.4, "nll_weight": 0}, (0.1, 0.4, 0.0)),
    ],
)
def test_the_loss_decides_what_the_recipe_does_not(
    tmp_path: Path, keys: dict[str, Any], expected: tuple[float, ...]
) -> None:
    assert _decided(tmp_path, **keys) == expected


def test_a_beta_of_the_other_loss_is_warned_about(tmp_path: Path) -> None:
    recipe = with_key(BASES["cpo"], "alignment", {"method": "cpo", "loss": "simpo", "beta": 0.1})
    assert [
        str(finding) for finding in compiled(tmp_path, recipe, only_plan=True).diagnostics if "beta" in str(finding)
    ]


@pytest.mark.parametrize("key", ["gamma", "nll_weight"])
def test_other_methods_refuse_its_keys(tmp_path: Path, key: str) -> None:
    recipe = with_key(BASES["dpo-full"], f"alignment.{key}", 0.3)
    [finding] = compiled(tmp_path, recipe, only_plan=True).diagnostics
    assert (finding.code, finding.title) == ("E0401", f"`alignment.{key}` belongs to cpo")
