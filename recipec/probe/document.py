"""Measurements as the TOML file that `hardware.measured` names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from recipec.catalog.measured import FORMAT, SPREAD, TABLES, Table

_HEAD = """\
# What `recipec probe` measured of one machine. A recipe names it: [hardware] measured = "THIS FILE".
# Units are in the names, GB are 10^9 bytes; X_spread: distance of the 10th and 90th percentile, as a share of X.
"""


def document(found: Mapping[str, Any], today: date) -> str:
    """The text of the file; `found` is what `python -m recipec.probe` prints."""
    lines = [_HEAD + f"format = {FORMAT}", f"date = {today.isoformat()}"]
    for name, table in TABLES.items():
        rows = found.get(name, [])
        for row in rows if isinstance(rows, list) else [rows]:
            lines += ["", f"[[{name}]]" if table.many else f"[{name}]", *_lines(table, row)]
    return "\n".join(lines) + "\n"


def _lines(table: Table, row: Mapping[str, Any]) -> Iterator[str]:
    """The keys in the order of the file."""
    for key in table.keys:
        if key in table.figures:
            yield f"{key} = {row[key]['value']:.4g}"
        elif key.endswith(SPREAD):
            yield f"{key} = {row[key.removesuffix(SPREAD)]['spread']:.2g}"
        else:
            yield f"{key} = {_value(row[key])}"


def _value(value: Any) -> str:
    """A value as TOML and JSON both write it."""
    return f"{value:.5g}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
