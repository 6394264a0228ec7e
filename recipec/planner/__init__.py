"""The planner: from what is given and what the rules prefer to how every stage runs, with the alternatives."""

from recipec.planner.others import other_plans
from recipec.planner.plan import Plan, Rejected, Selection, Stage, StagePlan
from recipec.planner.planner import contexts, plan_recipe
from recipec.planner.search.candidates import forget
from recipec.planner.search.context import Context

__all__ = [
    "Context",
    "Plan",
    "Rejected",
    "Selection",
    "Stage",
    "StagePlan",
    "contexts",
    "forget",
    "other_plans",
    "plan_recipe",
]
