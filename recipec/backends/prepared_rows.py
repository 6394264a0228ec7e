"""What the rows of prepare_data.py hold once they are converted, and what they carry on their way."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

from recipec.axes import ROW_FORMATS
from recipec.axes.row_formats import FLAG_TEXTS, USUAL_FLAGS
from recipec.backends.job import Job, StageJob
from recipec.backends.reading import Way, from_files, listed, sources_of, split_columns
from recipec.facts.converting import SKIP
from recipec.facts.held_out import HELD_OUT
from recipec.render.traced import Raw, Traced, mark
from recipec.rules import preference


def marks_of(stages: list[StageJob]) -> dict[str, Any]:
    """What rows carry on their way, beside what the trainer reads."""
    split, conversations = split_columns(stages[0].job), any(map(of_conversations, stages))
    beside = ["place", *split, *["hardness"] * asks_hardness(stages)]
    beside += ["conversation", "rest"] * conversations
    compares = any(len(stage.kind.taught) > 1 for stage in stages) and not any(stage.kind.flag for stage in stages)
    begins, together = answers_begin(stages), keeps_together(stages[0].job)
    known = {"answered": conversations, "beginnings": begins, "openings": together, "behind": begins}
    known |= {"equal": compares, "sides": compares, "exchange": counts_branches(stages[0].job)}
    known |= {"weight": weighs(stages[0].job), "unnamed": any(stage.carries_tools for stage in stages)}
    marks = ["teaches", "itself", "question", *(name for name, has in known.items() if has), *beside]
    return {
        "beside": tuple(beside),
        "marks": listed("MARKS", marks),
        "answers_begin": begins,
        "held_out_type": Raw("HeldOut" if begins else "set[bytes]"),
        "keeps_together": together,
        "counts_branches": counts_branches(stages[0].job),
        "opens": conversations or together,
        "openings_of_row": _openings(stages),
    }


def _openings(stages: list[StageJob]) -> Raw:
    """What the user has asked by each turn of a row."""
    columns = {column for stage in stages for column in stage.kind.columns}
    if not {"text", "input_ids"}.isdisjoint(columns):
        return Raw('openings(row["messages"]) if "messages" in row else [question(row)]')
    if "prompt" not in columns:
        return Raw('openings(row["messages"])')
    return Raw('openings(row["messages"] if "messages" in row else row["prompt"])')


def answers_begin(stages: list[StageJob]) -> bool:
    """Whether answers are learned that other turns follow, so that a conversation answers several questions."""
    return any(of_conversations(stage) or stage.kind.masked for stage in stages)


def keeps_together(job: Job) -> bool:
    """Whether conversations that begin alike are kept on one side of a split."""
    split, drawn = job.loaded.recipe.data.split, ("eval_fraction", "test_fraction")
    by_column = split is not None and bool(split.time or split.group)
    drawn_at_all = any(stage.value(fraction) for stage in job.stages for fraction in drawn)
    return answers_begin(job.stages) and drawn_at_all and not by_column


def counts_branches(job: Job) -> bool:
    """Whether conversations to train on may begin as held-out ones do: a file, a group or a time parts them."""
    split = job.loaded.recipe.data.split
    by_column = split is not None and bool(split.time or split.group)
    return answers_begin(job.stages) and (by_column or any(from_files(job, part) for part in HELD_OUT))


def contents_of_rows(stages: list[StageJob]) -> dict[str, Any]:
    """What the converted rows hold, and how they are counted."""
    kinds = [stage.kind for stage in stages]
    columns = {column for kind in kinds for column in kind.columns}
    facts = stages[0].job.facts
    handed = [*dict.fromkeys(name for stage in stages for name in stage.shape.handed)]
    flagged = next((kind for kind in kinds if kind.flag), None)
    return {
        "flag_column": flagged.flag if flagged else "",
        "labeled_columns": [column for column in flagged.columns if column != flagged.flag] if flagged else [],
        **_weights(stages),
        "asks": not all(kind.taught for kind in kinds),
        "only_asks": not any(kind.taught for kind in kinds),
        "handed": handed,
        "optional": [name for name in handed if name not in (*facts.rewards.columns, *facts.acting.columns)],
        "only_column": next(iter(columns)) if len(columns) == 1 and all(kind.taught for kind in kinds) else "",
        "has_text": "text" in columns,
        "has_prompts": "prompt" in columns,
        "has_tokens": "input_ids" in columns,
        "only_tokens": all("input_ids" in kind.columns for kind in kinds),
        "has_turns": any(stage.format.turns for stage in stages),
        "compares": any(len(kind.taught) > 1 for kind in kinds),
        "compared_columns": sorted({column for kind in kinds if len(kind.taught) > 1 for column in kind.taught}),
        "only_pairs": all(len(kind.taught) > 1 for kind in kinds),
        "proves_mask": any(kind.masked for kind in kinds),
        "all_prove_mask": all(kind.masked for kind in kinds),
        "all_labeled": all(kind.flag for kind in kinds),
        "all_answer": all("prompt" in kind.columns and kind.taught for kind in kinds),
        "taught_columns": sorted({column for kind in kinds for column in kind.taught}),
        "answer_columns": sorted({column for kind in kinds if "prompt" in kind.columns for column in kind.taught}),
    }


def _weights(stages: list[StageJob]) -> dict[str, Any]:
    """The weights of labels that a sample of the rows decided: not a recipe's."""
    own = [(stage, own) for stage in stages for own in stage.method.own if own.formula]
    weighed = {own.formula: stage.traced(own.name) for stage, own in own if _is_decided(stage, own.name)}
    wanted, unwanted = weighed.get("weight of wanted"), weighed.get("weight of unwanted")
    ids = ",".join(id for stage, other in own for id in stage.ids(other.name))
    both = Traced(bool(wanted and unwanted), ids)
    least, most = map(_quotient, preference.BALANCE)
    balance = {"least_balance": least, "most_balance": most, "middle_balance": _quotient(preference.MIDDLE)}
    return {"weighs_labels": both, "wanted_weight": wanted, "unwanted_weight": unwanted} | balance


