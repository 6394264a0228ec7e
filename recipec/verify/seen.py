"""What a training and its evaluations did, as the shim noted it, against the plan and the prepared rows.

The settings, the optimizer's steps, the tokens that reach the model, and those that evaluate.py scores and asks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from recipec.axes import KINDS
from recipec.axes.adaptations import PROMPTS
from recipec.verify.bundle import Bundle, BundleStage
from recipec.verify.losses import check_loss
from recipec.verify.report import VerifyReport
from recipec.verify.static.planned import planned_arguments

NORM_TOLERANCE = 0.02  # of the largest norm of clipped gradients: the rounding of bf16
# What emitted code sets after the arguments were built -> to what alone; "" for anything.
SET_LATER = {
    "fsdp_plugin_args": "",  # built from a file, and completed with the number formats of FSDP
    "model_init_kwargs": "None",  # train.py loads the model with them where it goes on with an adapter
}
_SHOWN = 12  # tokens of a wrong sequence, in a message

Encoded = tuple[Sequence[int], Sequence[int] | None]  # tokens, and marks of the learned ones
Rows = Sequence[Sequence[Encoded]]  # of each row its answers


def patches_of(bundle: Bundle, answers: Mapping[str, Sequence[Sequence[str]]], folder: Path) -> dict[str, Any]:
    """What the shim is asked to note; `answers` by training script, and `folder` is where evaluations are noted."""
    names = sorted({name for stage in bundle.stages for name in planned_arguments(stage)})
    where = dict.fromkeys(("scored", "scored_adapters", "written"), str(folder))
    return {"built_arguments": str(bundle.root), "witness": {"names": names, "answers": dict(answers)}, **where}


def check_training(
    stage: BundleStage, seen: Mapping[str, Any], patches: Mapping[str, Any], report: VerifyReport
) -> None:
    """Hold the notes of a stage's training to its plan."""
    if not seen:
        report.add(f"{stage.name}: its training was observed", "seen.json is missing: no training began")
        return
    planned = kept_arguments(stage, patches)
    said = f"{len(planned)} planned arguments, and all others as training_config made them"
    report.add(f"{stage.name}: training uses the planned settings", setting_problems(seen, planned), said)
    steps = seen["steps"]
    said = f"weight decay {steps['decay']}, the largest norm of gradients {steps['largest_norm']:.3g}"
    report.add(f"{stage.name}: optimizer steps decay and clip as planned", step_problems(stage, steps), said)
    if not stage.method.generates:
        given = [*seen["batches"], *seen["inputs"]]
        said = f"{sum(map(len, given))} sequences of {len(given)} batches are rows of train.jsonl"
        problems = [*batch_problems(stage, seen), *flag_problems(stage, seen)]
        report.add(f"{stage.name}: the model learns what train.jsonl holds", problems, said)
        check_loss(stage, seen, report)


def kept_arguments(stage: BundleStage, patches: Mapping[str, Any]) -> dict[str, Any]:
    """The planned arguments that no substitution changes."""
    own = patches.get("script-arguments", {}).get(f"{stage.folder}train.py", {})
    changed = {*patches.get("arguments", {}), *patches.get("limits", {}), *own}
    return {name: value for name, value in planned_arguments(stage).items() if name not in changed}


def setting_problems(seen: Mapping[str, Any], planned: Mapping[str, Any]) -> list[str]:
    """Arguments that code of the bundle changed after they were built, or that are not the planned ones."""
    values = seen["values"]
    changed = {
        name: (built, now)
        for name, (built, now) in seen["changed"].items()
        if name not in SET_LATER or SET_LATER[name] not in ("", now)
    }
    cure = "set it in training_config of train.py, and nowhere else"
    problems = [f"{name} becomes {now} when it was built as {built}: {cure}" for name, (built, now) in changed.items()]
    return problems + [
        f"{name} is {values[name]} while it trains, the plan says {value}"
        for name, value in planned.items()
        if name in values and name not in changed and not _same(values[name], value)
    ]


