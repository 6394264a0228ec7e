"""Planted rows go through prepare_data.py: what they say is learned, shown or refused by name, and no split shares one.

A run trains on plain rows, so it cannot see that tools, weights or thoughts of the user's rows get lost.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from glob import has_magic
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from recipec.axes import CARRIED
from recipec.dataset import TEXT_ENDINGS
from recipec.verify.bundle import BundleStage
from recipec.verify.data import PlacedData, place_rows
from recipec.verify.planted_leaks import (
    OPEN,
    Splits,
    asking_later,
    begun_problems,
    groups_of,
    held_groups,
    held_out,
    later_problems,
    leaks_of,
    shared_problems,
)
from recipec.verify.planted_length import filler_for
from recipec.verify.planted_lost import lost_problems
from recipec.verify.planted_rows import (
    LONG,
    Planted,
    Shared,
    alike,
    carrying,
    planted,
    unread_names,
    with_columns,
    with_fields,
    written,
)
from recipec.verify.process import Outcome
from recipec.verify.report import VerifyReport
from recipec.verify.rows import NoSample, Row, SourceData, StageData, bundle_data
from recipec.verify.run import answers_of, read_json
from recipec.verify.sandbox import PROBES, Sandbox, copy_bundle
from recipec.verify.stand_in import models_of

ROWS = 64  # planted in every source: a tenth is held out twice
PLAIN_ROWS = 12  # at least, that ask what no other row does
LEAKING = 6  # place of the row whose question, which the next row asks as well, other files hold out, too
LIMIT_SECONDS = 300.0
_FILE = ("path", "hub", "subset", "split")  # of a source: what makes it another file


class RefusedNames(Struct, frozen=True):
    """A case that prepare_data.py must refuse by these names."""

    stage: str
    names: Sequence[str]
    where: str  # columns, or fields of messages


class Met(Struct):
    """A file that several stages may read: its place among all of them, and what its rows were given."""

    place: int
    asked: Sequence[Shared] = ()
    filler: str | None = None  # None until the first stage that reads it has written it


class Planting(Struct):
    """All cases: the first is prepared and looked at, then those that must be refused, and those with leaks."""

    cases: list[dict[str, Any]] = field(default_factory=list)
    refused: list[RefusedNames] = field(default_factory=list)
    rows: dict[str, list[list[Planted]]] = field(default_factory=dict)  # stage -> what was planted in each source
    by_column: bool = False  # a column says which rows are split together


def check_planted(sandbox: Sandbox, report: VerifyReport) -> None:
    """Plant rows of every kind that the plan names, and rows with what nothing reads; prepare them; look."""
    told = bundle_data(sandbox.bundle.root / "prepare_data.py")
    data = {stage.stage: stage for stage in told.stages}
    root = sandbox.root / "planted"
    root.mkdir()
    try:
        planting = _plant(sandbox, data, root, told.split is not None)
    except NoSample as error:
        report.skip("planted rows", str(error))
        return
    outcome, answer = _prepare(sandbox, planting, root)
    if not outcome.ok:
        report.add("planted rows are prepared", outcome.tail())
        return
    _check_refused(planting, answer["codes"], report)
    if answer["codes"][0]:
        why = f"prepare_data.py fails on rows that hold what the plan names:\n{_last_lines(planting.cases[0])}"
        report.add("planted rows are prepared", why)
        return
    _check_later(planting, answer, report)
    for place, stage in enumerate(sandbox.bundle.stages):
        behind = sandbox.bundle.stages[place + 1 :]
        later = {group for other in behind for group in held_groups(answer["rows"][other.name])}
        _check_stage(stage, planting, data[stage.name], answer["rows"][stage.name], later, root, report)


def _plant(sandbox: Sandbox, data: Mapping[str, StageData], root: Path, by_column: bool) -> Planting:
    """Write the rows of every case."""
    bundle, planting = sandbox.bundle, Planting(by_column=by_column)
    over = sorted({name for stage in bundle.stages for name in stage.decisions.get("passed_over") or ()})
    met: dict[str, Met] = {}
    for stage in bundle.stages:
        planting.rows[stage.name] = _rows_of(sandbox, data[stage.name], over, met, stage, by_column)
    planting.cases.append(_case(sandbox, root / "carried", planting.rows, data, {}))
    for name, rows in planting.rows.items():
        source = data[name].sources[0]
        columns, fields = unread_names(source, rows[0][0].carries)
        if columns and not str(source.given.get("path", "")).endswith(TEXT_ENDINGS):
            _refuse(sandbox, root, planting, data, RefusedNames(name, columns, "columns"))
        if fields:
            _refuse(sandbox, root, planting, data, RefusedNames(name, fields, "fields of messages"))
    for place, stage in enumerate(bundle.stages[:-1]):
        _ask_later(sandbox, root, planting, data, stage, [other.name for other in bundle.stages[place + 1 :]])
    return planting


def _ask_later(
    sandbox: Sandbox,
    root: Path,
    planting: Planting,
    data: Mapping[str, StageData],
    stage: BundleStage,
    later: Sequence[str],
) -> None:
    """A case in which a stage asks what later ones hold out, if it has a file of its own to ask it in."""
    rows, sources = planting.rows[stage.name], data[stage.name].sources
    files = {json.dumps(source.given) for name in later for source in data[name].sources}
    others = sum(map(len, rows[1 : data[stage.name].trained])) + PLAIN_ROWS
    first = ROWS * (1 + sum(len(of.sources) for of in data.values()))
    asking = asking_later(stage, sources[0], rows[0][0].carries, first, others)
    if asking and json.dumps(sources[0].given) not in files:
        mine = [[*rows[0][len(LONG) : len(LONG) + PLAIN_ROWS], *asking], *rows[1:]]
        case = _case(sandbox, root / f"{stage.name}-later", planting.rows | {stage.name: mine}, data, {})
        planting.cases.append(case | {"stage": stage.name, "later": later, "open": [f"question-{n}" for n in OPEN]})


def _rows_of(
    sandbox: Sandbox,
    data: StageData,
    over: Sequence[str],
    met: dict[str, Met],
    stage: BundleStage,
    by_column: bool,
) -> list[list[Planted]]:
    """The rows of every source of a stage; files of held-out rows repeat questions of the first file, as leaks do.

    Rows of the first file that no column splits begin as others do.
    """
    numbers, found = [*_numbers(data, met)], []
    learned = sum(map(len, numbers[: data.trained]))
    leaks = len(numbers[0][LEAKING : LEAKING + 2])
    few = leaks and leaks <= stage.decisions["dropped_rows_limit"] * learned  # with more, preparation stops
    repeated = [Shared(repeats=numbers[0][LEAKING])] if few else []
    most = 0 if by_column else held_out(stage, learned)
    for place, source in enumerate(data.sources):
        carries, asked = carrying(stage, source, over), []
        if data.trained <= place < data.trained + data.held and source.format == data.sources[0].format:
            asked = repeated
        elif place == 0 and most and "messages" in source.columns:
            asked = alike(numbers[0][PLAIN_ROWS:], most)
        file = met[_file_of(source)]
        if file.filler is None:
            row = Planted(source, numbers[place][0], carries).row()
            drawn = _is_drawn(stage, data, place)  # a long row among few would be most of what is replayed
            file.filler = "" if drawn else filler_for(sandbox, stage, row, source.max_length)
            file.asked = asked
        found.append(planted(source, carries, numbers[place], file.filler, file.asked))
    return found


def _file_of(source: SourceData) -> str:
    return json.dumps([source.given.get(name) for name in _FILE])


def _numbers(data: StageData, met: dict[str, Met]) -> Iterator[range]:
    """Of the rows of each source, as many as it takes: others than those of every other file, of any stage."""
    for source in data.sources:
        start = ROWS * met.setdefault(_file_of(source), Met(len(met))).place
        yield range(start, start + min(held(source.given), source.given.get("take", ROWS)))


def held(given: Mapping[str, Any]) -> int:
    """The rows that a source can be given: a text file is one document, and a pattern matches many."""
    path = str(given.get("path", ""))
    return 1 if path.endswith(TEXT_ENDINGS) and not has_magic(path) else ROWS


def _refuse(
    sandbox: Sandbox, root: Path, planting: Planting, data: Mapping[str, StageData], refused: RefusedNames
) -> None:
    folder = root / f"{refused.stage}-{refused.where.split()[0]}"
    planting.cases.append(_case(sandbox, folder, planting.rows, data, {refused.stage: refused}))
    planting.refused.append(refused)


def _case(
    sandbox: Sandbox,
    folder: Path,
    rows: Mapping[str, Sequence[Sequence[Planted]]],
    data: Mapping[str, StageData],
    refused: Mapping[str, RefusedNames],
) -> dict[str, Any]:
    """A copy of the bundle and the rows that it reads, of one stage with what must be refused."""
    folder.mkdir()
    copy, split = copy_bundle(sandbox.bundle, folder), bundle_data(sandbox.bundle.root / "prepare_data.py").split
    placed = PlacedData("")
    for model in models_of(sandbox.bundle):
        if model.real_folder is not None:
            (link := model.folder(folder)).parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(model.folder(sandbox.root), target_is_directory=True)
    for name in refused_first(data, refused):
        for index, source in enumerate(data[name].sources):
            given = written(rows[name][index], split)
            if index == 0:
                given = [_spoiled(row, source, refused.get(name)) for row in given]
            place_rows(source.given, given, folder / "data", folder / "hub", placed)
    hub = {placed.hub[key]: sandbox.hub_data[key] for key in placed.hub}
    where = {"bundle": str(copy.root), "data_root": str(folder / "data"), "log": str(folder / "prepare.log")}
    return where | {"hub": hub}


def refused_first(stages: Iterable[str], refused: Collection[str]) -> list[str]:
    """The stages in the order in which their rows are written: the first that names a file writes it, for all."""
    return sorted(stages, key=lambda name: name not in refused)


def _spoiled(row: Row, data: SourceData, refused: RefusedNames | None) -> Row:
    """The row with what must be refused."""
    if refused is None:
        return row
    return with_columns(row, refused.names) if refused.where == "columns" else with_fields(row, data, refused.names)


def _prepare(sandbox: Sandbox, planting: Planting, root: Path) -> tuple[Outcome, dict[str, Any]]:
    """Run the probe over all cases."""
    policy = models_of(sandbox.bundle)[0]
    tokenizer = str(policy.folder(sandbox.root))
    stages = [
        {"name": stage.name, "folder": stage.folder, "tokenizer": tokenizer, "answers": answers_of(stage.method)}
        for stage in sandbox.bundle.stages
    ]
    given = {"cases": planting.cases, "stages": stages, "answer": str(root / "answer.json")}
    patches = {"hub-data": dict(sandbox.hub_data)} if sandbox.hub_data else {}
    command = ["python", str(PROBES / "planted.py"), json.dumps(given)]
    outcome = sandbox.run("planted", command, sandbox.environment(patches), LIMIT_SECONDS)
    return outcome, read_json(root / "answer.json")


def _check_refused(planting: Planting, codes: Sequence[int], report: VerifyReport) -> None:
    for refused, case, code in zip(planting.refused, planting.cases[1:], codes[1:], strict=False):
        text = Path(case["log"]).read_text(encoding="utf-8", errors="replace")
        problems = refusal_problems(refused.names, refused.where, code, text)
        said = f"{', '.join(refused.names)} in {refused.where} stop prepare_data.py, which names them"
        report.add(f"{refused.stage}: {refused.where} that nothing reads are refused by name", problems, said)


def _check_later(planting: Planting, answer: Mapping[str, Any], report: VerifyReport) -> None:
    for case, code in zip(planting.cases, answer["codes"], strict=True):
        if "later" not in case:
            continue
        name = f"{case['stage']}: it learns nothing that a later stage is judged by"
        if code:
            report.add(name, f"prepare_data.py fails on rows that ask what a later stage does:\n{_last_lines(case)}")
            continue
        asked, learned = answer["later"][case["stage"]]
        said = f"{len(asked)} questions that {', '.join(case['later'])} holds out are dropped from its rows"
        report.add(name, later_problems(asked, learned), said)


def refusal_problems(names: Sequence[str], where: str, code: int, output: str) -> list[str]:
    """Which of the names get lost without a word."""
    listed = ", ".join(names)
    if code == 0:
        return [
            f"prepare_data.py takes rows that have {listed} in {where} and does not say that it drops them: "
            "let it refuse names that COLUMNS and FIELDS do not list"
        ]
    unnamed = [name for name in names if name not in output]
    return [f"prepare_data.py stops without naming {', '.join(unnamed)}:\n{output[-1000:]}"] if unnamed else []


def _last_lines(case: Mapping[str, Any]) -> str:
    text = Path(case["log"]).read_text(encoding="utf-8", errors="replace")
    return "\n".join(text.splitlines()[-20:])


def _check_stage(
    stage: BundleStage,
    planting: Planting,
    data: StageData,
    splits: Splits,
    later: set[str],
    root: Path,
    report: VerifyReport,
) -> None:
    counted = read_json(root / "carried" / "bundle" / "data" / stage.name / "report.json")
    lost = sum(part.get("too_long", 0) for part in counted.values() if isinstance(part, dict))
    if lost:
        limit = data.sources[0].max_length
        why = f"{lost} of them are longer than max_length = {limit} with the stand-in's small vocabulary"
        report.skip(f"{stage.name}: planted rows", why)
        return
    wanted = [[row.wanted() for row in source] for source in planting.rows[stage.name]]
    found = [row for part in splits.values() for row in part]
    leaks = leaks_of(wanted, splits, planting.by_column, later)
    met = {*groups_of(found)}
    kept = [
        each
        for place, source in enumerate(wanted)
        for each in source
        if each.group not in leaks and (each.group in met or not _is_drawn(stage, data, place))
    ]
    problems = lost_problems(kept, found)
    rows = [row for source in planting.rows[stage.name] for row in source]
    means = dict.fromkeys(CARRIED[name].means for row in rows for name in row.carries.names)
    said = (
        f"{len(rows)} planted rows with {'; '.join(['questions and answers', *means])}, prepared and encoded by rows.py"
    )
    report.add(f"{stage.name}: prepare_data.py loses nothing of a row", problems, said)
    apart = ", ".join(f"{len(part)} in {name}" for name, part in sorted(splits.items()))
    dropped = f"; of {len(leaks)} that leaked, the other rows are dropped" if leaks else ""
    groups = len({*groups_of(found)})
    said = f"{groups} planted conversations or questions gave {apart}, and none is in two of them{dropped}"
    shared = [*shared_problems(splits), *begun_problems(wanted, splits)]
    report.add(f"{stage.name}: no conversation is in two splits", shared, said)


def _is_drawn(stage: BundleStage, data: StageData, place: int) -> bool:
    """Whether preparation takes some of a source's rows and leaves others: general ones, of which it draws a share."""
    return "replay_rows" in stage.decisions and place >= data.trained + data.held
