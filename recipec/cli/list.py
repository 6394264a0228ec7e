"""`recipec list`: what the compiler knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from recipec.cli.output import formats, print_json, print_table
from recipec.cli.words import value_text

SCHEMA_VERSION = 1

Row = dict[str, Any]


@click.command("list")
@click.argument("what", type=click.Choice(["models", "gpus", "rules", "figures", "methods", "strategies"]))
@formats("human", "json")
def command(what: str, format: str) -> None:
    """List models, GPUs, rules, figures of the rule books with ours beside them, methods or strategies."""
    rows = _LISTS[what]()
    if format == "json":
        print_json({"schema_version": SCHEMA_VERSION, what: rows})
        return
    cells = [[name.replace("_", " ") for name in rows[0]], *([_cell(value) for value in row.values()] for row in rows)]
    numbers = [index for index, value in enumerate(rows[0].values()) if isinstance(value, int | float)]
    print_table(cells, numbers)


def _cell(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else value_text(value)


def _models() -> list[Row]:
    from recipec.catalog.models import models

    return [
        {
            "name": found.name,
            "family": found.family,
            "parameters_billion": round(found.architecture.params / 1e9, 2),
            "active_billion": round(found.architecture.active_params / 1e9, 2),
            "context": found.architecture.max_position,
            "kind": found.kind,
            "licence": found.licence,
        }
        for found in models()
    ]


def _gpus() -> list[Row]:
    from recipec.catalog.gpus import gpu, gpu_names
    from recipec.catalog.prices import price

    gpus = [found for name in gpu_names() if (found := gpu(name))]
    return [
        {
            "name": found.name,
            "memory_gib": found.memory_gib,
            "bf16_tflops": found.bf16_tflops,
            "bandwidth_gb_s": found.bandwidth_gb_s,
            "usd_per_hour": cost.usd_per_hour if (cost := price(found.name)) else None,
            "kind": found.kind,
        }
        for found in gpus
    ]


def _rules() -> list[Row]:
    from recipec.rules import RULES

    rules = sorted(RULES.values(), key=lambda rule: rule.id)
    return [{"id": rule.id, "decides": rule.decides, "key": rule.key, "title": rule.title} for rule in rules]


def _figures() -> list[Row]:
    from recipec.figures.pages import figure_rows

    return list(figure_rows())


def _methods() -> list[Row]:
    from recipec.axes import METHODS

    return [
        {"name": method.name, "title": method.title, "trainer": method.trainer, "learns": method.learns}
        for method in METHODS.values()
    ]


def _strategies() -> list[Row]:
    from recipec.axes import STRATEGIES

    return [{"name": row.name, "title": row.title} for row in STRATEGIES.values()]


_LISTS: Mapping[str, Callable[[], list[Row]]] = {
    "models": _models,
    "gpus": _gpus,
    "rules": _rules,
    "figures": _figures,
    "methods": _methods,
    "strategies": _strategies,
}
