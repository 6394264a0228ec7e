"""Trees of messages, as those of OASST: the command that makes a row of each answer, with what came before it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import Any

from recipec.dataset.commands import file_of, leaving_out, new_file
from recipec.dataset.contents import NOTHING, Row, turns_of
from recipec.dataset.meaning import OF_ROWS, WEIGHTS, along_jq, beside

# The messages up to each one: of rows that name the message which they answer, and of rows that are whole trees.
_OF_MESSAGES = 'INDEX(.message_id) as $all | .[] | . as $row | [recurse($all[.parent_id // ""] // empty)] | reverse'
_OF_TREES = (
    ". as $row | def chains($before): ($before + [del(.replies)]) as $chain | $chain, (.replies[]? | chains($chain)); "
    ".prompt | chains([])"
)
_ROLE = 'if .role == "prompter" then "user" else .role end'
_READ = {"message_id", "parent_id", "role", "text", "replies", "prompt"}
_IS_WEIGHT = (0, 1)  # and false and true: an answer with another weight is neither learned nor left out


def trees(rows: Sequence[Row], place: str, kept: Sequence[str] = ()) -> Iterator[str]:
    """Yield the command that makes rows of prompts and answers of trees of messages.

    The columns that are `kept` are in the new rows, too.
    """
    messages = {"message_id", "parent_id", "role", "text"} <= rows[0].keys()
    if not messages and not _is_tree(rows[0].get("prompt")):
        return
    chains = [chain for chain in (_of_messages(rows) if messages else _of_trees(rows)) if _answers(chain)]
    shared = [] if messages else beside(rows, {*_READ, *kept})
    columns = _columns(chains, [name for name in kept if name in rows[0]], shared)
    program = f"{_OF_MESSAGES if messages else _OF_TREES} | select({_learned(chains)}) | {_prompt(chains)}{columns}"
    file = file_of(place)
    command = f"jq -{'s' * messages}c {quote(program)} {quote(file)} > {new_file(file)}"
    made = f"make a row of each answer, with what came before it as its prompt{leaving_out(_left(chains), len(chains))}"
    yield f"{made}: `{command}`" if file.endswith(".jsonl") else f"write JSON lines, and {made}"


def _learned(chains: Sequence[Sequence[Row]]) -> str:
    """The condition under which the last message is learned: a row of a prompt and its answer has no weight."""
    conditions = ['.[-1].role == "assistant"']
    if _may_be_deleted(chains):
        conditions.append("(any(.[]; .deleted) | not)")
    if weights := _weights(chains):
        listed = ", ".join(f".{name}" for name in weights)
        conditions.append(f"(.[-1] | [{listed}] | any(. == 0 or . == false) | not)")
    return " and ".join(conditions)


def _prompt(chains: Sequence[Sequence[Row]]) -> str:
    """The program that makes a prompt and a completion of messages, with what each says of how it is learned."""
    fields = [name for name in _fields(chains) if name not in OF_ROWS]
    message = f"{{role: ({_ROLE}), content: .text}}" + f" + {along_jq(fields)}" * bool(fields)
    return f". as $chain | map({message}) | {{prompt: .[:-1], completion: .[-1:]}}"


def _columns(chains: Sequence[Sequence[Row]], kept: Sequence[str], shared: Sequence[str]) -> str:
    """The program that adds columns: of messages, of the row that they are from, and those that are kept of it."""
    of_turns = [name for name in _fields(chains) if name in OF_ROWS]
    named = ", ".join(f"{name}: $row[{name}]" for name in (json.dumps(each, ensure_ascii=False) for each in kept))
    return (
        f" + ($row | {along_jq(shared)})" * bool(shared)
        + f" + ($chain | map({along_jq(of_turns)}) | add)" * bool(of_turns)
        + f" + {{{named}}}" * bool(kept)
    )


def _fields(chains: Sequence[Sequence[Row]]) -> list[str]:
    """The fields with a meaning that messages have, but those that say which answers become rows."""
    return beside([turn for chain in chains for turn in chain], {*_READ, *_weights(chains)})


def _left(chains: Sequence[Sequence[Row]]) -> dict[str, int]:
    """What is left out, with of how many sampled answers it is."""
    left = {}
    if _may_be_deleted(chains):
        deleted = sum(any(turn.get("deleted") for turn in chain) for chain in chains)
        left["answers that are deleted or follow a deleted message"] = deleted
    for name in _weights(chains):
        unlearned = sum(chain[-1].get(name) == 0 for chain in chains)
        left[f"answers whose `{name}` says that they are not learned"] = unlearned
    for name in (name for name in _fields(chains) if name in OF_ROWS):
        if several := sum(len({*map(str, _values(chain, name))}) > 1 for chain in chains):
            left[f"earlier values of `{name}`"] = several
    return left


def _values(chain: Sequence[Row], name: str) -> list[Any]:
    return [turn[name] for turn in chain if turn.get(name) not in NOTHING]


def _weights(chains: Sequence[Sequence[Row]]) -> list[str]:
    """The fields that say of each answer whether it is learned."""
    answers = [chain[-1] for chain in chains]
    names = [name for name in beside(answers, ()) if name in WEIGHTS]
    return [name for name in names if all(answer.get(name) in (None, *_IS_WEIGHT) for answer in answers)]


def _is_tree(value: Any) -> bool:
    return isinstance(value, Mapping) and {"text", "role", "replies"} <= value.keys()


def _of_messages(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """The messages up to each one, as far as the rows have them."""
    named = {row.get("message_id"): row for row in rows}
    for row in rows:
        chain, seen = [row], {row.get("message_id")}
        while (before := named.get(chain[0].get("parent_id"))) and before["message_id"] not in seen:
            chain.insert(0, before)
            seen.add(before["message_id"])
        yield chain


def _of_trees(rows: Sequence[Row]) -> Iterator[list[Row]]:
    waiting = [[row["prompt"]] for row in rows if _is_tree(row.get("prompt"))]
    while waiting:
        chain = waiting.pop()
        yield chain
        waiting += [[*chain, reply] for reply in turns_of(chain[-1].get("replies"))]


def _answers(chain: Sequence[Row]) -> bool:
    return chain[-1].get("role") == "assistant"


def _may_be_deleted(chains: Sequence[Sequence[Row]]) -> bool:
    return any("deleted" in turn for chain in chains for turn in chain)
