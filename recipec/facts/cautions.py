"""What sampled rows hold that can be used, but not as a user may mean it: warnings."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from recipec.axes import CARRIED, KINDS, METHODS, ROW_FORMATS
from recipec.catalog.local import special_tokens_of
from recipec.catalog.templates import Template
from recipec.dataset import ASSISTANT, Converted, DataShape, Message, thoughts
from recipec.dataset.contents import THOUGHT
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.sources import SampledSource
from recipec.facts.unlearned import learned_places
from recipec.recipe import LoadedRecipe
from recipec.recipe.extends import is_path
from recipec.recipe.schema_data import Data
from recipec.units import counted

_IS_SPECIAL = ("a special token of the model", "special tokens of the model")
MOST_TOKENS = 5  # that a message lists
SHORTEST_REPEATED = 16  # characters of a prompt; answers may begin with a shorter one, such as a name, by chance


def cautions(
    loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource], template: Template | None
) -> Iterator[Diagnostic]:
    """Yield what is said of sampled rows that can be used, but not as a user may mean it.

    Messages behind answers (W0532), thoughts in prompts (W0533), texts that end a turn (W0534), answers that repeat
    their prompt (W0537), tools that rows call and do not name (W0557) and ignored system prompts (W0561).

    `template` is what is known of the chat template of the training.
    """
    yield from _behind_answers(loaded, section, sources)
    yield from _special_tokens(loaded, section, sources, template)
    if loaded.recipe.data.reasoning is None:
        yield from _thoughts_in_prompts(loaded, section, sources)
    yield from _repeated_prompts(loaded, section, sources)
    yield from _unnamed_tools(loaded, section, sources)
    yield from _ignored_prompts(loaded, section, sources)


def _ignored_prompts(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """System prompts in columns that the recipe ignores, where it states no system prompt of its own."""
    ignored = loaded.recipe.data.ignore or [] if loaded.recipe.data.system is None else []
    told = [source for source in sources if "system" in ROW_FORMATS[source.shape.format].carries]
    for name in (name for name in CARRIED["system"].columns if name in ignored):
        held = [
            place for source in told for place, row in zip(source.places, source.rows, strict=True) if row.get(name)
        ]
        if held:
            title = f"rows of data.{section} lose their system prompt"
            seen = f"{_rows(held, sources)} have text in `{name}`, the first {held[0]}"
            left = [other for other in ignored if other != name]
            help = (
                f"set `ignore = {json.dumps(left, ensure_ascii=False)}` under [data] to learn each row with its prompt",
                'if the model is used without it, write allow = ["W0561"] under [recipe]',
            )
            yield Diagnostic("W0561", title, (Label(loaded.place("data", "ignore"), seen),), help)


def _unnamed_tools(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Calls of tools that no text before them names; rows with a column of tools are judged by it."""
    found = {
        place: name
        for source in sources
        if ROW_FORMATS[source.shape.format].turns
        for place, made in zip(source.places, source.made, strict=True)
        if not made.get("tools") and (name := next(_unnamed(made), ""))
    }
    if found:
        title = f"rows of data.{section} call tools that nothing in these rows names"
        place, name = next(iter(found.items()))
        seen = f"{_rows(found, sources)}, the first {place}, where the assistant calls {name!r:.40}"
        help = (
            "write the tools of each row, as a list of JSON schemas, into a column `tools`",
            'if the model is to call tools that it is not shown, write allow = ["W0557"] under [recipe]',
        )
        note = "prepare_data.py counts those of all rows"
        yield Diagnostic("W0557", title, (Label(loaded.place("data", section), seen),), help, (note,))


def _unnamed(made: Converted) -> Iterator[str]:
    """The tools that a row calls before any text of it names them."""
    said = ""
    for turn in (turn for turns in made.values() if isinstance(turns, list) for turn in turns):
        for call in turn.get("tool_calls", ()):
            name = call["function"]["name"]
            if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", said):
                yield name
        said += f"\n{turn['content']}"


def not_compared(loaded: LoadedRecipe, shapes: Mapping[str, DataShape]) -> Iterator[Diagnostic]:
    """Yield W0531 where questions that are held out from one section cannot be looked for in another.

    A section that is only for raw text has no questions to compare: README.md of the bundle says so.
    """
    compared = {section: shape for section, shape in shapes.items() if not _only_text(section)}
    turns = {section: ROW_FORMATS[shape.format].turns for section, shape in compared.items()}
    for section in (name for name, has in turns.items() if not has and any(turns.values())):
        other = next(name for name, has in turns.items() if has)
        format = shapes[section].format
        labels = (
            Label(loaded.place("data", section), f"{format} rows, which do not say what is asked"),
            Label(loaded.place("data", other), "some of these questions are held out"),
        )
        title = f"held-out questions of data.{other} are not looked for in data.{section}"
        help = (
            f"give data.{section} as messages, or as prompts with completions, so that both can be compared",
            'if you know that they have no questions in common, write allow = ["W0531"] under [recipe]',
        )
        yield Diagnostic("W0531", title, labels, help)


def _only_text(section: str) -> bool:
    own = [row for row in METHODS.values() if row.section == section]
    return bool(own) and all(row.of_text for row in own)


