"""Which stages follow from the rows of a recipe, as the planner runs them."""

from __future__ import annotations

from collections.abc import Mapping

from recipec.axes import METHODS, Method
from recipec.axes.method import ENVIRONMENT, REWARDS
from recipec.facts.data import DataFacts, preference_format, train_format
from recipec.recipe import LoadedRecipe
from recipec.recipe.schema import AUTO
from recipec.rules import goal

Data = Mapping[str, DataFacts]


def stages_that_run(loaded: LoadedRecipe, data: Data) -> tuple[str, ...]:
    """The stages that follow from the rows, as the planner runs them; none where no stage can."""
    task, named, level = loaded.recipe.goal.task, loaded.method, loaded.recipe.alignment.kl_control or "low"
    held, preferred = train_format(data).value, preference_format(data).value
    judged = any(loaded.value("alignment", key) for key in (REWARDS, ENVIRONMENT))
    method = goal.alignment_method(task, preferred, level).value if named in (None, AUTO) else named
    return goal.stages(task, held, preferred, method, judged, [*data]).value


def that_read(section: str, loaded: LoadedRecipe, data: Data) -> tuple[Method, ...]:
    """The stages that run and read a section of [data]: which method is named or follows makes no difference."""
    running = map(METHODS.__getitem__, stages_that_run(loaded, data))
    return tuple(row for row in running if row.rows_in(data) == section)
