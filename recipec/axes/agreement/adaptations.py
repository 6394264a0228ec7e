"""What an adaptation says of its base, of the adaptation above it, and of what it trains."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.axes.adaptations import ADAPTATIONS, ADAPTER_OFF, BASES, REFERENCES, Adaptation
from recipec.axes.agreement.names import unknown


def of_adaptation(adaptation: Adaptation) -> Iterator[str]:
    """The contradictions of one adaptation."""
    row = f"adaptation `{adaptation.name}`"
    yield from unknown(row, "base", [adaptation.base], BASES, "the bases")
    yield from unknown(row, "reference", [adaptation.reference], REFERENCES, "what can serve as reference")
    yield from unknown(row, "above", [adaptation.above] * bool(adaptation.above), ADAPTATIONS, "the adaptations")
    asked = adaptation.family, adaptation.base
    same = [other.name for other in ADAPTATIONS.values() if (other.family, other.base) == asked]
    if same != [adaptation.name]:
        yield f"{row}: family `{adaptation.family}` and base `{adaptation.base}` mean all of {', '.join(same)}"
    yield from _of_whole(row, adaptation) if adaptation.trains_all else _of_adapter(row, adaptation)
    yield from _of_circle(row, adaptation)


def _of_whole(row: str, adaptation: Adaptation) -> Iterator[str]:
    """Where every weight is trained, nothing is left of an adapter and of what lies below it."""
    if adaptation.reference == ADAPTER_OFF:
        yield f"{row} trains every weight, and its reference `{ADAPTER_OFF}` is the model without an adapter"
    if adaptation.quantized:
        yield f"{row} trains every weight, and base `{adaptation.base}` is quantized and stays frozen"
    for field in ("config", "table"):
        if getattr(adaptation, field):
            yield f"{row} trains every weight, and its {field} `{getattr(adaptation, field)}` is of an adapter"


def _of_adapter(row: str, adaptation: Adaptation) -> Iterator[str]:
    """An adapter is of a class of a package, and the rules decide what the keys of its table say."""
    for field in ("config", "table", "packages"):
        if not getattr(adaptation, field):
            yield f"{row} trains an adapter, and its {field} is empty"


def _of_circle(row: str, adaptation: Adaptation) -> Iterator[str]:
    """Every step up leads to a larger one, so none comes back."""
    passed, above = [adaptation.name], adaptation.above
    while above in ADAPTATIONS and above not in passed:
        passed.append(above)
        above = ADAPTATIONS[above].above
    if above == adaptation.name:
        yield f"{row}: above leads back to it, by way of {', '.join([*passed[1:], above])}"
