"""Sentences of a bundle's README about its rows: what they are, what becomes of them, and which are held out."""

from __future__ import annotations

from recipec.axes import CARRIED, KINDS, ROW_FORMATS
from recipec.axes.row_formats import TEXTS
from recipec.backends.intervals import saves
from recipec.backends.job import StageJob
from recipec.backends.prepared_rows import counts_branches
from recipec.dataset import OF_RESULTS, DataShape
from recipec.facts.conversations import REASONING
from recipec.facts.converting import KEEP, OFF, SKIP, STRIP
from recipec.facts.labels import MEANING
from recipec.facts.unlearned import LAST_ANSWER, UNLEARNED
from recipec.recipe.schema_data import GENERAL, DataSource
from recipec.units import counted, shown_share

_RESULTS = (
    f" (whether the model sees {' and '.join(OF_RESULTS)} of a result is left to the chat "
    "template: prepare_data.py looks for the texts alone)"
)
_OPENING = {
    "skip": "what the assistant says before the first question is left out, and counted in report.json",
    "learn": "what the assistant says before the first question is learned, too",
}
_OF_THOUGHTS = {
    KEEP: "trained with them",
    "template": "trained where the chat template shows them",
    STRIP: "left out",
    OFF: "left out",
}
_EMPTY = "; every answer is trained in the mode without thinking, after an empty thought that belongs to its prompt"
# What is learned of rows in which no answer is marked -> in place of what the method's row says of answers.
_LEARNED = {
    "all": "every token of the text",
    "labels": "the tokens whose label is not -100, and of rows without labels every token",
}
_TEST_USE = "evaluate.py, which measures the model on rows that chose nothing"


def rows_told(stage: StageJob) -> str:
    """What the rows are, and what becomes of them."""
    shape, sources = stage.shape, _sources(stage)
    names = [name for name in shape.carries if name != REASONING]
    carried = "; they carry " * bool(names) + ", ".join(CARRIED[name].means for name in names)
    carried += _RESULTS * ("tools" in shape.carries)
    carried += f" ({stage.value(UNLEARNED)})".replace("`", "") if UNLEARNED in stage.plan.decisions else ""
    carried += _thoughts(stage)
    anew = not stage.kind.taught and shape.content != TEXTS
    carried += "; an answer at the end of a prompt is left out, and the model writes its own" * anew
    answers = "; every learned answer becomes a row, with what was said before it as the prompt" * stage.unrolls
    read = f"{sources}; {_sizes(stage)}{_labels(stage)}{carried}{_passed_over(stage)}{_unseen(stage)}"
    return f"{read}{answers}{_general_told(stage)}"


def _thoughts(stage: StageJob) -> str:
    """What becomes of thoughts before answers; "" where every row was read and none holds one."""
    asked, facts = stage.value(REASONING), stage.job.facts.data[stage.section]
    empty = _EMPTY * (asked == OFF)
    if asked not in _OF_THOUGHTS or not stage.kind.taught or (facts.whole and not facts.thinking):
        return empty
    which = "thoughts before answers" if facts.thinking else "where answers begin with thoughts, they"
    return f"; {which} are {_OF_THOUGHTS[asked]}{empty}"


def learned_told(stage: StageJob) -> str:
    """What the stage learns of its rows: the words of its method, or those of rows that are no answers."""
    part, method = stage.value("loss_on"), stage.method.learns
    if stage.job.loaded.recipe.data.loss_on == LAST_ANSWER and stage.unrolls:
        return f"{method}; of a conversation it learns only the last answer"
    return _LEARNED.get(part, method)


def _labels(stage: StageJob) -> str:
    """Which labels are those of good answers, and what becomes of incomplete rows and of answers to nothing."""
    decided = stage.plan.decisions
    spoken = any(ROW_FORMATS[shape.format].turns for _, shape in stage.sources())
    opening = _OPENING.get(stage.job.loaded.recipe.data.opening_answers or "") if spoken else None
    labels = [f"labels in the column {decided[MEANING].value}"] if MEANING in decided else []
    skips = stage.value("incomplete") == SKIP
    labels += [f"incomplete rows are left out, and counted in report.json ({decided['incomplete'].because})"] * skips
    told = "".join(f"; {said}" for said in (*labels, *filter(None, [opening])))
    return told.replace("`", "")  # beside names of the user's nothing is code


def _unseen(stage: StageJob) -> str:
    """What becomes of columns that no recipe was told of."""
    names = [source.hub for source, _ in stage.sources() if source.hub]
    asked = "where nothing reads one, prepare_data.py stops before it begins and gives the line of data.ignore for all"
    return f"; the columns of {', '.join(names)} are not known here: {asked}" if names else ""


def _sizes(stage: StageJob) -> str:
    """How many rows and how long they are, each with where that is from; once where that is the same."""
    many, length = (stage.plan.decisions[id] for id in ("examples", "tokens_per_example"))
    rows, tokens = counted(many.value, "row"), f"about {length.value:,} tokens"
    if many.because == length.because:
        return f"{rows} of {tokens} ({many.because})"
    return f"{rows} ({many.because}) of {tokens} ({length.because})"


