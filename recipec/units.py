"""Values as people read them: numbers, sizes, times, money and counts. The one home of such printers."""

from __future__ import annotations

from decimal import Decimal
from math import ceil
from typing import Any

KIB, MIB, GIB = 2**10, 2**20, 2**30
TERA = 1e12


def number(value: float) -> str:
    """A number as papers write it: 2e-4, 0.03, 64."""
    if not 0 < abs(value) < 1e-2:
        return f"{value:g}"
    mantissa, exponent = f"{value:e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def counted(count: int, noun: str) -> str:
    """A count with its noun: "1 step", "2,000 steps"."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def percent(share: float) -> str:
    """A share: "12.35%"; with further digits where it is small: "0.00094%"."""
    return f"{share:.2%}" if share >= 1e-3 else f"{100 * share:.5f}".rstrip("0").rstrip(".") + "%"


def shown_share(share: float) -> str:
    """A share as it was written, in percent: "10%", "99.999%", "0.00001%"."""
    text = f"{Decimal(repr(float(share))) * 100:f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}%"


LEAST_TENTH = 0.05  # what is less would be 0.0


def times(ratio: float) -> str:
    """A time against another: "1.4x the time"; "the same time" where the numbers would be equal."""
    digits = 1 if ratio >= LEAST_TENTH else 2
    return "the same time" if f"{ratio:.1f}" == "1.0" else f"{ratio:.{digits}f}x the time"


def value_text(value: Any) -> str:
    """A decision's value: 3e-4, yes, all-linear, q_proj + v_proj, -."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, list | tuple):
        return " + ".join(value_text(entry) for entry in value) or "none"
    return str(value)


def gib(size_bytes: int) -> str:
    """A size: "20.9 GiB"; one that would be 0.0 GiB in smaller units: "31 MiB", "60 KiB"."""
    if size_bytes == 0 or size_bytes >= 0.05 * GIB:
        return f"{size_bytes / GIB:,.1f} GiB"
    return f"{size_bytes / MIB:,.0f} MiB" if size_bytes >= MIB else f"{size_bytes / KIB:,.0f} KiB"


def enough_gib(needed_gib: float) -> str:
    """A size that is needed, rounded up, so that what is told is enough: "34.5 GiB"."""
    return f"{ceil(10 * needed_gib) / 10:,.1f} GiB"


def unlike_gib(one_bytes: int, other_bytes: int) -> tuple[str, str]:
    """Two sizes with as many digits as tell them apart: "70.41 GiB" and "70.38 GiB"."""
    for digits in (1, 2, 3):
        one, other = (f"{size / GIB:,.{digits}f} GiB" for size in (one_bytes, other_bytes))
        if one != other:
            break
    return one, other


def duration(seconds: float) -> str:
    """A time in its two leading units: "44 s", "12 min", "3 h 20 min", "2 d 4 h"."""
    minutes, hours = round(seconds / 60), round(seconds / 3600)
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.2g} s"
    if minutes < 100:
        return f"{minutes} min"
    if hours < 48:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{hours // 24} d {hours % 24} h"


def hourly(amount: float) -> str:
    """A price of an hour: "$2.10"; with all its digits where it has more than cents, "$0.225"."""
    cents = f"{amount:.2f}"
    return f"${cents}" if float(cents) == amount else f"${amount:g}"


def usd(amount: float | None) -> str:
    """An amount of money, or that none is known."""
    return "unknown" if amount is None else f"${amount:,.2f}"
