"""What judges the answers of a method that writes them: rewards that the recipe names, or rows that train a judge."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.axes import METHODS, SECTIONS, Method, methods_of
from recipec.axes.method import ENVIRONMENT, REWARDS
from recipec.diagnostics.model import Diagnostic
from recipec.recipe.clashes import KL_CONTROL, TASK
from recipec.recipe.document import Written


def missing_rewards(written: Written) -> Iterator[Diagnostic]:
    """A method that writes the answers it learns from is told what judges them."""
    able = methods_of(written.get(*TASK), written.method)
    held = [row for row in able if written.has("data", row.section)] or able
    if not held or not all(row.earns for row in held) or not written.lacks("alignment", REWARDS):
        return
    if written.has("alignment", ENVIRONMENT):
        return  # whose `get_reward` may judge
    if written.asks_method == KL_CONTROL:
        return  # what it asks for is a judge that learns from pairs
    judges = [METHODS[row.judge] for row in held if row.judge]
    if not all(written.lacks("data", judge.section) for judge in judges):
        return  # what they train judges
    place = written.asks_method if written.method else ("data", held[0].section)
    help = [f'for example {REWARDS} = "rewards.py:is_right", a function of yours, or `{{ model = "./my-judge" }}`']
    help += [f"or add data.{judge.section}, from which a reward model is trained first" for judge in judges]
    title = f"missing key `{REWARDS}` in [alignment]"
    yield Diagnostic("E0201", title, (written.label(place, f"needs `{REWARDS}`"),), tuple(help))


def _with_judge(written: Written) -> Iterator[tuple[Method, Method]]:
    """The method that alignment.method names and what trains the judge of its answers, where its row has one."""
    rows = (row for row in methods_of(written.get(*TASK)) if row.alignment == written.method)
    yield from ((row, METHODS[row.judge]) for row in rows if row.judge)


def controlled_without_pairs(written: Written) -> Iterator[Diagnostic]:
    """A level of KL control chooses between methods that learn from pairs: without them it chooses none."""
    for row, judge in _with_judge(written):
        if written.asks_method == KL_CONTROL and written.lacks("data", judge.section):
            label = written.label(KL_CONTROL, f"calls for {row.name}, with a reward model that learns from pairs")
            reward = f" and set `alignment.{REWARDS}`" * (not written.has("alignment", REWARDS))
            help = (
                f'add data.{judge.section}, for example {judge.section} = "{SECTIONS[judge.section].examples[0]}"',
                f'or replace `alignment.kl_control` by `alignment.method = "{row.alignment}"`{reward}: answers to '
                "prompts are then judged by what you name",
            )
            title = f"`alignment.kl_control = high` without data.{judge.section}"
            yield Diagnostic("E0401", title, (label,), help)


def judged_twice(written: Written) -> Iterator[Diagnostic]:
    """A recipe names its reward, or has rows from which a judge is trained: not both."""
    for _row, judge in _with_judge(written):
        if written.has("alignment", REWARDS) and written.has("data", judge.section):
            labels = (
                written.label(("alignment", REWARDS), "judges the answers"),
                written.label(("data", judge.section), "would train a reward model, which is then not needed"),
            )
            help = (f"remove data.{judge.section}, or alignment.{REWARDS}: a reward model is then trained first",)
            yield Diagnostic(
                "E0401", f"data.{judge.section} beside `alignment.{REWARDS}` teaches nothing", labels, help
            )
