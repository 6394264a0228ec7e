"""How a value of a recipe is said in a sentence."""

from typing import Any


def shown(value: Any, *, bare: bool = False) -> str:
    """Say what a value is: `the string "x"`, `the number 3`, `a list`; only the number itself when `bare`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'the string "{short(value)}"'
    if isinstance(value, int | float):
        written = str(value) if isinstance(value, float) and value.is_integer() else number(value)  # 3.0 is no 3
        return written if bare else f"the number {written}"
    if isinstance(value, dict):
        return "a table"
    return "a list" if isinstance(value, list) else "a date or time"


def number(value: float) -> str:
    """Write a number as a recipe would."""
    return f"{value:_}" if isinstance(value, int) and abs(value) >= 10_000 else f"{value:.12g}"


def short(text: str) -> str:
    """The beginning of a long text."""
    return text if len(text) <= 40 else f"{text[:39]}…"
