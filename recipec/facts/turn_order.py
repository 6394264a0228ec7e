"""Sampled conversations whose turns the chat template of the training refuses (E0304)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle

from recipec.axes import KINDS, ROW_FORMATS
from recipec.catalog.templates import BEFORE_LAST, REFUSED, SHOWN, Template
from recipec.dataset import Converted, DataShape, Message
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.sources import SampledSource
from recipec.recipe import LoadedRecipe

_SYSTEM, _TOOL = "system", "tool"  # roles
_SYSTEM_REFUSED = "a system message, which the template refuses"
_ORDER = "where the template asks for turns that alternate"
_CALLS = "calls of tools, of which the template writes one alone"
_RESULT = "the result of a tool, and the template writes no tools"
_SYSTEM_AND_MORE = "a system message and several questions: the template shows it before the last question alone"


def against_turns(
    loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource], template: Template | None
) -> Iterator[Diagnostic]:
    """Yield E0304 where the template takes no system message, several calls or turns in another order, as rows have."""
    if template is None or not (template.system != SHOWN or template.alternates or template.one_call):
        return
    found = {place: said for source in sources for place, said in _refused(loaded, source, template)}
    if found:
        first = next(iter(found))
        count = f"{len(found)} of {sum(len(source.rows) for source in sources)} sampled rows of data.{section}"
        labels = [Label(loaded.place("data", section), f"{first}: {found[first]}")]
        if loaded.is_set("data", "system"):
            labels.append(Label(loaded.place("data", "system"), "the system message of rows without one"))
        title = f"the model's chat template {'cannot write' if template.one_call else 'refuses'} {count}"
        yield Diagnostic("E0304", title, tuple(labels), tuple(_ways_out(set(found.values()))))


def _refused(loaded: LoadedRecipe, source: SampledSource, template: Template) -> Iterator[tuple[str, str]]:
    """The places of rows that cannot be rendered, and why."""
    if not ROW_FORMATS[source.shape.format].turns:
        return
    given = bool(loaded.recipe.data.system)
    for place, made in zip(source.places, source.made, strict=True):
        faults = (_fault(turns, template) for turns in _conversations(made, source.shape, given))
        if fault := next(filter(None, faults), ""):
            yield place, fault


def _conversations(made: Converted, shape: DataShape, given: bool) -> Iterator[list[Message]]:
    """The messages of each conversation of a row; `given`: the recipe has a system prompt for all."""
    for taught in KINDS[ROW_FORMATS[shape.format].kind].taught or ("",):
        turns = [*made.get("prompt", ()), *made.get(taught, ())]
        yield [{"role": _SYSTEM}] * (given and all(turn["role"] != _SYSTEM for turn in turns[:1])) + turns


def _fault(turns: Sequence[Message], template: Template) -> str:
    """What the template refuses; "" where it takes the turns."""
    roles = [turn["role"] for turn in turns]
    if _SYSTEM in roles and template.system == REFUSED:
        return _SYSTEM_REFUSED
    if _SYSTEM in roles and template.system == BEFORE_LAST and roles.count("user") > 1:
        return _SYSTEM_AND_MORE
    if template.one_call and (several := next(_several_calls(turns), "")):
        return several
    for (number, role), wanted in zip(_counted(turns, template), cycle(("user", "assistant"))):
        if role == _TOOL:
            return f"message {number} is {_RESULT}"
        if role != wanted:
            return f"message {number} is of the {role}, {_ORDER}"
    return ""


def _several_calls(turns: Sequence[Message]) -> Iterator[str]:
    for number, turn in enumerate(turns, 1):
        if (calls := len(turn.get("tool_calls", ()))) > 1:
            yield f"message {number} has {calls} {_CALLS}"


def _counted(turns: Sequence[Message], template: Template) -> list[tuple[int, str]]:
    """The turns that must alternate, each with the number of its message and who speaks; none where none must."""
    if not template.alternates:
        return []
    spoken = [(number, turn) for number, turn in enumerate(turns, 1) if turn["role"] != _SYSTEM]
    return [(number, turn["role"]) for number, turn in spoken if not (template.passes_calls and _is_of_tools(turn))]


def _is_of_tools(turn: Message) -> bool:
    return turn["role"] == _TOOL or "tool_calls" in turn


def _ways_out(faults: set[str]) -> Iterator[str]:
    if faults & {_SYSTEM_REFUSED, _SYSTEM_AND_MORE}:
        yield "write what the system message says into the first question, and leave out `data.system`"
    if any(fault.endswith(_CALLS) for fault in faults):
        yield "write each call into a message of its own, and the result of a call behind it"
    if any(fault.endswith(_RESULT) for fault in faults):
        yield "end conversations before their first call, or leave those with tools out"
    if any(fault.endswith(_ORDER) for fault in faults):
        yield "join messages that follow each other from the same speaker, and begin with the user's"
    yield "or begin with a model whose template takes them, or bring a template of your own: `data.template`"