def _behind_answers(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Messages behind the last learned answer of a conversation."""
    found = {
        place: count
        for source in sources
        if KINDS[ROW_FORMATS[source.shape.format].kind].masked
        for place, made in zip(source.places, source.made, strict=True)
        if (count := _behind(made["messages"], loaded.recipe.data))
    }
    if found:
        first = next(iter(found))
        seen = f"{_rows(found, sources)}, the first {first}: {counted(sum(found.values()), 'message')} in all"
        title = f"conversations of data.{section} go on behind their last learned answer"
        help = ('end them with an answer; if they are meant to go on, write allow = ["W0532"] under [recipe]',)
        note = "nothing is learned from these messages; prepare_data.py counts those of all rows"
        yield Diagnostic("W0532", title, (Label(loaded.place("data", section), seen),), help, (note,))


def _behind(messages: Sequence[Message], data: Data) -> int:
    """How many messages stand behind the last learned answer; 0 where there is none."""
    learned = learned_places(messages, data)
    return len(messages) - learned[-1] - 1 if learned else 0


def _thoughts_in_prompts(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Thoughts in what is asked, of which the chat template decides whether they are shown."""
    found = [
        place
        for source in sources
        if ROW_FORMATS[source.shape.format].turns
        for place, made in zip(source.places, source.made, strict=True)
        if any(map(_thinks, made.get("prompt", ())))
    ]
    if found:
        title = f"prompts of data.{section} hold thoughts, which are not learned"
        seen = f"{_rows(found, sources)}, the first {found[0]}"
        help = (
            'to take them out, of answers too: `reasoning = "strip"` under [data]',
            'to leave it to the chat template whether they are shown, write allow = ["W0533"] under [recipe]',
        )
        note = "chat templates of models that think, such as Qwen 3, show earlier answers without their thoughts"
        yield Diagnostic("W0533", title, (Label(loaded.place("data", section), seen),), help, (note,))


def _special_tokens(
    loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource], template: Template | None
) -> Iterator[Diagnostic]:
    """Texts of messages that hold the token that ends a turn, or a special token of the tokenizer in a local folder."""
    ending = {template.end} if template is not None else set()
    tokens = ending | (_of_folder(loaded) - {*THOUGHT})
    held = {
        place: found
        for source in sources
        if tokens and ROW_FORMATS[source.shape.format].turns
        for place, made in zip(source.places, source.made, strict=True)
        if (found := _held(made, tokens))
    }
    if held:
        named = sorted({token for found in held.values() for token in found})
        means = "which ends a turn in the chat template" if {*named} == ending else _IS_SPECIAL[len(named) > 1]
        title = f"texts of data.{section} hold {', '.join(f'`{token}`' for token in named[:MOST_TOKENS])}, {means}"
        seen = f"{_rows(held, sources)}, the first {next(iter(held))}"
        help = ("write it with a space in it, or remove these rows",)
        note = "prepare_data.py refuses such rows where it is a special token of the tokenizer"
        yield Diagnostic("W0534", title, (Label(loaded.place("data", section), seen),), help, (note,))


def _of_folder(loaded: LoadedRecipe) -> set[str]:
    """The special tokens of a model that is a folder on this machine."""
    name = loaded.recipe.model.name
    return special_tokens_of(loaded.folder / name) if is_path(name) else set()


def _held(made: Converted, tokens: Collection[str]) -> list[str]:
    said = json.dumps(made, ensure_ascii=False, default=str)
    return [token for token in tokens if token in said]


def _repeated_prompts(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Answers that begin with the whole of what is asked, in half of the rows or more."""
    made = [
        (place, row, KINDS[ROW_FORMATS[source.shape.format].kind].taught)
        for source in sources
        for place, row in zip(source.places, source.made, strict=True)
    ]
    found = [place for place, row, taught in made if _repeats(row, taught)]
    if found and 2 * len(found) >= len(made):
        title = f"answers of data.{section} begin with their prompt, word for word"
        seen = f"{_rows(found, sources)}, the first {found[0]}"
        help = (
            "take the prompt off the answers, if they were written as one text",
            'if answers are to begin by saying again what was asked, write allow = ["W0537"] under [recipe]',
        )
        note = "the model learns to repeat what it is asked before it answers"
        yield Diagnostic("W0537", title, (Label(loaded.place("data", section), seen),), help, (note,))


def _repeats(made: Converted, taught: Sequence[str]) -> bool:
    """Whether every answer begins with the text before it, if that is long enough not to do so by chance."""
    if not taught or not made.get("prompt"):
        return False
    asked = made["prompt"][-1]["content"].strip()
    said = [made[column][0]["content"] for column in taught if made[column]]
    return len(asked) >= SHORTEST_REPEATED and bool(said) and all(text.lstrip().startswith(asked) for text in said)


def _thinks(message: Message) -> bool:
    return message["role"] == ASSISTANT[0] and bool(thoughts(message))


def _rows(found: Sequence[str] | Mapping[str, int], sources: Sequence[SampledSource]) -> str:
    return f"{len(found)} of {sum(len(source.rows) for source in sources)} sampled rows"
