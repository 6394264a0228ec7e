"""The four axes as data: methods, strategies, adaptations and row formats. Nothing outside compares their names."""

from recipec.axes.adaptations import ADAPTATIONS, BASES, Adaptation, adaptation_of
from recipec.axes.method import Default, Method, Own, Pass
from recipec.axes.methods import METHODS
from recipec.axes.row_formats import KINDS, ROW_FORMATS, Kind, Role, RowFormat
from recipec.axes.strategies import STRATEGIES, Strategy

__all__ = [
    "ADAPTATIONS",
    "BASES",
    "KINDS",
    "METHODS",
    "ROW_FORMATS",
    "STRATEGIES",
    "Adaptation",
    "Default",
    "Kind",
    "Method",
    "Own",
    "Pass",
    "Role",
    "RowFormat",
    "Strategy",
    "adaptation_of",
]
