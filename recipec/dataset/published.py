"""Rows as public datasets have them, which no format reads: the command that makes training rows of them.

UltraFeedback and Nectar rate a list of answers, Chatbot Arena names the winner of two, HelpSteer2 rates the answers of
several rows, and LLaMA-Factory used to write both answers of a pair in a list. Which answer is better is read from
the rows alone, and rows in which none is are left out. SQuAD asks about passages, and has one right answer or several.
What APIs and tracers log is in `logged.py`. The commands are for Python, which is there where recipec is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from recipec.axes import CARRIED, KINDS, ROW_FORMATS, RowFormat
from recipec.axes.row_formats import PREFERENCE, PROMPTS, RATING_WORDS
from recipec.dataset.column_names import speaks
from recipec.dataset.commands import file_of, leaving_out, python_command, rows_as_json
from recipec.dataset.contents import MOST_WORDS, Row, is_number, names_in, number_of, turns_of
from recipec.dataset.duels import are_talks, duel_of
from recipec.dataset.logged import LOGGED, columns_within
from recipec.dataset.logged_texts import of_texts
from recipec.dataset.meaning import along, beside
from recipec.dataset.published_rows import Recognition, without

_BETTER = {"overall_score": "highest", "score": "highest", "rating": "highest", "rank": "lowest"}  # fields of answers
_OVERALL = ("helpful", "overall", "quality", "score", "rating")  # words in names of columns that rate a whole answer
_SAID = ("response", "answer", "completion", "output", "text", "content")  # fields and columns that hold an answer
_ASK = [name for row in ROW_FORMATS.values() for role in row.roles if role.becomes == "prompt" for name in role.aliases]
_OF_ANSWERS = {name for row in CARRIED.values() for name in row.fields}  # what an answer says beside its text
_TRANSCRIPT = "\n\nHuman: "  # how a prompt begins that is a conversation in a text
_TURNS = (
    '[{{"role": "user" if who == "Human" else "assistant", "content": said}} for who, said in '
    r're.findall(r"\n\n(Human|Assistant): ?(.*?)(?=\n\n(?:Human|Assistant):|\Z)", {prompt}, re.S) if said]'
)


def from_published(
    rows: Sequence[Row], places: Sequence[str], formats: Sequence[RowFormat], kept: Sequence[str] = ()
) -> Iterator[str]:
    """Yield the commands that make rows of these formats; the columns that are `kept` are in them, too."""
    ways = (
        _of_openai,
        *LOGGED,
        of_texts,
        _of_passages,
        _of_articles,
        _of_rated_lists,
        _of_lists_with_ratings,
        _of_duels,
        _of_lists_of_two,
        _of_rated_rows,
    )
    found = next((found for way in ways for found in way(rows)), None)
    if found is None:
        return
    asked = {"prompt": found.prompt} if found.prompt else {}
    if PREFERENCE in formats and found.pairs:
        made = asked | {"chosen": found.better, "rejected": found.worse}
        yield from _command(found, found.pairs, _with(rows, kept, made, found), places[0], found.alike)
    if found.best and any(KINDS[format.kind].masked for format in formats):
        yield from _better_alone(found, rows, places[0], kept)
    if found.right and PROMPTS in formats:
        made = asked | {"answers": found.right}
        does = "ask each question about its passage, with its `answers` for a reward"
        yield from _command(found, does, _with(rows, kept, made, found), places[0])


def from_texts(rows: Sequence[Row], place: str, names: tuple[str, str], kept: Sequence[str]) -> Iterator[str]:
    """Yield the command that takes questions and answers out of the JSON that two columns hold as texts."""
    for found in of_texts(rows, [names]):
        yield from _better_alone(found, rows, place, [name for name in kept if name not in names])


def _better_alone(found: Recognition, rows: Sequence[Row], place: str, kept: Sequence[str]) -> Iterator[str]:
    asked = {"prompt": found.prompt} if found.prompt else {}
    made = asked | {"completion" if found.prompt else "messages": found.better}
    yield from _command(found, found.best, _with(rows, kept, made, found), place)


def _with(rows: Sequence[Row], kept: Sequence[str], made: dict[str, str], found: Recognition) -> dict[str, str]:
    """What is made, behind the columns that stay as they are: those with a meaning that no part reads, too."""
    program = " ".join((found.prompt, found.better, found.worse, found.each, found.right))
    unread = [name for name in beside(rows, made) if json.dumps(name) not in program]
    stay = [name for name in names_in(rows) if (name in kept or name in unread) and name not in made]
    return {name: _column(rows, name, found.row) for name in stay} | made


def _column(rows: Sequence[Row], name: str, called: str) -> str:
    """How Python calls a column, which some rows may lack."""
    return f"{called}[{json.dumps(name)}]" if all(name in row for row in rows) else f"{called}.get({json.dumps(name)})"


def _command(found: Recognition, does: str, made: dict[str, str], place: str, more: str = "") -> Iterator[str]:
    fields = ", ".join(f"{json.dumps(name)}: {value}" for name, value in made.items())
    if file_of(place).endswith(".csv"):
        command = rows_as_json(f"{{{fields}}}", place, found.each + more, found.before)
    else:
        command = python_command(f"{{{fields}}}", found.each + more, place, found.before)
    if command:
        yield f"{does}: {command}"


def _of_openai(rows: Sequence[Row]) -> Iterator[Recognition]:
    """Pairs as OpenAI has them: the conversation in an object, and the answers as lists of messages."""
    asked = [row.get("input") for row in rows]
    if all(isinstance(input, dict) and turns_of(input.get("messages")) for input in asked):
        better, worse = (f"{kind}_output" for kind in ("preferred", "non_preferred"))
        if all(turns_of(row.get(better)) and turns_of(row.get(worse)) for row in rows):
            others = columns_within(rows, "input", {"messages"})
            yield Recognition(
                pairs="rewrite the pairs of OpenAI",
                best=f"train on the `{better}` of each row",
                each="for row in rows",
                prompt=f'row["input"]["messages"]{others}',
                better=f'row["{better}"]',
                worse=f'row["{worse}"]',
            )


def _of_passages(rows: Sequence[Row]) -> Iterator[Recognition]:
    """Questions about a passage as SQuAD has them: the texts of their answers in a list, of some questions none."""
    answers = [row.get("answers") for row in rows]
    texts = [held.get("text") for held in answers if isinstance(held, dict)]
    asks = all(isinstance(row.get(name), str) for row in rows for name in ("context", "question"))
    if asks and len(texts) == len(rows) and all(isinstance(text, list) for text in texts) and any(texts):
        yield Recognition(
            pairs="",
            best=f"answer each question about its passage with the first of its `answers`{without(map(bool, texts))}",
            each='for row in rows if row["answers"]["text"]',
            prompt='row["context"] + "\\n\\n" + row["question"]',
            better='row["answers"]["text"][0]',
            worse="",
            right='row["answers"]["text"]',
        )


def _of_articles(rows: Sequence[Row]) -> Iterator[Recognition]:
    """The file in which SQuAD is published: one object with articles, of which each has paragraphs with questions."""
    articles = turns_of(rows[0].get("data")) if len(rows) == 1 else []
    parts = [part for article in articles for part in turns_of(article.get("paragraphs"))]
    questions = [question for part in parts for question in turns_of(part.get("qas"))]
    answered = [bool(turns_of(question.get("answers"))) for question in questions]
    if any(answered):
        yield Recognition(
            pairs="",
            best=f"answer each question about its passage with the first of its `answers`{without(answered)}",
            each='for row in rows for article in row["data"] for part in article["paragraphs"] '
            'for question in part["qas"] if question["answers"]',
            prompt='part["context"] + "\\n\\n" + question["question"]',
            better='question["answers"][0]["text"]',
            worse="",
            right='[answer["text"] for answer in question["answers"]]',
        )


def _of_rated_lists(rows: Sequence[Row]) -> Iterator[Recognition]:
    """Rows with a list of answers, each with a score or a rank."""
    for name in rows[0]:
        answers = [turn for row in rows for turn in turns_of(row.get(name))]
        said, score = _first(_SAID, answers, str), _first(_BETTER, answers, (int, float))
        if not (said and score and (prompt := _prompt(rows))):
            continue
        sign, worst = ("", "lowest") if _BETTER[score] == "highest" else ("-", "highest")
        held = f"(answer[{json.dumps(score)}], answer[{json.dumps(said)}])"
        rated = f"[answer for answer in row[{json.dumps(name)}] if None not in {held}]"
        by = f"key=lambda answer: {sign}answer[{json.dumps(score)}]"
        the = f"the answer with the {_BETTER[score]} `{score}`"
        ratings = [
            [each[score] for each in turns_of(row.get(name)) if None not in (each[score], each[said])] for row in rows
        ]
        yield Recognition(
            pairs=f"make a pair of each row, {the} and one with the {worst}{_ties(ratings)}",
            best=f"train on {the} of each row{_unrated(ratings)}",
            each=f"for row in rows for answers in [sorted({rated}, {by})] if answers",
            prompt=prompt,
            **_ends(said, score, beside(answers, {said, score})),
        )


def _of_lists_with_ratings(rows: Sequence[Row]) -> Iterator[Recognition]:
    """Rows with a list of answers, and their ratings in a list beside it, as Argilla has them."""
    said = next((name for name in rows[0] if _are_lists_of(rows, name, str)), "")
    rated = next((name for name in rows[0] if speaks(name, RATING_WORDS) and _are_lists_of(rows, name, int, float)), "")
    if not (said and rated and (prompt := _prompt(rows))):
        return
    both = f"zip(row[{json.dumps(rated)}], row[{json.dumps(said)}])"
    by = "key=lambda one: one[0]"
    the = f"the answer of `{said}` that `{rated}` puts highest"
    both_of = (zip(row[rated], row[said], strict=False) for row in rows)
    ratings = [[one for one, answer in answers if None not in (one, answer)] for answers in both_of]
    yield Recognition(
        pairs=f"make a pair of each row, {the} and one that it puts lowest{_ties(ratings)}",
        best=f"train on {the} of each row{_unrated(ratings)}",
        each=f"for row in rows for answers in [sorted([one for one in {both} if None not in one], {by})] if answers",
        prompt=prompt,
        better="answers[-1][1]",
        worse="answers[0][1]",
        alike=" if answers[0][0] != answers[-1][0]",
    )


def _are_lists_of(rows: Sequence[Row], name: str, *kinds: type) -> bool:
    """Whether a column holds lists of these alone, of two or more in some rows."""
    lists = [row.get(name) for row in rows]
    if not all(isinstance(held, list) for held in lists) or all(len(held) < 2 for held in lists):
        return False
    return all(type(one) in (*kinds, type(None)) for held in lists for one in held)


def _ends(said: str, rating: str, fields: Sequence[str]) -> dict[str, str]:
    """The last and the first of the sorted `answers`, and the clause that leaves out those that are rated alike."""
    by = json.dumps(rating)
    alike = f" if answers[0][{by}] != answers[-1][{by}]"
    return {
        "better": _answer("answers[-1]", said, fields),
        "worse": _answer("answers[0]", said, fields),
        "alike": alike,
    }


def _answer(called: str, said: str, fields: Sequence[str]) -> str:
    """The text of an answer; a message where it has fields that say how it is learned."""
    text = f"{called}[{json.dumps(said)}]"
    return f'[{{"role": "assistant", "content": {text}}} | {along(called, fields)}]' if fields else text


def _ties(ratings: Iterable[Sequence[Any]], what: str = "rows whose answers are rated alike") -> str:
    """That those are left out of which all answers are rated alike, with how many of the sampled ones are."""
    alike = [len({*rated}) < 2 for rated in ratings]
    return leaving_out({what: alike.count(True)}, len(alike))


def _unrated(ratings: Sequence[Sequence[Any]]) -> str:
    bare = [*map(len, ratings)].count(0)
    return leaving_out({"rows without a rated answer": bare} if bare else {}, len(ratings))


def _first(names: Sequence[str] | dict[str, str], answers: Sequence[Row], kind: Any) -> str:
    """The first of the fields that every answer has, and some hold a value of this kind in."""
    shared = [name for name in names if answers and all(name in answer for answer in answers)]
    held = (name for name in shared if all(isinstance(answer[name], (kind, type(None))) for answer in answers))
    return next((name for name in held if any(answer[name] is not None for answer in answers)), "")


def _prompt(rows: Sequence[Row], row: str = "row") -> str:
    """What is asked, in the one column that asks; "" where there is none, or several say something."""
    asking = [name for name in rows[0] if name in _ASK and any(row.get(name) not in (None, "") for row in rows)]
    if len(asking) != 1:
        return ""
    prompt = f"{row}[{json.dumps(asking[0])}]"
    texts = [row.get(asking[0]) for row in rows]
    return _TURNS.format(prompt=prompt) if all(str(text).startswith(_TRANSCRIPT) for text in texts) else prompt


def _of_duels(rows: Sequence[Row]) -> Iterator[Recognition]:
    """Rows with two answers of models, and the winner; what is neither model's victory is counted."""
    if (duel := duel_of(rows)) is None:
        return
    talks = are_talks(rows, duel)
    prompt = "" if talks else _prompt(rows)
    if not (talks or prompt):
        return
    one, other = duel.names
    first, second = (f"row[{json.dumps(name)}][:-1]" for name in duel.names)
    apart = sum(turns_of(row.get(one))[:-1] != turns_of(row.get(other))[:-1] for row in rows)
    differ = {"rows whose conversations differ before the last message": apart} if talks else {}
    yield Recognition(
        pairs=f"make a pair of each row by its `{duel.judge}`{leaving_out(duel.left | differ, len(rows))}",
        best=f"train on the `{duel.talks}` of the winner{leaving_out(duel.left, len(rows))}",
        each=f'for row in rows for won, lost in ("{duel.ends}", "{duel.ends[::-1]}") if {duel.won}',
        alike=f" if {first} == {second}" * talks,
        prompt=prompt,
        better=f"row[{json.dumps(duel.side)} + won]",
        worse=f"row[{json.dumps(duel.side)} + lost]",
    )


