"""The exact plan as people read it."""

from __future__ import annotations

from recipec.simulate.view import exact_text

GIB = 2**30


def test_the_forward_is_compared_with_where_the_formula_has_its_peak() -> None:
    """The last layer runs at the end of it: the formula counts that as the forward's end."""
    simulated = {"seconds": 2.0, "peak_stage": "forward", "peak_allocated_bytes": 18 * GIB, "terms": {}, "notes": []}
    formula = {"peak_stage": "forward_end", "peak_allocated_bytes": 17 * GIB}
    stage = {
        "name": "sft",
        "simulated": simulated | {"stages": {"forward": 18 * GIB, "forward_end": 16 * GIB, "loss": 15 * GIB}},
        "formula": formula | {"stages": {"forward": 6 * GIB, "forward_end": 17 * GIB, "loss": 14 * GIB}},
        "difference": -1 / 18,
        "usable_bytes": 27 * GIB,
    }
    lines = exact_text({"stages": [stage], "versions": {"torch": "2"}}).splitlines()
    assert [line.split() for line in lines[2:4]] == [
        ["forward", "18.00", "GiB", "17.00", "GiB", "peak"],
        ["loss", "15.00", "GiB", "14.00", "GiB"],
    ]
