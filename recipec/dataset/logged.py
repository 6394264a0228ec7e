"""What APIs and tracers log, which no format reads: how each row has what was asked, and the answer.

Logs of the API of OpenAI hold each answer within a response, and the output of its batches names the request by its
`custom_id` alone. Runs of LangSmith and Langfuse hold what is asked and the answer in an object each, or as messages.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from recipec.axes.row_formats import MEANT
from recipec.dataset.contents import Row, turns_of
from recipec.dataset.meaning import OF_ROWS, along, beside
from recipec.dataset.published_rows import Recognition, without

RUNS = (("inputs", "outputs"), ("input", "output"))  # columns of traced runs
_MESSAGE = '[{{"role": "{speaker}", "content": {said}}}]'
_REQUESTS = "requests.jsonl"


def _of_logs(rows: Sequence[Row]) -> Iterator[Recognition]:
    """Requests to the API of OpenAI with its responses, as they were logged: the answer is the first of the choices."""
    asks = next((name for name in rows[0] if all(map(turns_of, _held(rows, name, "messages")))), "")
    answers = {name: [*map(bool, map(turns_of, _held(rows, name, "choices")))] for name in rows[0]}
    for name in (name for name, answered in answers.items() if asks and any(answered)):
        asked, answer = (f"row[{json.dumps(column)}]" for column in (asks, name))
        others = columns_within(rows, asks, {"messages", name})
        yield Recognition(
            pairs="",
            best=f"train on the first of the `choices` of each `{name}`{without(answers[name])}",
            each=f'for row in rows if ({answer} or {{}}).get("choices")',
            better=f'{asked}["messages"] + [{answer}["choices"][0]["message"]]{others}',
            worse="",
        )


def _of_batches(rows: Sequence[Row]) -> Iterator[Recognition]:
    """The output of batches of OpenAI: the file of the requests has what was asked, under the same `custom_id`."""
    answered = [bool(turns_of(body)) for body in _within_bodies(rows)]
    if any(answered) and all(isinstance(row.get("custom_id"), str) for row in rows):
        asked = 'asked[row["custom_id"]]'
        yield Recognition(
            pairs="",
            best=f"write the name of the file with the requests of the batch instead of {_REQUESTS}, and train on the "
            f"first of the `choices` of each response{without(answered)}",
            each='for row in rows if ((row["response"] or {}).get("body") or {}).get("choices")',
            better=f'{asked}["messages"] + [row["response"]["body"]["choices"][0]["message"]], '
            f'"tools": {asked}.get("tools")',
            worse="",
            before=f'asked = {{one["custom_id"]: one["body"] for one in map(json.loads, open("{_REQUESTS}", "rb"))}}; ',
        )


def of_runs(rows: Sequence[Row], named: Sequence[tuple[str, str]] = RUNS) -> Iterator[Recognition]:
    """Traced runs: what is asked in an object, as texts or as messages, and the answer in another one or a text."""
    runs = [names for names in named if all(isinstance(row.get(names[0]), dict) for row in rows)]
    for asks, answers in runs:
        turns, asked = _holds_turns(rows, asks), _without(_texts_in(rows, asks), OF_ROWS)
        said = _generated(rows, answers) or _without(_texts_in(rows, answers), MEANT)
        if (turns or asked) and said and not _holds_turns(rows, answers):
            (name, answer), *_ = said.items()
            others = [each for each in said if each != name]
            doubt = f"if `{name}` of `{answers}` is the answer, not {_listed(others, 'or')}, " if others else ""
            ran = (bool(row.get(asks)) and bool(row.get(answers)) for row in rows)
            joined = f", {_listed(asked, 'and')} together," if len(asked) > 1 and not turns else ""
            yield Recognition(
                pairs="",
                best=f"{doubt}answer what `{asks}` asks{joined} with what `{answers}` says{without(ran)}",
                each=_filled(rows, asks, answers, answer),
                prompt=(turns or _MESSAGE.format(speaker="user", said=_together([*asked.values()])))
                + columns_within(rows, asks, {"messages"} if turns else asked),
                better=_saying(rows, answers, answer, name),
                worse="",
            )


def _filled(rows: Sequence[Row], asks: str, answers: str, answer: str) -> str:
    """The clauses that go over the runs that were answered, and of which something is known to be asked."""
    whole = [f"row[{json.dumps(column)}]" for column in (asks, answers)]
    needed = dict.fromkeys([*whole[all(row.get(asks) for row in rows) :], answer])
    return f"for row in rows if {' and '.join(needed)}"


def of_conversations(rows: Sequence[Row], named: Sequence[tuple[str, str]] = RUNS) -> Iterator[Recognition]:
    """Traced runs that give messages back: the whole conversation, or those that go on with what was asked."""
    for asks, answers in named:
        asked, said = _holds_turns(rows, asks), _holds_turns(rows, answers)
        pairs = [(_turns(row.get(asks)), _turns(row[answers])) for row in rows if row.get(answers)]
        if said and all(_is_whole(*pair) for pair in pairs):
            best, better = f"train on the conversations that `{answers}` holds", said
            columns = columns_within(rows, answers, {"messages"})
        elif asked and said and not all(isinstance(row.get(answers), list | None) for row in rows):
            best, better = f"train on the messages of `{answers}` to those of `{asks}`", f"{asked} + {said}"
            columns = ""
        else:
            continue
        replied = [bool(row.get(answers)) for row in rows]
        each = (
            _filled(rows, asks, answers, said) if better != said else f"for row in rows if row[{json.dumps(answers)}]"
        )
        columns += columns_within(rows, asks, {"messages"})
        yield Recognition(pairs="", best=best + without(replied), each=each, better=better + columns, worse="")


def _is_whole(asked: Sequence[Row], said: Sequence[Row]) -> bool:
    """Whether messages that were given back begin with what was asked."""
    first, again = (
        next((turn["content"] for turn in turns if turn["role"] == "user"), None) for turns in (asked, said)
    )
    return bool(again) and (not asked or first == again)


def of_talks(rows: Sequence[Row], named: Sequence[tuple[str, str]] = RUNS) -> Iterator[Recognition]:
    """Traced runs of a chat model: the messages that it was sent in a list, and its answer as a message or a text."""
    runs = [names for names in named if all(turns_of(row.get(names[0])) for row in rows)]
    for asks, answers in runs:
        replies = [row.get(answers) for row in rows]
        asked, answer = (f"row[{json.dumps(name)}]" for name in (asks, answers))
        if texts := all(isinstance(reply, str | None) for reply in replies):
            answer = _MESSAGE.format(speaker="assistant", said=answer)[1:-1]
        if any(replies) and (texts or all(not reply or is_turn(reply) for reply in replies)):
            yield Recognition(
                pairs="",
                best=f"train on the `{answers}` to the messages of each `{asks}`{without(map(bool, replies))}",
                each=f"for row in rows if row[{json.dumps(answers)}]",
                better=f"{asked} + [{answer}]",
                worse="",
            )


def columns_within(rows: Sequence[Row], column: str, read: Collection[str]) -> str:
    """The columns that the fields of an object with a meaning become, behind another one, for Python."""
    held = [row[column] for row in rows if isinstance(row.get(column), dict)]
    called = (
        f"row[{json.dumps(column)}]" if all(row.get(column) for row in rows) else f"(row[{json.dumps(column)}] or {{}})"
    )
    return "".join(f", {json.dumps(name)}: {called}.get({json.dumps(name)})" for name in beside(held, read))


def _saying(rows: Sequence[Row], column: str, answer: str, name: str) -> str:
    """The message of an answer, with what else the object says that it stands in."""
    held = [row[column] for row in rows if isinstance(row.get(column), dict)]
    message, fields = _MESSAGE.format(speaker="assistant", said=answer), beside(held, {name})
    return f"{message[:-1]} | {along(f'row[{json.dumps(column)}]', fields)}]" if fields else message


def _without(texts: dict[str, str], names: Collection[str]) -> dict[str, str]:
    """The texts with other names, or all where there are no others."""
    return {name: called for name, called in texts.items() if name not in names} or texts


def is_turn(value: Any) -> bool:
    """Tell whether a value is one message, with who speaks and what is said."""
    return isinstance(value, dict) and {"role", "content"} <= value.keys()


def _holds_turns(rows: Sequence[Row], column: str) -> str:
    """How Python calls the messages of a column, or within its objects; "" where it holds none in some rows."""
    held = [row[column] for row in rows if row.get(column)]
    if not all(map(_turns, held)) or len({(type(value), _is_batch(value)) for value in held}) != 1:
        return ""
    field = "" if isinstance(held[0], list) else '["messages"]'
    return f"row[{json.dumps(column)}]{field}{'[0]' * _is_batch(held[0])}"


def _turns(value: Any) -> list[Row]:
    """The messages that a column holds, in an object or as the one list of a batch; none where it holds others."""
    held = value.get("messages") if isinstance(value, dict) else value
    turns = turns_of(held[0] if _is_batch(value) else held)
    return turns if all(map(is_turn, turns)) else []


def _is_batch(value: Any) -> bool:
    """Whether an object has its messages as LangChain logs them: a list for each conversation that was sent."""
    held = value.get("messages") if isinstance(value, dict) else None
    return isinstance(held, list) and len(held) == 1 and isinstance(held[0], list)


def _generated(rows: Sequence[Row], column: str) -> dict[str, str]:
    """How Python calls the text that a model of LangChain generated; none where there is none in some rows."""
    held = [row[column] for row in rows if row.get(column)]
    batches = [value.get("generations") if isinstance(value, dict) else None for value in held]
    if not held or not all(isinstance(batch, list) and batch and turns_of(batch[0]) for batch in batches):
        return {}
    texts = all(isinstance(batch[0][0].get("text"), str) for batch in batches)
    return {"generations": f'row[{json.dumps(column)}]["generations"][0][0]["text"]'} if texts else {}


def _texts_in(rows: Sequence[Row], column: str) -> dict[str, str]:
    """How Python calls the text of a column, or of its objects by their names; none where it holds neither."""
    held, called = [row[column] for row in rows if row.get(column)], f"row[{json.dumps(column)}]"
    if held and all(isinstance(value, str) for value in held):
        return {column: called}
    if not all(isinstance(value, dict) for value in held):
        return {}
    names = dict.fromkeys(name for value in held for name in value if name != "role")
    texts = [name for name in names if all(isinstance(value.get(name), str | None) for value in held)]
    texts = [name for name in texts if any(value.get(name) for value in held)]
    always = [name for name in texts if all(value.get(name) for value in held)]
    return {
        name: f"{called}[{json.dumps(name)}]" if name in always else f"{called}.get({json.dumps(name)})"
        for name in texts
    }


def _together(texts: Sequence[str]) -> str:
    """One text of several, of which some may be missing."""
    return texts[0] if len(texts) == 1 else f'"\\n\\n".join(filter(None, [{", ".join(texts)}]))'


def _listed(names: Iterable[str], word: str) -> str:
    *first, last = (f"`{name}`" for name in names)
    return f"{', '.join(first)} {word} {last}" if first else last


def _within_bodies(rows: Sequence[Row]) -> list[Any]:
    """The `choices` of the bodies of responses; None where there are none."""
    responses = [{"body": body} for body in _held(rows, "response", "body")]
    return _held(responses, "body", "choices")


def _held(rows: Sequence[Row], name: str, field: str) -> list[Any]:
    """What the objects of a column hold in a field; None where there is no object."""
    held = [row.get(name) for row in rows]
    return [value.get(field) if isinstance(value, dict) else None for value in held]


LOGGED = (_of_logs, _of_batches, of_runs, of_conversations, of_talks)