def _of_lists_of_two(rows: Sequence[Row]) -> Iterator[Recognition]:
    """Pairs in a list, which stands where an answer would; earlier turns beside them would be lost."""
    if any(row.get("history") for row in rows) or "instruction" not in rows[0]:
        return
    for name in (name for name in ("output", "answer", "response") if name in rows[0]):
        if all(isinstance(row.get(name), list) and [*map(type, row[name])] == [str, str] for row in rows):
            input = any(row.get("input") for row in rows)
            both = '"\\n\\n".join(filter(None, [row["instruction"], row["input"]]))'
            yield Recognition(
                pairs=f"if the first text of `{name}` is the preferred answer, as in LLaMA-Factory, rewrite the rows",
                each="for row in rows",
                prompt=both if input else 'row["instruction"]',
                better=f'row["{name}"][0]',
                worse=f'row["{name}"][1]',
            )


def _of_rated_rows(rows: Sequence[Row]) -> Iterator[Recognition]:
    """Rows with one answer and ratings of it, where some have the same prompt."""
    said = next((name for name in _SAID if all(isinstance(row.get(name), str) for row in rows)), "")
    prompt = _prompt(rows, "answers[-1]")
    asked = next((name for name in rows[0] if prompt == f"answers[-1][{json.dumps(name)}]"), "")
    if not (said and asked and all(isinstance(row.get(asked), str) for row in rows)):
        return
    for name in (name for word in _OVERALL for name in names_in(rows) if word in name.lower()):
        fields = beside(rows, {said, asked, name})
        same = [asked, *(field for field in fields if field not in _OF_ANSWERS)]
        rated, words = _rated(rows, name)
        ratings = _by_question(rated, same, name)
        if _unrated_by(words) and any(len({*alike}) > 1 for alike in ratings):
            number, has_one = _number(name, rated, words)
            ties = _ties(ratings, f"every `{asked}` whose answers are rated alike")
            bare = len(rows) - len(rated)
            left = leaving_out({"rows without a rating": bare} if bare else {}, len(rows))
            grouped = f"[groups.setdefault({_key(same)}, []).append(row) for row in rows if {has_one}]"
            yield Recognition(
                pairs=f"if the better answer has the higher `{name}`, make a pair of each `{asked}`{ties}{left}",
                before=f"groups = {{}}; {grouped}; ",
                each=f"for group in groups.values() for answers in [sorted(group, key=lambda row: {number})]",
                prompt=prompt,
                row="answers[-1]",
                **_ends(said, name, [field for field in fields if field in _OF_ANSWERS]),
            )