def _passed_over(stage: StageJob) -> str:
    """What rows hold that training does not read: what the recipe names, and what it was warned about."""
    named = stage.job.loaded.recipe.data.ignore or ()
    strange = [name for name in stage.job.facts.data[stage.section].all_unread if name not in named]
    parts = [("not read, as data.ignore says", named), ("read by nothing", strange)]
    return "".join(f"; {what}: {', '.join(names)}" for what, names in parts if names)


def _sources(stage: StageJob) -> str:
    """The sources by the format of their rows."""
    formats: dict[str, list[str]] = {}
    for source, shape in stage.sources():
        formats.setdefault(shape.format, []).append(source_told(source))
    return " and ".join(f"{format} rows of {', '.join(names)}" for format, names in formats.items())


def sources_told(stage: StageJob) -> str:
    """The sources that the stage learns from, those of replayed general rows behind the others."""
    learned = [source for part in ("", *(GENERAL,) * stage.replays) for source, _ in stage.sources(part)]
    return ", ".join(map(source_told, learned))


def source_told(source: DataSource) -> str:
    """A source by the path or the Hub id of the recipe, and which of its rows are read."""
    of_hub = (source.subset, source.split or "train", source.revision and f"revision {source.revision}")
    name = source.path or f"{source.hub} of the Hub ({', '.join(filter(None, of_hub))})"
    name = f"the first {source.take:,} rows of {name}" if source.take else name
    return name if source.weight in (None, 1) else f"{name} ({source.weight:g} times its rows)"


def _general_told(stage: StageJob) -> str:
    """What README.md says of the general rows, behind what it says of the others; "" where there are none."""
    return _replayed_told(stage) + _elastic_told(stage)


def _replayed_told(stage: StageJob) -> str:
    if not stage.replays:
        return ""
    rows, share = counted(stage.value("replay_rows"), "row"), f"{100 * stage.value('replay'):.3g}%"
    names = _names_of_general(stage)
    return (
        f"; about {rows} of {names} are replayed among them, {share} of all training tokens, so that the model "
        "does not forget; on others, which nothing learns, evaluate.py measures what it has forgotten "
        "(general_eval_loss)"
    )


def _names_of_general(stage: StageJob) -> str:
    return ", ".join(_other_source(stage, *general) for general in stage.sources(GENERAL))


def _elastic_told(stage: StageJob) -> str:
    if not stage.elastic:
        return ""
    rows, names = counted(stage.value("ewc_rows"), "row"), _names_of_general(stage)
    return (
        f"; {rows} of {names} tell, before step 1, which weights matter for general rows, and training holds these "
        f"near their start (outputs/{stage.name}/ewc has what a resumed run needs for that)"
    )


def held_out_told(stage: StageJob) -> str:
    """Which rows evaluation and test read, and what keeps them apart from those of the training."""
    parts = []
    chooses = "chooses the checkpoint" if saves(stage) else "chooses nothing, since no checkpoint is written"
    uses = {"eval": f"evaluation during training, which {chooses}", "test": _TEST_USE}
    for part, use in uses.items():
        share = stage.value(f"{part}_fraction")
        if stage.value(f"has_{part}_file"):
            parts.append(f"{', '.join(_other_source(stage, *held) for held in stage.sources(part))} for {use}")
        elif share:
            parts.append(f"{shown_share(share)} of the rows for {use}")
    return f"{', and '.join(parts) or 'nothing'}{_drawn(stage) if parts else ''}"


def _other_source(stage: StageJob, source: DataSource, shape: DataShape) -> str:
    """A file of held-out or general rows, and what is read of conversations where single answers are learned."""
    ends = KINDS[ROW_FORMATS[shape.format].kind].ends == stage.format.kind
    return source_told(source) + " (the last answer of each conversation)" * ends


def _drawn(stage: StageJob) -> str:
    split = stage.job.loaded.recipe.data.split
    if split is None:
        whole = ", each prompt and each conversation with all its answers" * stage.kind.shares_prompts
        return f"; drawn at random{whole}; {_apart(stage)}"
    by = {"time": "the newest by", "group": "whole groups by", "stratify": "in equal shares of"}
    key = next(name for name in by if getattr(split, name))
    return f"; {by[key]} {getattr(split, key)}; {_apart(stage)}"


def _apart(stage: StageJob) -> str:
    """What keeps the rows of training from those that are held out."""
    if stage.format.answers == 0:
        counted = " (counted in report.json as branches)" * counts_branches(stage.job)
        return f"no conversation to train on asks all that a held-out one asks, though both may begin alike{counted}"
    if not stage.kind.masked and stage.kind.taught == stage.kind.columns:  # raw text: nothing in it is asked
        return "no document to train on is the same as one that is held out"
    return "no row to train on has the question of one that is held out"
