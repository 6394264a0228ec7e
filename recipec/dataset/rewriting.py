"""What to write where rows hold what training needs, but in another form: a key, or a command that rewrites the file.

The commands are for jq; what is wrong with text and CSV files is told in words alone by the findings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from shlex import quote
from typing import Any

from recipec.axes import CARRIED, KINDS, ROW_FORMATS, RowFormat
from recipec.dataset.as_text import written_as_text
from recipec.dataset.backwards import forward
from recipec.dataset.commands import AT_THE_TOP, file_of, jq, leaving_out, one_at_a_time, path_of
from recipec.dataset.contents import (
    CALLS,
    NOTHING,
    RESULTS,
    SPEAKERS,
    TOOL_SPEAKERS,
    Row,
    names_in,
    style_of,
    turns_of,
    written_in,
)
from recipec.dataset.formats import DataShape
from recipec.dataset.labeled import TALKS, labeled_answers, labels
from recipec.dataset.langchain import of_langchain
from recipec.dataset.meaning import beside
from recipec.dataset.offered import offering
from recipec.dataset.refusals import refusals_learned
from recipec.dataset.results import results_in_order
from recipec.dataset.rows import unwrapped
from recipec.dataset.suggested import prompts_beside
from recipec.dataset.system_prompts import one_system_prompt
from recipec.dataset.talks_as_text import written_lists
from recipec.dataset.turns import in_other_fields, within_objects

_PROMPT, _BEFORE = "prompt", "\n\n"
_WRITTEN, _ANSWER = ("role", "content"), '{role: "assistant", content: .output}'
# Names of columns that ask: those of every role that becomes a prompt.
_ASK = {name for row in ROW_FORMATS.values() for role in row.roles if role.becomes == _PROMPT for name in role.aliases}

# Who speaks, in the words that are read -> by the field that says so; and words that mean one of them, in lower case.
_READ = {"role": {"system", "user", "assistant", "tool"}, "from": {*SPEAKERS, *TOOL_SPEAKERS}}
_OLD = {("role", "function"): "tool"}  # of OpenAI, before it had `tool_calls`
_MEANT = SPEAKERS | {"ai": "assistant", "bot": "assistant", "prompter": "user", "developer": "system"}


def rewriting(rows: Sequence[Row], places: Sequence[str], shape: DataShape) -> Iterator[str]:
    """Yield what brings rows to the shape: answers that are single messages, and questions in other columns."""
    names = [*shape.columns.values()]
    yield from one_at_a_time(
        refusals_learned(rows, places[0], names),
        results_in_order(rows, places[0], names),
        offering(rows, places[0], names),
        one_system_prompt(rows, places[0], names),
        written_as_text(rows, places, shape),
        _of_tool_turns(rows, places, shape),
        conversations(rows, places, names),
        _to_the_shape(rows, places, shape),
    )


def _to_the_shape(rows: Sequence[Row], places: Sequence[str], shape: DataShape) -> Iterator[str]:
    """Yield how to take texts, pairs and messages of other kinds apart, or how to write single messages as lists."""
    first, format, names = rows[0], ROW_FORMATS[shape.format], [*shape.columns.values()]
    pairs = _of_question_pairs(rows)
    for program, left in (*_whole(_of_transcripts(rows, names)), *pairs, *_whole(_of_messages(rows, names))):
        yield from _command(program, places[0], left)
        return
    single = [name for name in names if _is_message(first.get(name))]
    if format.implicit != _PROMPT or _PROMPT in shape.columns:
        asked, texts = [], []
    else:
        asked = [name for name in first if name in TALKS and turns_of(first[name])]
        texts = [name for name in first if name in _ASK and any(row.get(name) not in (None, "") for row in rows)]
        if not texts and all(isinstance(first.get(name), str) for name in names):
            for name in prompts_beside(rows, names):
                yield f"to read `{name}` as the prompt: {naming(shape, _PROMPT, name)} under [data]"
            return
    if not single and not asked and len(texts) == 1:
        known = texts[0] in format.role(_PROMPT).aliases  # it would be read if it were not ignored
        way = f'remove "{texts[0]}" from `ignore`' if known else f'`columns = {{ {_PROMPT} = "{texts[0]}" }}`'
        yield f"to read `{texts[0]}` as the prompt: {way} under [data]"
        return
    steps = [f"{path_of(name)} |= [.]" for name in single] + [*_asking(asked[:1] or texts)]
    if steps:
        yield from _command(" | ".join(steps), places[0])


def naming(shape: DataShape, role: str, column: str) -> str:
    """The key that names the column of a role, beside the others that have other names than the usual ones."""
    renamed = {each: name for each, name in shape.columns.items() if each not in (name, role)}
    pairs = ", ".join(
        f"{each} = {json.dumps(name, ensure_ascii=False)}" for each, name in {role: column, **renamed}.items()
    )
    return f"`columns = {{ {pairs} }}`"


def conversations(rows: Sequence[Row], places: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """How to make lists of messages of columns that hold conversations in another way."""
    yield from written_lists(rows, places[0], names)
    for program in within_objects(rows, names):
        yield from (f"{AT_THE_TOP}: {line}" for line in _command(program, places[0]))
    for program, which in (*of_langchain(rows, names), *in_other_fields(rows, names)):
        if command := jq(program, places[0]):
            yield f"{which}, rewrite the rows: {command}"


def _of_tool_turns(rows: Sequence[Row], places: Sequence[str], shape: DataShape) -> Iterator[str]:
    """How to leave conversations with tools out, or to end them before the first call, where a format has no tools."""
    columns = [] if "tools" in ROW_FORMATS[shape.format].carries else [*shape.columns.values()]
    for name in columns:
        turns = [turn for row in rows for turn in turns_of(row.get(name))]
        if any(turn.get(written_in(style_of(turn))[0]) in (CALLS, *RESULTS) for turn in turns):
            speaker, _ = written_in(style_of(turns[0]))
            words = f"IN(.{speaker}; {', '.join(map(json.dumps, (CALLS, *RESULTS)))}) or (.tool_calls // []) != []"
            path = path_of(name)
            for what, program in (
                ("keep conversations without tools alone", f"select(any({path}[]?; {words}) | not)"),
                (
                    "end conversations before their first call",
                    f"({path} | arrays) |= .[:(map({words}) | index(true)) // length]",
                ),
            ):
                yield what + f": {jq(program, places[0])}"
            return


def _of_transcripts(rows: Sequence[Row], names: Sequence[str]) -> Iterator[str]:
    """The program that takes whole conversations in texts apart, as hh-rlhf of Anthropic has them."""
    texts = [name for name in names if all(str(row.get(name)).startswith(f"{_BEFORE}Human: ") for row in rows)]
    if texts:
        turn = r"\n\n(Human|Assistant): (.*?)(?=\n\n(?:Human|Assistant): |$)"
        speaker = 'if .[0].string == "Human" then "human" else "gpt" end'
        turns = f'[match("{turn}"; "gp") | .captures | {{from: ({speaker}), value: .[1].string}}]'
        yield f"({', '.join(map(path_of, texts))}) |= {turns}"


def _of_question_pairs(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """The program for conversations of `input` and `output`, as Capybara has them, and what it leaves out.

    What else a pair says is said of its answer, but a system prompt, which stands before all.
    """
    for name in (name for name in rows[0] if name in TALKS):
        talks = [turns_of(row.get(name)) for row in rows]
        pairs = [pair for turns in talks for pair in turns]
        if pairs and all({"input", "output"} <= pair.keys() and pair.keys().isdisjoint(_WRITTEN) for pair in pairs):
            prompts = [name for name in beside(pairs, ()) if name in CARRIED["system"].columns]
            given = f'(first(.[] | {", ".join(map(path_of, prompts))} | values) | {{role: "system", content: .}}), '
            said = f". + {_ANSWER} | del({', '.join(map(path_of, ('input', 'output', *prompts)))})"
            each = f'{given * bool(prompts)}(.[] | {{role: "user", content: .input}}, ({said}))'
            yield f"({path_of(name)} | arrays) |= [{each}]", leaving_out(_other_prompts(talks, prompts), len(rows))


def _other_prompts(talks: Sequence[Sequence[Row]], names: Sequence[str]) -> dict[str, int]:
    """The system prompts of later pairs, where they say something else than the first."""
    said = [{pair[name] for pair in talk for name in names if pair.get(name) not in NOTHING} for talk in talks]
    several = sum(len(prompts) > 1 for prompts in said)
    return {f"other {' and '.join(f'`{name}`' for name in names)} of a conversation": several} if several else {}


def _of_messages(rows: Sequence[Row], names: Sequence[str]) -> Iterator[str]:
    """The program for messages that another version of their format wrote: who calls tools, and who speaks."""
    if steps := (*_of_old_calls(rows, names), *_of_speakers(rows, names)):
        yield " | ".join(steps)


def _of_old_calls(rows: Sequence[Row], names: Sequence[str]) -> Iterator[str]:
    """The steps for calls of tools as OpenAI wrote them before it had `tool_calls`: one in a field of a message."""
    calls = f'if .{CALLS} then .tool_calls = [{{type: "function", function: .{CALLS}}}] else . end | del(.{CALLS})'
    for name in names:
        if any(isinstance(turn.get(CALLS), Mapping) for row in rows for turn in turns_of(row.get(name))):
            yield f"({path_of(name)} | arrays) |= map({calls})"


def _of_speakers(rows: Sequence[Row], names: Sequence[str]) -> Iterator[str]:
    """The program that renames who speaks, where every word that is not read means what one that is read means."""
    meant: dict[str, str] = {}
    steps: dict[str, str] = {}
    for name in names:
        for turn in (turn for row in rows for turn in turns_of(row.get(name))):
            speaker, _ = written_in(style_of(turn))
            word = turn.get(speaker)
            if not isinstance(word, str) or word in _READ[speaker]:
                continue
            if not (role := _MEANT.get(word.strip().lower()) or _OLD.get((speaker, word))):
                return
            meant[word], steps[name] = role, speaker
    if steps:
        words = json.dumps(meant, ensure_ascii=False)
        yield " | ".join(
            f"{path_of(name)}[]?.{speaker}? |= ({words}[tostring] // .)" for name, speaker in steps.items()
        )


def last_answer_apart(rows: Sequence[Row], places: Sequence[str], formats: Sequence[RowFormat]) -> Iterator[str]:
    """Yield what makes rows of a conversation and a flag: a prompt and its answer, where a format has both."""
    if any(KINDS[format.kind].flag for format in formats):
        yield from labeled_answers(
            rows, places[0], forward(rows, [name for name in names_in(rows) if labels(rows, name)])
        )


def in_one_object(rows: Sequence[Row], places: Sequence[str]) -> Iterator[str]:
    """Yield how to take rows out of the one object of a file, which holds them in a list."""
    for name, value in rows[0].items() if len(rows) == 1 else ():
        turns = turns_of(value)
        if turns and not any(map(_is_message, turns)):
            yield f"if `{name}` holds the rows: {unwrapped(name, file_of(places[0]))}"


def _command(program: str, place: str, left: str = "") -> Iterator[str]:
    if command := jq(program, place):
        yield f"rewrite the rows{left}: {command}"


def _whole(programs: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The programs that leave nothing out."""
    return ((program, "") for program in programs)


def _asking(names: Sequence[str]) -> Iterator[str]:
    """The steps that make a prompt of one column, or of the texts of several that say something."""
    others = [name for name in names if name != _PROMPT]
    if len(names) > 1:
        listed = ", ".join(map(path_of, names))
        yield f'.{_PROMPT} = ([{listed}] | map(select(. != null and . != "")) | join("\\n\\n"))'
    elif names:
        yield f".{_PROMPT} = {path_of(names[0])}"
    if others:
        yield f"del({', '.join(map(path_of, others))})"


def without_nul(place: str) -> Iterator[str]:
    """Yield what takes NUL characters out of the file of a place, which JSON writes with six characters."""
    if command := jq(r'walk(if type == "string" then gsub("\u0000"; "") else . end)', place):
        yield f"take NUL characters out: {command}"
    elif not (file := file_of(place)).endswith(".parquet"):
        yield f"take NUL characters out: `tr -d '\\000' < {quote(file)} > {quote(f'{file}.new')}`"


def _is_message(value: Any) -> bool:
    """Whether a value is one message, of either way to write messages."""
    return isinstance(value, Mapping) and ({"role", "content"} <= value.keys() or {"from", "value"} <= value.keys())