def _rated(rows: Sequence[Row], name: str) -> tuple[list[Row], list[Any]]:
    """The rows with a number in a column, and the values of the others that are not nothing, such as "n/a"."""
    rated = [row for row in rows if is_number(row.get(name))]
    others = [row[name] for row in rows if row.get(name) not in (None, "") and number_of(row[name]) is None]
    return rated, [value for at, value in enumerate(others) if value not in others[:at]]


def _unrated_by(words: Sequence[Any]) -> bool:
    """Whether the values beside the numbers are a few words, which say of answers that they are not rated."""
    return len(words) <= MOST_WORDS and all(isinstance(word, str) for word in words)


def _by_question(rated: Sequence[Row], same: Sequence[str], name: str) -> list[list[Any]]:
    """The ratings of the answers to each question."""
    groups: dict[str, list[Any]] = {}
    for row in rated:
        question = json.dumps([row.get(each) for each in same], default=str)
        groups.setdefault(question, []).append(number_of(row[name]))
    return [*groups.values()]


def _number(name: str, rated: Sequence[Row], words: Sequence[Any]) -> tuple[str, str]:
    """The rating of a row, and the condition that it has one, for Python; NaN is none."""
    by = json.dumps(name)
    number = f"float(row[{by}])" if any(isinstance(row[name], str) for row in rated) else f"row[{by}]"
    unrated = ", ".join(("None", '""', *(json.dumps(word, ensure_ascii=False) for word in words)))
    return number, f"row.get({by}) not in ({unrated}) and {number} == {number}"


def _key(names: Sequence[str]) -> str:
    """What answers to the same question share, for Python: the question, and what is said before or beside it."""
    if len(names) == 1:
        return f"row[{json.dumps(names[0])}]"
    return f"json.dumps([row.get(name) for name in {json.dumps(names)}])"
