"""rows.py beside a stage's train.py: how its rows become tokens, for preflight.py and for evaluate.py."""

from __future__ import annotations

from recipec.axes.row_formats import IDS
from recipec.backends.job import StageJob
from recipec.backends.methods import BACKENDS
from recipec.backends.models import MARKED_TEMPLATE, bundle_root
from recipec.render.artifact import Artifact
from recipec.render.environment import snippet
from recipec.render.traced import Raw

_WIDTH = 120 - len("COLUMNS = ")
PREPARED = "prepared"  # of rows.py: reads a file of prepared rows


def rows_artifact(stage: StageJob) -> Artifact:
    """What evaluate.py and preflight.py ask of the stage's rows."""
    ids = stage.ids("data_format", "loss_on", "stage")
    trl = stage.kind.masked and stage.value("template") == "model" and not stage.marks_turns
    from_trl = stage.because(trl, "stage", "loss_on", "template", "template_marks")
    marks_turns = stage.because(stage.marks_turns, "stage", "loss_on", "template", "template_marks")
    names = {
        "turn_end": stage.because(stage.turn_end, "template_end", "template"),
        "turns": stage.because(stage.format.turns, "data_format"),
        "from_trl": from_trl,
        "marks_turns": marks_turns,
        "tools": stage.carries_tools,
        "thinks_not": stage.thinks_not,
    }
    templates = (f"rows/{stage.kind.template}.py.j2", BACKENDS[stage.method.name].taught)
    return Artifact(
        f"{stage.folder}rows.py",
        ids,
        "rows.py.j2",
        {
            "stage": stage.named,
            "writes": stage.because(stage.method.writes, "stage"),
            "from_trl": from_trl,
            "marks_turns": marks_turns,
            "bundle_root": bundle_root(stage),
            "marked_template": MARKED_TEMPLATE,
            "has_prompt": stage.because("prompt" in stage.kind.columns and bool(stage.kind.taught), "stage", "loss_on"),
            "tools": stage.because(stage.carries_tools, "data_format"),
            "thinks_not": stage.because(stage.thinks_not, "reasoning"),
            "features": stage.because(_features(stage), "data_format", "reasoning"),
            "mixes_fields": stage.because(stage.mixes_fields, "data_format", "reasoning"),
            "texts": stage.because(_holds_texts(stage), "data_format"),
            "of_datasets": stage.because(_of_datasets(stage), "data_format", "reasoning"),
            "functions": [snippet(template, names, ids) for template in templates],
        },
    )


def _features(stage: StageJob) -> Raw:
    """The types of the prepared columns; of token ids the file shows them, so that none need be stated."""
    if stage.shape.content == IDS:
        return Raw("")
    tools = ["tools"] * any(other.carries_tools for other in stage.job.stages)
    handed = ["judged_by"] * bool(stage.shape.handed)
    texts = 'Value("string")' if _holds_texts(stage) else "List(Json())"
    types = {stage.kind.flag: 'Value("bool")', "length": 'Value("int64")'}
    types |= dict.fromkeys(("tools", "judged_by"), 'Value("string")')
    columns = (*stage.kind.columns, *handed, *tools, "length")
    found = [f'"{name}": {types.get(name, texts)}' for name in columns]
    inline = f"Features({{{', '.join(found)}}})"
    if len(inline) <= _WIDTH:
        return Raw(inline)
    return Raw("Features(\n    {\n" + "".join(f"        {one},\n" for one in found) + "    }\n)")


def _of_datasets(stage: StageJob) -> Raw:
    """What rows.py takes from datasets."""
    text = _features(stage)
    used = [name for name in ("Features", "Json", "List", "Value") if f"{name}(" in text]
    return Raw(", ".join(["Dataset", *used, *["load_dataset"] * (not stage.mixes_fields and not _holds_texts(stage))]))


def _holds_texts(stage: StageJob) -> bool:
    """Whether the rows are raw text, and no messages."""
    return not stage.format.turns and stage.shape.content != IDS
