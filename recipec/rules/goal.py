"""What is trained, in which order: the alignment method and the stages."""

from __future__ import annotations

from collections.abc import Collection

from recipec.axes import COMMON_SECTION, METHODS, Method, earlier
from recipec.axes.tasks import KL_METHODS, NO_ALIGNMENT
from recipec.rules.core import Choice, rule


@rule(
    "GOAL-001",
    decides="alignment_method",
    key="alignment.method",
    watch="eval_loss: falls in the stage that the method adds; what else to look at is told with its own values",
    source="docs/rule-books/001.md, Decision tree: alignment method; Step 1 (DPO, PPO)",
)
def alignment_method(task: str, preference_format: str | None, kl_control: str) -> Choice:
    """Alignment method: the one that the KL control calls for, else the first that learns from the given rows, or none.

    | rule book 001 | recipec |
    |---|---|
    | preference pairs, KL control matters little: DPO, one stage without a reward model | DPO |
    | no preference pairs: supervised fine-tuning only | supervised fine-tuning only |
    | no wish for a reward model: DPO | DPO where pairs exist |
    | KL control matters much, or a budget for three stages: PPO | PPO where `alignment.kl_control = "high"` says so |

    The third question does not depend on the data and so contradicts the second. Without pairs neither DPO nor a reward
    model can be trained, so the data decide: `alignment.kl_control = "high"` without `data.preferences` is refused
    (E0401). DPO holds the model near its start by its loss alone. PPO measures the KL of every answer that it writes,
    takes it off the reward, and can adapt its weight to a target (`alignment.target_kl`). Where its three stages take
    more than [budget] allows, the recipe is refused with the plan of DPO and its figures (E0403).

    Without such rows task `align` is refused (E0401), unless the recipe sets `alignment.method = "none"`, which runs
    supervised fine-tuning alone. Preference rows beside a task that does not learn from them are refused too (E0401):
    set `goal.task = "align"` to use them.
    """
    if preference_format is None:
        return Choice(NO_ALIGNMENT, "the recipe has no rows that an alignment method can learn from")
    if any(preference_format in method.formats for method in _of_task(task)):
        return Choice(NO_ALIGNMENT, f"the method of task {task} learns from these rows")
    called = KL_METHODS.get(kl_control, NO_ALIGNMENT)
    if preference_format in _judging(called):
        because = f"KL control is {kl_control}, and {METHODS[called].title} measures the KL of every answer"
        return Choice(called, because)
    method = next(row for row in METHODS.values() if row.alignment and preference_format in row.formats)
    return Choice(method.alignment, f"{preference_format} rows are given, and {method.title} learns from such rows")


@rule(
    "GOAL-002",
    decides="stages",
    watch="eval_loss: falls within each stage; a stage that starts above the result of the one before has the wrong "
    "weights",
    source="docs/rule-books/001.md, Decision tree: fine-tuning or continued pre-training; Step 1; "
    "docs/rule-books/003.md, Which fine-tuning method",
)
def stages(
    task: str,
    train_format: str | None,
    preference_format: str | None,
    alignment_method: str,
    has_reward: bool,
    data_sections: Collection[str],
) -> Choice:
    """Stages that run, in order: the method of the task or of the alignment, and before it what other rows are for.

    Rule book 001 sends new knowledge to continued pretraining, a task to fine-tuning and behavior to alignment. It puts
    supervised fine-tuning before PPO and calls DPO a single stage. recipec runs supervised fine-tuning before DPO if
    and only if `data.train` holds supervised rows (text, instruction, chat, prompt-completion, token-ids). Preference
    rows in `data.train` give a single stage.

    PPO learns from rewards. Where the recipe names none (`alignment.reward`), a reward model is trained first from
    `data.preferences`; it starts from the same weights as PPO, and judges the answers that PPO writes to
    `data.prompts`, or to the prompts of the pairs where the recipe has no others.

    For a domain shift rule book 003 wants continued pretraining and then instruction tuning. Continued pretraining runs
    first if and only if the recipe has `data.domain_text`, and the other stages start from its result. A recipe with
    `goal.new_domain` and without such text is warned (W0540) and not refused: rule book 001 answers a domain shift with
    full fine-tuning on more than 100,000 rows, which needs no raw text.

    Rule book 001 pretrains from random weights only where no suitable base model exists. recipec never chooses
    pretraining by itself, and reports fewer than 1T tokens (W0506).
    """
    last = _last(task, {train_format, preference_format}, data_sections, alignment_method)
    if last is None:
        return Choice((), f"no stage of task {task} learns from the {train_format or 'given'} rows")
    before = tuple(row.name for row in earlier([last]) if _has_rows(row, {train_format}, data_sections))
    judge = (last.judge,) if last.judge and not has_reward else ()
    names = (*before, *judge, last.name)
    data = f"`data.train` holds {train_format} rows" if train_format else "`data.train` is not given"
    own = [METHODS[name].section for name in before if METHODS[name].section != COMMON_SECTION]
    data += "".join(f", and `data.{section}` is given" for section in own)
    method = "" if alignment_method == NO_ALIGNMENT else f", the alignment method is {alignment_method}"
    judged = f", and no reward is named, so that {METHODS[last.judge].title} comes before" if judge else ""
    return Choice(names, f"the task is {task}{method}, and {data}{judged}")


def _has_rows(row: Method, held: Collection[str | None], data_sections: Collection[str]) -> bool:
    """Whether the recipe has a section of the method's own, or in `data.train` rows that the method takes."""
    own = row.section != COMMON_SECTION
    return row.section in data_sections if own else not {*held}.isdisjoint(row.formats)


def _last(task: str, held: set[str | None], data_sections: Collection[str], alignment_method: str) -> Method | None:
    """The stage that the recipe is about; without alignment, the one that would have come before it."""
    named = next((row for row in METHODS.values() if row.alignment == alignment_method), None)
    if named is not None:
        return named
    of_task = _of_task(task) or [METHODS[name] for row in METHODS.values() if row.task == task for name in row.after]
    return next((row for row in of_task if held & set(row.formats) or _has_rows(row, held, data_sections)), None)


def _judging(alignment_method: str) -> tuple[str, ...]:
    """The formats of the rows from which the judge of a method's answers is trained."""
    judges = (row.judge for row in METHODS.values() if row.alignment == alignment_method)
    return tuple(name for judge in judges if judge for name in METHODS[judge].formats)


def _of_task(task: str) -> list[Method]:
    """The methods that the task alone decides."""
    return [row for row in METHODS.values() if row.task == task and not row.alignment]
