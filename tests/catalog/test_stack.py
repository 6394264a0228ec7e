"""What a bundle can import is installed by the packages that it pins."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, packages_distributions, requires

import pytest
from packaging.requirements import Requirement

from recipec.catalog.stack import modules, stack


def brought(package: str, seen: set[str]) -> None:
    """Add the package and everything that pip installs with it."""
    name = re.sub(r"[-_.]+", "-", package).lower()
    if name in seen:
        return
    seen.add(name)
    for line in requires(name) or []:
        wanted = Requirement(line)
        if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
            brought(wanted.name, seen)


def test_what_reward_files_may_import_comes_with_the_packages_of_every_bundle() -> None:
    installed: set[str] = set()
    try:
        for package in ("torch", "transformers", "trl", "accelerate", "datasets"):
            brought(package, installed)
    except PackageNotFoundError as missing:
        pytest.skip(f"not installed: {missing}")
    homes = packages_distributions()
    for module in modules() - stack().keys():
        assert {re.sub(r"[-_.]+", "-", home).lower() for home in homes[module]} & installed, module
