"""Two shallow runs continued to the model's depth."""

from __future__ import annotations

from recipec.simulate.depth import extrapolate, shallow
from recipec.simulate.meter import Peak


def run(layers: int, operation: str = "mm") -> dict[str, Peak]:
    """A step in which layer i has i layers below it and every layer keeps ten bytes."""
    sites = {f"forward:{i}": Peak(100 + 10 * i, {"activations": 10 * i}, "mul") for i in range(layers)}
    return {**sites, "loss": Peak(100 + 10 * layers, {"activations": 10 * layers}, operation)}


def test_both_ends_and_the_whole_are_affine_in_the_depth():
    peaks, moved = extrapolate(shallow(2, run(2)), shallow(3, run(3)), 32)
    assert (peaks["loss"].total, peaks["loss"].terms) == (420, {"activations": 320})
    assert (peaks["forward:0"].total, peaks["forward:-1"].total) == (100, 410)
    assert moved == []


def test_two_layers_at_each_end_of_deeper_runs():
    peaks, _ = extrapolate(shallow(4, run(4)), shallow(5, run(5)), 32)
    ends = {site: peak.total for site, peak in peaks.items() if site != "loss"}
    assert ends == {"forward:0": 100, "forward:1": 110, "forward:-2": 400, "forward:-1": 410}


def test_a_site_that_peaks_at_another_operation_is_named():
    _, moved = extrapolate(shallow(2, run(2)), shallow(3, run(3, "cat")), 32)
    assert moved == ["loss"]
