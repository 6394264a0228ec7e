"""When a training is evaluated and saved, and which evaluations count where some have no checkpoint."""

from __future__ import annotations

from recipec.backends.job import StageJob
from recipec.backends.parts import Import, Part, lines
from recipec.render.call import Arg
from recipec.render.literals import py
from recipec.render.traced import Raw
from recipec.rules.intervals import saves_in, steps_apart

SHORT_RUN_SHARE = 0.5  # our decision: a run cut short with --max-steps evaluates and saves half way and at its end
NO_CHECKPOINT = "none: only the last step would write one, just before the result"
_BEST = "best_of_saved"  # of preflight.py


def saves_apart(stage: StageJob) -> bool:
    """Whether some evaluations have a checkpoint and others have none."""
    return bool(stage.value("save_every") != stage.value("eval_every")) and saves(stage) > 0


def saves(stage: StageJob) -> int:
    """How many checkpoints the stage writes, of which the best can be loaded; 0: none, as only the last step would."""
    return saves_in(stage.value("eval_every"), stage.value("save_every"), stage.plan.steps, _taught(stage))


def _taught(stage: StageJob) -> int:
    """Steps that learn from one generation of answers: no checkpoint has the answers."""
    return stage.plan.work.steps_taught


def saving_note(stage: StageJob) -> str:
    """What is said of the interval of checkpoints where it is not that of evaluations."""
    return "a multiple of eval_steps" if saves_apart(stage) else ""


def interval(stage: StageJob, name: str, id: str, note: str = "") -> Arg:
    """A share of the planned steps, or whole steps where two shares would be rounded up apart, or answers wait for the
    next update; of a run of 20 steps a share would be every step."""
    taught = _taught(stage)
    if id == "save_every" and not saves(stage):
        return Arg(name, 0, stage.ids("save_every", "eval_every", "total_steps"), NO_CHECKPOINT)
    planned, apart = stage.value(id), saves_apart(stage) or taught > 1
    if apart:
        each, saved = steps_apart(stage.value("eval_every"), stage.value("save_every"), stage.plan.steps, taught)
        planned = saved if id == "save_every" else each
    both = ("eval_every", "save_every")
    if taught > 1:
        shared = (id for id in ("updates", "answer_passes") if id in stage.plan.decisions)
        return Arg(name, planned, stage.ids(*both, "total_steps", *shared), "between two generations")
    ids = stage.ids(*both, "total_steps") if apart else stage.ids(*both)
    if planned == SHORT_RUN_SHARE:
        return Arg(name, stage.traced(id, planned), ids, note)
    value = f"{py(stage.traced(id, planned))} if args.max_steps == {py(stage.traced('max_steps'))}"
    return Arg(name, Raw(f"{value} else {SHORT_RUN_SHARE}"), ids, note)


def best_part(stage: StageJob) -> Part:
    """What has only saved evaluations judged, and keeps the log of a run that has no checkpoint for it."""
    ids = stage.ids("save_every", "eval_every")
    if not saves(stage):
        return Part(before_saving=lines(ids, "trainer.save_state()  # the log of the run, which no checkpoint has"))
    if not saves_apart(stage):
        return Part()
    return Part(
        own_imports=(Import("preflight", _BEST, ids),),
        after_trainer=lines(ids, f"{_BEST}(trainer)  # some evaluations have no checkpoint"),
    )