def _same(found: Any, planned: Any) -> bool:
    return (
        found == planned or found == [str(planned)] or (isinstance(planned, list) and found == list(map(str, planned)))
    )


def step_problems(stage: BundleStage, steps: Mapping[str, Any]) -> list[str]:
    """Steps that decay weights, average squares or clip gradients in another way than planned."""
    if not steps["count"]:
        return ["no optimizer made a step"]
    planned, problems = stage.decisions, []
    decay, beta2, norm = planned["weight_decay"], planned.get("adam_beta2"), planned["max_grad_norm"]
    if not {decay} <= {*steps["decay"]} <= {0.0, decay}:
        problems.append(f"the weight decay of the optimizer is {steps['decay']}, the plan says {decay}")
    if beta2 is not None and steps["beta2"] not in ([], [beta2]):
        problems.append(f"beta2 of the optimizer is {steps['beta2']}, the plan says {beta2}")
    if norm and steps["largest_norm"] > norm * (1 + NORM_TOLERANCE):
        problems.append(f"gradients of norm {steps['largest_norm']:.3g} reach the optimizer, the plan clips at {norm}")
    return problems


def batch_problems(stage: BundleStage, seen: Mapping[str, Any]) -> list[str]:
    """Batches whose sequences are not rows of train.jsonl with their learned tokens, whole or, packed, in parts."""
    rows, most = seen["rows"].get("train", []), stage.decisions["max_length"]
    given = [*seen["batches"], *seen["inputs"]]
    if not any(given):
        return ["no batch of tokens reached the model"]
    if stage.choice["packing"] or stage.method.of_text:
        whole = "".join(_text(each) for row in rows for each in row)
        strange = [each for batch in given for each in batch if _text(each)[1:] not in whole]
    else:
        strange = [each for batch in given for each in _strange(batch, rows, most)]
    if not strange:
        return []
    (tokens, marks), count = strange[0], sum(map(len, given))
    return [
        f"{len(strange)} of {count} sequences that the model is given are no row of train.jsonl with what rows.py says "
        f"is learned: look at the data collator and the loss in train.py. The first begins with the tokens "
        f"{tokens[:_SHOWN]}, of which {_learned(marks)}"
    ]


def flag_problems(stage: BundleStage, seen: Mapping[str, Any]) -> Iterator[str]:
    """Answers that are learned as wanted and are not so in train.jsonl, or the other way round."""
    rows, most = seen["rows"].get("train", []), stage.decisions["max_length"]
    told = {_key(row[0], most, False): flag for row, flag in zip(rows, seen["flags"].get("train", []), strict=True)}
    flags = (
        {_key(each, most, False): flag for each, flag in _flagged(seen)} if KINDS[stage.method.kinds[0]].flag else {}
    )
    wrong = [key for key, flag in flags.items() if key in told and bool(flag) is not bool(told[key])]
    if wrong:
        yield (
            f"{len(wrong)} of {len(flags)} answers have the other label than in train.jsonl: leave the column label "
            "as it is in train.py"
        )


def _flagged(seen: Mapping[str, Any]) -> Iterator[tuple[Encoded, bool]]:
    """The sequences of the batches that have labels, each with its own."""
    for batch, flags in zip(seen["batches"], seen["given_flags"], strict=True):
        yield from zip(batch, flags or (), strict=False)


def _learned(marks: Sequence[int] | None) -> str:
    if marks is None:
        return "nothing says what is learned"
    shifted = f", and {marks.count(2)} have the label of another token" if 2 in marks else ""
    return f"{marks.count(1)} are learned{shifted}"


