"""The recipe that `recipec init` writes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from recipec.cli.init_proposals import Proposal
from recipec.diagnostics.printable import printable

_TEXT = """\
#:schema recipe.schema.json
# What to train, on what, with what data. What is absent is decided: `recipec plan` shows each decision and its reason.

[recipe]
name = {name}
# description = "One sentence for the README and the model card."

[goal]
task = {task}
# priority = "speed"           # quality | speed | memory

[model]
name = {model}

[data]
{data_key} = {data}
# eval = "data/eval.jsonl"     # absent: a share of the rows above is kept back
# max_length = 2048            # in tokens; absent: measured on the rows

[hardware]
gpu = {gpu}
gpus_per_node = {gpus}

# Your own values win over the decisions; take the # away from what you want to set.
# [train]
# epochs = 2
# learning_rate = 1e-4
{adaptation}
# [budget]
# max_cost_usd = 50            # refuse a plan that costs more
"""
_ADAPTATION = '# adaptation = "lora"          # lora | qlora | full\n'


def recipe_text(answers: Mapping[str, Proposal], folder: Path) -> str:
    """The recipe for `folder`; the path of the data is written relative to it."""
    data = Proposal(_relative(answers["data"].value, folder), answers["data"].because)
    values = {name: _literal(answer) for name, answer in answers.items()} | {"data": _literal(data)}
    values["gpus"] = answers["gpus"].value + _reason(answers["gpus"])
    task = answers["task"].value
    key = "preferences" if task == "align" else "train"
    return _TEXT.format(**values, data_key=key, adaptation="" if task == "pretrain" else _ADAPTATION)


def _relative(path: str, folder: Path) -> str:
    return path if os.path.isabs(path) else Path(os.path.relpath(path, folder)).as_posix()


def _literal(answer: Proposal) -> str:
    """A TOML string with its reason as a comment; JSON's escapes are TOML's, but for DEL."""
    quoted = json.dumps(answer.value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return quoted + _reason(answer)


def _reason(answer: Proposal) -> str:
    return f"  # {printable(answer.because)}" if answer.because else ""
