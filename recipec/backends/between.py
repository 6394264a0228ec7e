"""What README.md says of a stage's result to whoever uses it: what judges answers, and what must be right before."""

from __future__ import annotations

from recipec.backends.job import StageJob


def judged_by(stage: StageJob) -> str:
    """What judges the answers: a model, or functions of the user's files."""
    if stage.judge:
        return (
            f"the result of stage {stage.judge.name} scores every answer; it is loaded frozen and is not trained here"
        )
    rewards = stage.job.facts.rewards
    models = [f"{judge.model.name} (logged as {judge.name})" for judge in rewards.models]
    names = [reward.name for reward in rewards.functions]
    files = " and ".join(dict.fromkeys(reward.file for reward in rewards.functions))
    copied = f"; {stage.folder}functions/ has a copy of your {files}: edit yours, and build again"
    scored = [f"answers are scored by {' and '.join(models)}, loaded frozen"] * bool(models)
    environment = stage.job.facts.acting.judges if stage.acts else ""
    of_episodes = [f"get_reward of {environment} judges every answer (logged as {environment}, weight 1)"]
    functions = [f"functions judge the answers: {', '.join(names)}{copied}"] * bool(names)
    return "; ".join([*scored, *functions, *of_episodes * bool(environment)])


def acts_with(stage: StageJob) -> str:
    """What a model may call while it writes an answer, and how long it may; empty where answers are of one turn."""
    if not stage.acts:
        return ""
    acting = stage.job.facts.acting
    files = " and ".join(dict.fromkeys(part.file for part in (*acting.functions, *filter(None, [acting.environment]))))
    rounds, tokens = stage.value("tool_rounds"), stage.value("result_tokens")
    return (
        f"{', '.join(acting.names)}, in up to {rounds} rounds of calls; a result has {tokens} tokens of about 4 "
        f"characters at most, and none of them is learned. {stage.folder}functions/ has a copy of your {files}: edit "
        "yours, and build again"
    )


def before_next(stage: StageJob) -> str:
    """What has to be right before a later stage uses the result; empty where none does."""
    after = [
        other for other in stage.job.stages if stage.name in (other.plan.stage.starts_from, other.plan.stage.judge)
    ]
    if not after:
        return ""
    used = f"{' and '.join(other.name for other in after)} use{'s' * (len(after) == 1)} this result"
    if stage.judges:
        return (
            f"{used} as the judge of answers. Read `accuracy` and `length_correlation` in `outputs/{stage.name}`: "
            "where the accuracy on held-out pairs is near 50%, or scores follow the length of answers, "
            f"{after[-1].name} learns the judge's mistakes; add pairs before you go on"
        )
    if stage.method.of_text:
        return (
            f"{used}. Compare `perplexity` before and after in `outputs/{stage.name}`: where it did not fall on "
            "held-out text of the domain, correct this stage before you go on; later stages start from it. "
            f"{_forgotten(stage)} Held-out questions of later stages are not looked for in the text"
        )
    return (
        f"{used}. Compare the evaluations before and after in `outputs/{stage.name}`: where `eval_loss` did not fall, "
        "correct this stage before you go on; later stages start from it"
    )


def _forgotten(stage: StageJob) -> str:
    """How to see what a stage has forgotten, and what to do about it."""
    if stage.replays:
        return "`general_perplexity` tells what the model forgot: where it rose much, raise `data.replay`."
    return (
        "Nothing measures what the model forgets: name general text as `general` under [data], which replays a share "
        "of it and measures the rest (REPLAY-001)."
    )