def _quotient(value: Fraction) -> Raw:
    """A fraction as code that is read as people write it."""
    return Raw(str(value).replace("/", " / "))


def _is_decided(stage: StageJob, name: str) -> bool:
    return stage.plan.decisions[name].origin != "recipe"


def asks_hardness(stages: list[StageJob]) -> bool:
    """Whether a column of the rows says how hard they are."""
    return any(stage.hardness_column for stage in stages)


def of_conversations(stage: StageJob) -> bool:
    """Whether several rows are answers in one conversation."""
    return stage.unrolls and not stage.format.answers


def weighs(job: Job) -> bool:
    """Whether sources count by their weights."""
    return any(source.weight not in (None, 1) for source in sources_of(job))


def opening_of(way: Way, fields: str) -> dict[str, Any]:
    """How a conversation is read, and whether without answers before its first question."""
    skips = way.stage.job.loaded.recipe.data.opening_answers == SKIP
    column = json.dumps(way.shape.columns.get(ROW_FORMATS[way.shape.format].required[0].name), ensure_ascii=False)
    read = f"conversation_of(row, {column}{fields})"
    ids = ",".join(way.stage.ids("opening_answers"))
    learned = mark(ids, f"asked_first({read})" if skips else f'{{"messages": {read}}}')
    known = {"conversation": mark(ids, read), "learned": learned}
    return {"skips_openings": way.stage.because(skips, "opening_answers"), **known}


def flags_of(written: str) -> dict[str, Any]:
    """The texts of a flag, and what each says."""
    names = [written] if written else USUAL_FLAGS
    flags = {text: place == 0 for name in names for place, text in enumerate(FLAG_TEXTS[name])}
    return {"flags": flags, "flags_named": Raw(" nor ".join([*flags][:2]))}
