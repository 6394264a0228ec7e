"""From two shallow runs to the model's depth: every site is affine in the number of layers.

A layer that is not running adds a constant to a site, whatever operation the site peaks at, so the peak of a site
stays at one operation. Where two depths disagree about that operation, the caller runs the full depth instead.
"""

from __future__ import annotations

from msgspec import Struct

from recipec.simulate.meter import Peak


class Shallow(Struct, frozen=True):
    """The sites of one shallow run, by their distance from the ends of the model."""

    layers: int
    sites: dict[str, Peak]


def shallow(layers: int, peaks: dict[str, Peak]) -> Shallow:
    """Name the sites of layers by both ends: "forward:0" and "forward:-3" are the same layer of three."""
    sites: dict[str, Peak] = {}
    for site, peak in peaks.items():
        moment, _, index = site.rpartition(":")
        if not index.isdigit():
            sites[site] = peak
            continue
        sites[f"{moment}:{index}"] = peak
        sites[f"{moment}:{int(index) - layers}"] = peak
    return Shallow(layers, sites)


def extrapolate(first: Shallow, second: Shallow, layers: int) -> tuple[dict[str, Peak], list[str]]:
    """(site -> peak at `layers` layers, the sites that peak at different operations in the two runs)."""
    common = [site for site in first.sites if site in second.sites and _stays(site, first.layers)]
    moved = [site for site in common if first.sites[site].operation != second.sites[site].operation]
    span, rest = second.layers - first.layers, layers - first.layers
    return {site: _line(first.sites[site], second.sites[site], rest / span) for site in common}, moved


def _stays(site: str, layers: int) -> bool:
    """Near its end: the first half counts from below, the second from above."""
    index = site.rpartition(":")[2]
    if not index.lstrip("-").isdigit():
        return True
    half = -(-layers // 2)
    return int(index) < half if int(index) >= 0 else -int(index) <= half


def _line(first: Peak, second: Peak, steps: float) -> Peak:
    def at(a: int, b: int) -> int:
        return round(a + (b - a) * steps)

    names = {**first.terms, **second.terms}
    terms = {name: at(first.terms.get(name, 0), second.terms.get(name, 0)) for name in names}
    return Peak(at(first.total, second.total), terms, second.operation)
