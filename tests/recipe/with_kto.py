"""Run as a program: the language with a row of KTO and one of its row format, which no package is told of.

Reads named recipes from standard input and prints what the front half of the compiler says of each.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from recipec.axes import KINDS, METHODS, ROW_FORMATS, Kind, Own, Role, RowFormat

DPO, PAIRS = METHODS["dpo"], ROW_FORMATS["preference"]
BETA = DPO.own[0]
WEIGHT = Own(
    id="KTO-002",
    name="desirable_weight",
    key="desirable_weight",
    argument="desirable_weight",
    title="Desirable weight",
    description="The weight of good answers.",
    value=1.0,
    because="as many good answers as bad ones",
    source="KTO (arXiv 2402.01306, 2024)",
    accepts=(0.5, 2.0),
    above=0,
    most=100,
    values=None,
    changes={},
    watch="rewards/chosen: rises",
    page="Decides the weight of good answers: 1.",
)
KTO = replace(
    DPO,
    name="kto",
    title="Kahneman-Tversky optimization",
    alignment="kto",
    means="Kahneman-Tversky optimization, from single answers",
    formats=("unpaired-preference",),
    trainer="KTOTrainer",
    config="KTOConfig",
    own=(replace(BETA, id="KTO-001", most=1), WEIGHT),
)
UNPAIRED = RowFormat(
    name="unpaired-preference",
    means="a prompt, an answer, and whether the answer is good",
    kind="unpaired",
    roles=(
        replace(PAIRS.role("prompt"), required=True),
        Role(name="completion", aliases=("completion", "response"), required=True, holds=("strings", "messages")),
        Role(name="label", aliases=("label",), required=True, holds=("flags",)),
    ),
    splits=False,
    loss_on="completion",
    turns=True,
    wraps=True,
    implicit="",
    recognized="`prompt`, `completion` and a `label` that is true or false",
    usual="kto",
)


def add_rows() -> None:
    """What adding a method and a format comes to."""
    known = dict(ROW_FORMATS)
    ROW_FORMATS.clear()
    ROW_FORMATS.update({UNPAIRED.name: UNPAIRED} | known)
    KINDS["unpaired"] = Kind(
        name="unpaired",
        columns=("prompt", "completion", "label"),
        taught=("completion",),
        scored="",
        template="unpaired",
    )
    METHODS["kto"] = KTO


def said_of(folder: Path, recipe: str) -> dict[str, object]:
    """The format of each section and the wishes for KTO, or the code, the title and the labels of each error."""
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
    found = loaded.wishes("kto", last=True).items()
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
