"""`recipec list`: what the compiler knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from recipec.axes import ADAPTATIONS, LORA_VARIANTS, METHODS, ROW_FORMATS, STRATEGIES
from recipec.axes.adaptations import LORA
from recipec.axes.lora_variants import STANDARD, LoraVariant
from recipec.axes.models import POLICY
from recipec.axes.strategies import SHARDED
from recipec.axes.tasks import methods_with
from recipec.cli.output import formats, print_json, print_table
from recipec.diagnostics.model import Diagnostic
from recipec.units import value_text

SCHEMA_VERSION = 1

Row = dict[str, Any]


def _cell(value: Any) -> str:
    if isinstance(value, tuple) and METHODS.keys() >= set(value) and len(value) > len(METHODS) / 2:
        others = [name for name in METHODS if name not in value]
        return min("all but " * bool(others) + (" + ".join(others) or "all"), " + ".join(value), key=len)
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
            "license": found.licence,
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


def _unbuilt() -> list[Row]:
    from recipec.rules.unbuilt import UNBUILT

    return [{"id": row.id, "title": row.title, "words": row.words, "because": row.why} for row in UNBUILT]


def _figures() -> list[Row]:
    from recipec.figures.pages import figure_rows

    return list(figure_rows())


def _methods() -> list[Row]:
    return [
        {
            "name": row.name,
            "title": row.title,
            "task": row.task,
            "data": row.section,
            "formats": row.formats,
            "other_models": tuple(dict.fromkeys(part.model for part in row.scorings if part.model != POLICY)),
            "adaptations": row.adaptations,
            "trainer": row.trainer,
            "learns": row.learns,
        }
        for row in METHODS.values()
    ]


def _strategies() -> list[Row]:
    return [
        {
            "name": row.name,
            "title": row.title,
            "engine": row.engine,
            "shards": tuple(name for name in SHARDED if name in row.shards),
            "offload": row.offloads,
            "pros": row.pros,
            "cons": row.cons,
        }
        for row in STRATEGIES.values()
    ]


def _adaptations() -> list[Row]:
    rows = [
        {
            "name": row.name,
            "title": row.title,
            "adaptation": row.family,
            "variant": None,
            "quantization": row.base,
            "trains": row.summary,
            "packages": row.packages,
            "methods": tuple(name for name, method in METHODS.items() if row.name in method.adaptations),
            "because": row.because,
        }
        for row in ADAPTATIONS.values()
    ]
    return rows + [_variant(row) for row in LORA_VARIANTS.values() if row is not STANDARD]


def _variant(row: LoraVariant) -> Row:
    """A variant of LoRA, as an adaptation that a recipe names."""
    return {
        "name": row.name,
        "title": row.title,
        "adaptation": LORA.family,
        "variant": row.name,
        "quantization": row.bases,
        "trains": LORA.summary,
        "packages": LORA.packages,
        "methods": methods_with(row),
        "because": row.because,
    }


def _diagnostics() -> list[Row]:
    from recipec.diagnostics.codes import CODES

    return [
        {"code": code, "severity": Diagnostic(code, title).severity.value, "title": title}
        for code, title in CODES.items()
    ]


def _formats() -> list[Row]:
    return [
        {
            "name": row.name,
            "columns": tuple(role.name for role in row.required),
            "optional": tuple(role.name for role in row.roles if not role.required),
            "learned": row.loss_on,
            "methods": tuple(name for name, method in METHODS.items() if row.name in method.formats),
            "recognized_by": row.recognized,
        }
        for row in ROW_FORMATS.values()
    ]


_LISTS: Mapping[str, Callable[[], list[Row]]] = {
    "models": _models,
    "gpus": _gpus,
    "rules": _rules,
    "unbuilt": _unbuilt,
    "figures": _figures,
    "methods": _methods,
    "strategies": _strategies,
    "adaptations": _adaptations,
    "formats": _formats,
    "diagnostics": _diagnostics,
}
# Sentences, which would make a table wider than a terminal: `explain` prints them, and --json has them.
_SENTENCES = ("pros", "cons", "because", "recognized_by", "learns", "words", "formats", "adaptations", "packages")


@click.command("list")
@click.argument("what", type=click.Choice(list(_LISTS)))
@formats("human", "json")
def command(what: str, format: str) -> None:
    """List what recipec knows; figures are those of the rule books, with ours beside them, unbuilt what is not built.

    --json has more columns, and `recipec explain NAME` has the page of a row.
    """
    rows = _LISTS[what]()
    if format == "json":
        print_json({"schema_version": SCHEMA_VERSION, what: rows})
        return
    hidden = (*_SENTENCES, "title") if what == "adaptations" else _SENTENCES  # whose names say as much
    shown = [{name: value for name, value in row.items() if name not in hidden} for row in rows]
    cells = [
        [name.replace("_", " ") for name in shown[0]],
        *([_cell(value) for value in row.values()] for row in shown),
    ]
    numbers = [index for index, value in enumerate(shown[0].values()) if isinstance(value, int | float)]
    print_table(cells, numbers)
