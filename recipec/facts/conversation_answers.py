"""The answers of sampled conversations, each a row behind what was said before it: what single answers are learned of.

Many conversations begin alike. Of answers that repeat another one exactly, with all that was said before them,
templates/data/convert.py.j2 keeps one row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

from msgspec.structs import replace

from recipec.axes import ROW_FORMATS
from recipec.dataset import ASSISTANT, Converted, says
from recipec.dataset.messages import Message
from recipec.facts.fact import known
from recipec.facts.rehearsal import DUPLICATE, EMPTY, RehearsedRow, RehearsedRows, leave_out, repeated, says_something
from recipec.facts.sizes import GENERAL_TOKENS, learned_ends, rounded
from recipec.facts.sources import SampledSource
from recipec.facts.unlearned import learned_places
from recipec.recipe.schema_data import Data
from recipec.rules.core import Decision

_LOST = {DUPLICATE: "are exact duplicates", EMPTY: "are empty or to no question"}


class _Answer(RehearsedRow):
    tokens: float = 0.0  # of the conversation up to its end


def without_repeated_answers(sizes: Sequence[Decision], sources: Sequence[SampledSource], data: Data) -> list[Decision]:
    """The sizes with the answers that preparation keeps, where all rows were read; their lengths are those of these."""
    share = next((size for size in sizes if size.id == "answer_share"), None)
    if share is None or share.origin != "data":
        return [*sizes]
    answers = RehearsedRows(sources, [answer for source in sources for answer in _answers(source, data)])
    leave_out(repeated(answers.rows), DUPLICATE)
    if (counts := answers.counts) is None or not counts.kept:
        return [*sizes]
    told, rows = counts.told("answers", _LOST), counts.sizes
    kept = {"kept_answers": rows["examples"], "kept_source_answers": rows["source_rows"]}
    facts = [known(id, count, told) for id, count in kept.items()]
    return [*(size for size in sizes if size is not share), _longer(share, answers), *facts]


def _longer(share: Decision, answers: RehearsedRows) -> Decision:
    """What ends with an answer, where the answers that stay are not those that were measured: beginnings are short."""
    before, after = (
        sum(row.source.weight * row.tokens for row in some) / sum(row.source.weight for row in some)
        for some in (answers.rows, answers.kept)
    )
    return known(share.id, round(share.value * after / before, 3), f"{share.because}, each once", origin="data")


def answers_of_conversations(decisions: Mapping[str, Decision]) -> dict[str, Decision]:
    """The sizes where every answer is a row, with the conversation before it: more rows, and shorter ones."""
    rows, mean, own = decisions["examples"], decisions["tokens_per_example"], decisions["source_rows"]
    each, share = decisions["answers_per_row"], decisions["answer_share"].value
    answers = "1 answer" if each.value == 1 else f"{each.value:g} answers"
    many = f"{answers} in each of {rows.value:,} conversations, {each.because}; {rows.because}"
    shorter = f"{share:.2g} times a whole conversation, on average over the answers; {mean.because}"
    beside = {id: decisions[id] for id in (GENERAL_TOKENS,) if id in decisions}
    return {
        "examples": _size(rows, each.value, many, decisions.get("kept_answers")),
        "source_rows": _size(own, each.value, many, decisions.get("kept_source_answers")),
        "tokens_per_example": replace(mean, value=_times(share, mean.value), because=shorter),
        **{id: replace(fact, value=_times(share, fact.value)) for id, fact in beside.items()},
    }


def _size(rows: Decision, each: float, many: str, kept: Decision | None) -> Decision:
    """As many rows as there are answers; those that were counted one by one, where the rows were."""
    if kept is None or rows.origin != "data":
        return replace(rows, value=_times(each, rows.value), because=many)
    return replace(rows, value=kept.value, because=f"{many}; {kept.because}")


def _times(factor: float, value: int) -> int:
    """So much of a size, rounded as far as it is estimated; a whole one stays as the recipe states it."""
    return value if factor == 1 else rounded(factor * value)


def _answers(source: SampledSource, data: Data) -> Iterator[_Answer]:
    """The answers of a source that are to be learned, those that preparation leaves out among them."""
    for place, made in zip(source.places, source.made, strict=True):
        found = _of_answers(made, bool(ROW_FORMATS[source.shape.format].answers), data)
        lengths, _ = learned_ends(made, source.shape, data)
        for itself, tokens in zip(found, lengths, strict=True):
            yield _Answer(place, source, itself, reasons=[EMPTY] * (not itself), tokens=tokens)


def _of_answers(made: Converted, ends: bool, data: Data) -> Iterator[bytes]:
    """The digest of every learned answer with what was said before it; nothing for one that prepare_data.py leaves out.

    `ends`: the row is one answer and its prompt.
    """
    turns = [*made["prompt"], *_learned_at_its_end(made["completion"])] if ends else made["messages"]
    learned = {*learned_places(turns, data)}
    said = sha256(json.dumps(made.get("tools"), sort_keys=True, default=str).encode())
    asked, unasked = False, False  # something beside answers was said; a question said nothing
    for place, turn in enumerate(turns):
        content = {name: value for name, value in turn.items() if name != "learned"}
        said.update(json.dumps(content, sort_keys=True, default=str).encode())
        if place in learned:
            yield said.digest() if asked and not unasked and says_something(turn) else b""
        asked = asked or (turn["role"] != ASSISTANT[0] and says(turn["content"]))
        unasked = unasked or (turn["role"] == "user" and not says(turn["content"]))


def _learned_at_its_end(completion: Sequence[Message]) -> list[Message]:
    """The messages of an answer, of which the last stands for all; an empty one where it has none."""
    *first, last = completion or [{"role": ASSISTANT[0], "content": ""}]
    return [*first, last | {"learned": True}]
