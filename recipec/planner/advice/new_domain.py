"""A domain that the model does not know: what learns its text, what is left to learn behind that, and where none is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from recipec.axes import COMMON_SECTION, METHODS, SECTIONS, Method, earlier
from recipec.diagnostics.model import Diagnostic, Label
from recipec.planner.plan import Plan, Stage
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision

_KEY = ("goal", "new_domain")


def left_to_learn(new_domain: Decision, stage: Stage, stages: Sequence[Stage]) -> Decision:
    """Whether the domain is still new when a stage begins: not where a stage before it learned its text."""
    before = [other.name for other in stages[: stages.index(stage)] if METHODS[other.name].of_text]
    if not (new_domain.value and before):
        return new_domain
    because = f"stage {before[0]} learns the text of the domain before this stage; {new_domain.because}"
    return replace(new_domain, value=False, because=because, origin="planner")


def without_text(loaded: LoadedRecipe, plan: Plan) -> Iterator[Diagnostic]:
    """Yield W0540 where the domain is new and the recipe has no raw text of it, which a stage could learn first."""
    last = METHODS[plan.stages[-1].stage.name]
    able = [row for row in earlier([last]) if row.section != COMMON_SECTION]
    if not loaded.recipe.goal.new_domain or not able or any(loaded.is_set("data", row.section) for row in able):
        return
    (text, *_), first = able, plan.stages[0].stage.name
    labels = (
        Label(loaded.place(*_KEY), f"no `data.{text.section}`, so no stage learns its text"),
        Label(loaded.place("data"), f"stage {first} is the first to see the domain"),
    )
    help = (_text_before(text, alone=not loaded.task), *_OTHER_WAYS)
    yield Diagnostic("W0540", "the domain is new, and its raw text is missing", labels, help, (_INSTEAD,))


_INSTEAD = (
    "without it adapters get rank 64 (LORA-001), and full fine-tuning is tried first from 10,000 rows and 48 GB of GPU "
    "memory on (ADPT-001)"
)


_OTHER_WAYS = (
    'if there is no such text, write allow = ["W0540"] under [recipe]',
    "if the model knows the domain, remove `goal.new_domain`",
)


def _text_before(text: Method, *, alone: bool) -> str:
    """How the text is learned first: by a stage, or where the recipe is of several tasks, by a recipe before it."""
    example = SECTIONS[text.section].examples[0]
    if alone:
        return f'add `{text.section} = "{example}"` under [data]: {text.title} then runs first'
    return (
        f'learn the text in a recipe of its own, with `goal.task = "{text.task}"` and `train = "{example}"` under '
        "[data], and name the folder of the model that it trains in `model.name`"
    )
