"""Answers of sampled conversations that repeat another one exactly, with all that was said before it.

Many conversations begin alike. Where every answer becomes a row, templates/data/convert.py.j2 keeps one row of each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256

from msgspec import Struct

from recipec.axes import ROW_FORMATS
from recipec.dataset import ASSISTANT, Converted, says
from recipec.dataset.messages import Message
from recipec.facts.fact import known
from recipec.facts.repeated import FEWEST_COUNTED, about
from recipec.facts.sizes import learned_ends, rounded
from recipec.facts.sources import SampledSource, all_read, some_state_counts
from recipec.facts.unanswered import says_something
from recipec.facts.unlearned import learned_places
from recipec.recipe.schema_data import Data
from recipec.rules.core import Decision


class _Answer(Struct, frozen=True):
    itself: bytes  # all that prepare_data.py tells it from others by; b"" where it leaves it out as empty
    tokens: float  # of the conversation up to its end
    weight: float  # of its source


def without_repeated_answers(sizes: Sequence[Decision], sources: Sequence[SampledSource], data: Data) -> list[Decision]:
    """The sizes with the answers that preparation keeps, where all rows were read; their lengths are those of these."""
    share = next((size for size in sizes if size.id == "answer_share"), None)
    if share is None or share.origin != "data" or not all_read(sources) or some_state_counts(sources):
        return [*sizes]
    by_weight = sorted(sources, key=lambda source: -source.weight)  # of several, the one that weighs most stays
    answers = [answer for source in by_weight for answer in _answers(source, data)]
    teaching = [answer for answer in answers if answer.itself]
    kept = [*{answer.itself: answer for answer in reversed(teaching)}.values()]
    if len(answers) - len(kept) < FEWEST_COUNTED:
        return [*sizes]
    lost = {"exact duplicates": len(teaching) - len(kept), "empty or to no question": len(answers) - len(teaching)}
    listed = " and ".join(f"{about(count, len(answers))} are {what}" for what, count in lost.items() if count)
    told = f"of {about(len(answers), len(answers))} answers, {listed}: prepare_data.py leaves them out"
    counts = {"kept_answers": sum(answer.weight for answer in kept), "kept_source_answers": len(kept)}
    facts = [known(id, rounded(count), told) for id, count in counts.items()]
    return [*(size for size in sizes if size is not share), _longer(share, answers, kept), *facts]


def _longer(share: Decision, answers: Sequence[_Answer], kept: Sequence[_Answer]) -> Decision:
    """What ends with an answer, where the answers that stay are not those that were measured: beginnings are short."""
    before, after = (
        sum(answer.weight * answer.tokens for answer in some) / sum(answer.weight for answer in some)
        for some in (answers, kept)
    )
    return known(share.id, round(share.value * after / before, 3), f"{share.because}, each once", origin="data")


def _answers(source: SampledSource, data: Data) -> Iterator[_Answer]:
    """The answers of a source that are to be learned, those that preparation leaves out among them."""
    for made in source.made:
        found = _of_answers(made, bool(ROW_FORMATS[source.shape.format].answers), data)
        lengths, _ = learned_ends(made, source.shape, data)
        for itself, tokens in zip(found, lengths, strict=True):
            yield _Answer(itself, tokens, source.weight)


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
