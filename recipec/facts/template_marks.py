"""Marks of chat templates, or of models that think, in the texts of messages: made with a model before (W0559)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recipec.axes import ROW_FORMATS
from recipec.catalog.templates import Template, templates
from recipec.dataset import Converted
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.seen_answers import seen_answers
from recipec.facts.sources import SampledSource
from recipec.recipe import LoadedRecipe

# Before and after what is said, in templates of the catalog and of older models; what ends a turn is in the catalog.
_MARKS = {"[INST]", "[/INST]", "<<SYS>>", "<</SYS>>", "<|im_start|>", "<|start_header_id|>", "<|end_header_id|>"}
_MARKS |= {"<start_of_turn>", "<|begin_of_text|>", "<|START_OF_TURN_TOKEN|>", "<|system|>", "<|user|>", "<|assistant|>"}
_TAGS = "<s>", "</s>"  # of HTML, too: marks where a text begins with the first or ends with the second
_MOST_LISTED = 5


def template_marks(
    loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource], template: Template | None
) -> Iterator[Diagnostic]:
    """Yield W0559 where texts of messages hold marks of chat templates; what ends a turn of the model's is W0534."""
    marks = _MARKS | {one.end for one in templates().values()} - {*_TAGS}
    own = {template.end} if template else set()
    found = {
        place: held
        for source in sources
        if ROW_FORMATS[source.shape.format].turns
        for place, made in zip(source.places, source.made, strict=True)
        if (held := _held(made, marks) - own)
    }
    if found:
        named = sorted({mark for held in found.values() for mark in held})
        listed = ", ".join(f"`{mark}`" for mark in named[:_MOST_LISTED])
        count = sum(len(source.rows) for source in sources)
        seen = f"{len(found)} of {count} sampled rows, the first {next(iter(found))}"
        help = (
            f"remove {listed} from the texts: the model's chat template writes its own marks around each message",
            'if the rows speak of such marks, write allow = ["W0559"] under [recipe]',
        )
        note = "the model learns to write them as plain text, and they are not there when it is used"
        title = f"texts of data.{section} hold marks of a chat template: {listed}"
        yield Diagnostic("W0559", title, (Label(loaded.place("data", section), seen),), help, (note,))


def other_tags(
    loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource], template: Template | None
) -> Iterator[Diagnostic]:
    """Yield W0559 for thoughts between tags that no chat template reads; W0522 tells of them where it must speak."""
    if loaded.recipe.data.reasoning is None and template is not None and template.empty_thought:
        return
    if ways := seen_answers(sources, loaded.recipe.data).renamed:
        what, _, way = ways.partition(": ")
        help = (way, 'if the model is to write them so, write allow = ["W0559"] under [recipe]')
        title = f"answers of data.{section} begin with thoughts between tags that no chat template reads"
        yield Diagnostic("W0559", title, (Label(loaded.place("data", section), what),), help)


def _held(made: Converted, marks: set[str]) -> set[str]:
    """The marks in what is said in a row."""
    turns = [turn for value in made.values() if isinstance(value, list) for turn in value]
    texts = [str(turn["content"]) for turn in turns if "content" in turn]
    first, last = _TAGS
    tags = {first} if any(text.lstrip().startswith(first) for text in texts) else set()
    tags |= {last} if any(text.rstrip().endswith(last) for text in texts) else set()
    return tags | {mark for mark in marks if any(mark in text for text in texts)}
