"""Run as a program: the language with a row of BCO and one of a row format, which no package is told of.

Reads named recipes from standard input and prints what the front half of the compiler says of each.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from msgspec.structs import replace

from recipec.axes import KINDS, METHODS, ROW_FORMATS

DPO = METHODS["dpo"]
BETA = DPO.own[0]
WEIGHT = replace(
    BETA,
    id="BCO-002",
    name="vote_weight",
    key="vote_weight",
    argument="vote_weight",
    title="Vote weight",
    description="The weight of good answers.",
    value=1.0,
    accepts=(0.5, 2.0),
    most=100,
)
BCO = replace(
    DPO,
    name="bco",
    title="binary classifier optimization",
    alignment="bco",
    means="binary classifier optimization, from single answers",
    formats=("voted-answer",),
    kinds=("voted",),
    trainer="BCOTrainer",
    config="BCOConfig",
    own=(replace(BETA, id="BCO-001", name="bco_beta", most=1), WEIGHT),
)
UNPAIRED = ROW_FORMATS["unpaired-preference"]
VOTED = replace(
    UNPAIRED,
    name="voted-answer",
    means="a prompt, an answer, and a vote for or against the answer",
    kind="voted",
    roles=(*UNPAIRED.roles[:2], replace(UNPAIRED.role("label"), name="vote", aliases=("vote",), becomes="vote")),
    recognized="`prompt`, `completion` and a `vote` that is true or false",
    usual="bco",
)


def add_rows() -> None:
    """What adding a method and a format comes to."""
    known = dict(ROW_FORMATS)
    ROW_FORMATS.clear()
    ROW_FORMATS.update({VOTED.name: VOTED} | known)
    KINDS["voted"] = replace(KINDS["unpaired"], name="voted", columns=("prompt", "completion", "vote"), flag="vote")
    METHODS["bco"] = BCO


def said_of(folder: Path, recipe: str) -> dict[str, object]:
    """The format of each section and the wishes for BCO, or the code, the title and the labels of each error."""
    from recipec.diagnostics.model import Report
    from recipec.facts import gather
    from recipec.recipe import load_recipe

    path, report = folder / "recipe.toml", Report()
    path.write_text(recipe)
    loaded = load_recipe(path, report)
    given = gather(loaded, report) if loaded else None
    if loaded is None or given is None:
        labels = [" ".join(label.message for label in found.labels) for found in report.diagnostics]
        return {"errors": [f"{f.code} {f.title} ({said})" for f, said in zip(report.diagnostics, labels, strict=True)]}
    found = loaded.wishes("bco", last=True).items()
    wishes = {key: wish.value for key, wish in found if not key.startswith("data.")}
    return {"formats": {name: facts.shape.format for name, facts in given.data.items()}, "wishes": wishes}


def printed(*arguments: str) -> str:
    """What a command prints."""
    from click.testing import CliRunner

    from recipec.cli.group import recipec

    return CliRunner().invoke(recipec, arguments).stdout


def published() -> dict[str, object]:
    """The definitions of the JSON Schema, made anew."""
    from recipec.recipe.json_schema import recipe_json_schema

    return recipe_json_schema()["definitions"]


def proposed(file: str) -> str:
    """The recipe that init would write for a file."""
    from recipec.cli.init import recipe_text
    from recipec.cli.init_questions import propose_all

    return recipe_text(propose_all(Path("new"), {"data": file, "gpu": "h100"}), Path())


if __name__ == "__main__":
    add_rows()
    found = {name: said_of(Path(), recipe) for name, recipe in json.load(sys.stdin).items()}
    lists = {what: json.loads(printed("list", what, "--json"))[what] for what in ("methods", "formats")}
    print(json.dumps({"recipes": found, "lists": lists, "schema": published(), "init": proposed("marked.jsonl")}))