def _strange(batch: Sequence[Encoded], rows: Rows, most: int) -> Iterator[Encoded]:
    """The sequences of a batch that are no row; of several answers, all the first ones come before the second ones."""
    answers = len(rows[0]) if rows else 1
    marked = all(marks is not None for _, marks in batch)
    known = [{_key(row[place], most, marked) for row in rows} for place in range(answers)]
    share = max(1, len(batch) // answers)
    for place, each in enumerate(batch):
        if _key(each, most, marked) not in known[min(place // share, answers - 1)]:
            yield each


def _key(sequence: Encoded, most: int, marked: bool) -> tuple:
    """What makes two sequences the same: no token foretells the first, so whether it is learned says nothing."""
    tokens, marks = sequence
    return (*tokens[:most],), (*marks[1:most],) if marked else ()


def _text(sequence: Encoded) -> str:
    """A sequence as a text, in which others can be looked for."""
    tokens, marks = sequence
    return "".join(chr(3 * token + mark) for token, mark in zip(tokens, marks, strict=True))


def check_evaluated(
    stage: BundleStage, rows: Mapping[str, Rows], folder: Path, found: Mapping[str, Any], report: VerifyReport
) -> None:
    """Hold what evaluate.py gave to its models to the held-out rows; `found`: what it wrote."""
    files = sorted(folder.glob(f"{stage.name}-*.json"))
    noted = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    held = (rows.get("test") or rows.get("eval") or [])[: found.get("rows", 0)]
    general = rows.get("general", [])[: found.get("general_rows", 0)]
    name = f"{stage.name}: evaluate.py scores and asks the held-out rows, without dropout and chance"
    problems = (
        [said for each in noted for said in evaluated_problems(stage, each, held, general)]
        if noted
        else ["no model ran"]
    )
    asked = sum(len(each["asked"]) for each in noted)
    said = f"{len(held) + len(general)} rows in {len(noted)} evaluations, {asked} questions"
    report.add(name, list(dict.fromkeys(problems)), said)


def evaluated_problems(stage: BundleStage, noted: Mapping[str, Any], held: Rows, general: Rows = ()) -> Iterator[str]:
    """What is wrong with one evaluation; `general`: rows that are scored, and not asked."""
    if "replay_rows" in stage.decisions and not general:
        yield "no general row is scored: look at GENERAL of evaluate.py"
    if noted["training"]:
        yield "a model is evaluated as in training, with dropout: call eval() in load() of evaluate.py"
    if noted["sampled"] and not stage.method.generates:
        yield "answers are drawn by chance: generate them with do_sample=False in evaluate.py"
    if stage.adapts.trains != PROMPTS and not stage.method.generates:
        yield from _scored_problems(stage, noted["sequences"], [*held, *general])
    if stage.method.writes and not stage.method.of_text:
        yield from _asked_problems(noted["asked"], held)


def _scored_problems(stage: BundleStage, scored: Sequence[Sequence[int]], held: Rows) -> Iterator[str]:
    most, found = stage.decisions["max_length"], {(*tokens,) for tokens in scored}
    wanted = {(*tokens[:most],) for row in held for tokens, _ in row}
    if stage.method.of_text:  # long ones are scored in windows
        wanted = {tokens for tokens in wanted if len(tokens) < most}
    if lost := wanted - found:
        yield f"{len(lost)} of {len(wanted)} held-out sequences are not scored whole: look at ROWS and MAX_LENGTH"
    if not stage.method.of_text and (more := found - wanted):
        yield f"{len(more)} sequences are scored that are no held-out row: look at ROWS and encode() of evaluate.py"


def _asked_problems(asked: Sequence[Sequence[int]], held: Rows) -> Iterator[str]:
    """Questions must reach up to where the first answer begins: to the learned tokens, behind what opens a turn."""
    beginnings = {_beginning(row) for row in held}
    wrong = [tokens for tokens in asked if not any((*tokens[: len(start)],) == start for start in beginnings)]
    if wrong:
        yield (
            f"{len(wrong)} of {len(asked)} questions do not reach up to where the answer of a held-out row begins: "
            "end each with the generation prompt of the chat template, and take it from the rows of test.jsonl"
        )


def _beginning(row: Sequence[Encoded]) -> tuple[int, ...]:
    tokens, marks = row[0]
    last = len(marks) - list(reversed(marks)).index(1) if 1 in marks else 0  # behind the last learned token
    while last and marks[last - 1]:
        last -= 1
    return (*tokens[:last],)
