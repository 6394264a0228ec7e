"""The planner: from what is given and what the rules prefer to how every stage runs, with the alternatives."""

from recipec.planner.plan import Plan, Rejected, Stage, StagePlan
from recipec.planner.planner import plan_recipe, plan_without_judge

__all__ = ["Plan", "Rejected", "Stage", "StagePlan", "plan_recipe", "plan_without_judge"]
