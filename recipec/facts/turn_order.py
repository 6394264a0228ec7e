"""Sampled conversations whose turns the chat template of the training refuses, or does not write (E0304)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle

from recipec.axes import KINDS, ROW_FORMATS
from recipec.catalog.templates import BEFORE_ANSWER, BEFORE_LAST, LOST, REFUSED, SHOWN, Template
from recipec.dataset import Converted, DataShape, Message
from recipec.dataset.contents import parted
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.sources import SampledSource
from recipec.recipe import LoadedRecipe

_SYSTEM, _TOOL = "system", "tool"  # roles
_GIVEN: Message = {"role": _SYSTEM}  # the system message of the recipe, which no row has
_SYSTEM_REFUSED = "a system message, which the template refuses"
_ORDER = "where the template asks for turns that alternate"
_CALLS = "calls of tools, of which the template writes one alone"
_NO_TOOLS = "and the template writes no tools"
_BESIDE = "has a text beside a call of a tool, which the template leaves out"
_BESIDE_BEFORE = f"{_BESIDE} where an answer follows"
_NOT_FIRST = "is a system message, which the template writes as the first message alone"
_SYSTEM_AND_MORE = "a system message and several questions: the template shows it before the last question alone"
_UNWRITTEN = (_CALLS, _NO_TOOLS, _BESIDE, _BESIDE_BEFORE, _NOT_FIRST)
_Numbered = Sequence[tuple[int, Message]]  # messages, each with its number in the row


def against_turns(
    loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource], template: Template | None
) -> Iterator[Diagnostic]:
    """Yield E0304 where the template refuses sampled rows, or leaves out what they say, each named by its message."""
    if template is None:
        return
    found = {place: said for source in sources for place, said in _refused(loaded, source, template)}
    if found:
        first = next(iter(found))
        count = f"{len(found)} of {sum(len(source.rows) for source in sources)} sampled rows of data.{section}"
        labels = [Label(loaded.place("data", section), f"{first}: {found[first]}")]
        if loaded.is_set("data", "system"):
            labels.append(Label(loaded.place("data", "system"), "the system message of rows without one"))
        does = "cannot write" if any(said.endswith(_UNWRITTEN) for said in found.values()) else "refuses"
        help = tuple(_ways_out(set(found.values()), template))
        yield Diagnostic("E0304", f"the model's chat template {does} {count}", tuple(labels), help)


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
        yield [_GIVEN] * (given and all(turn["role"] != _SYSTEM for turn in turns[:1])) + turns


def _fault(turns: Sequence[Message], template: Template) -> str:
    """What the template refuses or leaves out first; "" where it takes the turns."""
    numbered = [*enumerate(turns, 0 if turns[:1] == [_GIVEN] else 1)]
    faults = (_of_system(numbered, template), _of_calls(numbered, template), _of_order(numbered, template))
    return next((said for found in faults for said in found), "")


def _of_system(turns: _Numbered, template: Template) -> Iterator[str]:
    """System messages that the template does not take as they stand."""
    roles = [turn["role"] for _, turn in turns]
    if _SYSTEM in roles and template.system == REFUSED:
        yield _SYSTEM_REFUSED
    if _SYSTEM in roles and template.system == BEFORE_LAST and roles.count("user") > 1:
        yield _SYSTEM_AND_MORE
    if template.system_first:
        yield from (f"message {number} {_NOT_FIRST}" for number, turn in turns[1:] if turn["role"] == _SYSTEM)


def _of_calls(turns: _Numbered, template: Template) -> Iterator[str]:
    """Messages with calls that the template does not write, or not beside each other or a text."""
    answers = [number for number, turn in turns if turn["role"] == "assistant" and "tool_calls" not in turn]
    for number, turn in turns:
        calls = len(turn.get("tool_calls", ()))
        if calls and template.no_calls:
            yield f"message {number} calls a tool, {_NO_TOOLS}"
        if calls > 1 and template.one_call:
            yield f"message {number} has {calls} {_CALLS}"
        if calls and parted(turn["content"])[1].strip():
            if template.beside_call == LOST:
                yield f"message {number} {_BESIDE}"
            if template.beside_call == BEFORE_ANSWER and answers and number < answers[-1]:
                yield f"message {number} {_BESIDE_BEFORE}"


def _of_order(turns: _Numbered, template: Template) -> Iterator[str]:
    """Messages of another speaker than the one whose turn it is, where turns must alternate."""
    spoken = [(number, turn) for number, turn in turns if template.alternates and turn["role"] != _SYSTEM]
    counted = [(number, turn["role"]) for number, turn in spoken if not (template.passes_calls and _is_of_tools(turn))]
    for (number, role), wanted in zip(counted, cycle(("user", "assistant"))):
        if role == _TOOL:
            yield f"message {number} is the result of a tool, {_NO_TOOLS}"
        if role != wanted:
            yield f"message {number} is of the {role}, {_ORDER}"


def _is_of_tools(turn: Message) -> bool:
    return turn["role"] == _TOOL or "tool_calls" in turn


def _ways_out(faults: set[str], template: Template) -> Iterator[str]:
    if faults & {_SYSTEM_REFUSED, _SYSTEM_AND_MORE}:
        yield "write what the system message says into the first question, and leave out `data.system`"
    for endings, way in _WAYS.items():
        if any(fault.endswith(endings) for fault in faults):
            yield way + (_NO_TEXT if endings == (_CALLS,) and template.beside_call != SHOWN else "")
    yield "or begin with a model whose template takes them, or bring a template of your own: `data.template`"


_WAYS = {
    (_CALLS,): "write each call into a message of its own, and the result of a call behind it",
    (_BESIDE, _BESIDE_BEFORE): (
        "remove the text beside the call, or write it into a message of its own before the call: "
        "the model then learns to end its turn behind the text"
    ),
    (_NO_TOOLS,): "end conversations before their first call, or leave those with tools out",
    (_NOT_FIRST,): "write what later system messages say into the first one, or into the question that follows",
    (_ORDER,): "join messages that follow each other from the same speaker, and begin with the user's",
}
_NO_TEXT = ", without a text: the template leaves out a text beside a call"
