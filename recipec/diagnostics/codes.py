"""The single table of diagnostic codes.

The first two digits say what kind of thing is wrong: 00 reading files, 01 TOML syntax, 02 the recipe language, 03 facts
we do not have, 04 contradictions and impossible wishes, 05 risks, 07 the output folder, 08 recipec's own rows of data.
E is an error, W a warning that `[recipe] allow` can silence. A code is never reused (W0507 was one).
"""

from __future__ import annotations

from pathlib import Path

CODES: dict[str, str] = {
    "E0001": "file not found",
    "E0002": "file cannot be read",
    "E0003": "file is not UTF-8",
    "E0004": "file starts with a byte order mark",
    "E0005": "recipe file is too large",
    "E0006": "forbidden character",
    "E0007": "extended recipe not found",
    "E0008": "circular extends",
    "E0009": "too many extended recipes",
    "E0101": "not valid TOML",
    "E0102": "tables nested too deeply",
    "E0103": "number too large for TOML",
    "E0201": "missing key",
    "E0202": "wrong type",
    "E0203": "unknown key",
    "E0204": "invalid value",
    "E0205": "number out of range",
    "E0206": "malformed text",
    "E0207": "list or table is empty or too long",
    "E0301": "unknown model",
    "E0302": "unknown GPU",
    "E0303": "data file not found",
    "E0304": "unusable data",
    "E0305": "data format not recognized",
    "E0306": "unusable local model folder",
    "E0307": "unknown model family or license",
    "E0308": "rows with unsupported content",
    "E0309": "ambiguous training of thoughts",
    "E0310": "unusable reward function",
    "E0311": "unusable adapter",
    "E0312": "unusable new tokens",
    "E0313": "unusable tools or environment",
    "E0401": "contradiction",
    "E0402": "does not fit",
    "E0403": "over budget",
    "E0404": "policy broken",
    "E0405": "unsupported combination",
    "E0406": "secret in the recipe",
    "E0407": "value reserved for recipec",
    "E0408": "no suitable model found",
    "E0410": "plan cannot be built yet",
    "E0411": "training would change nothing",
    "E0412": "measurements of another machine",
    "E0413": "impossible measurement",
    "E0414": "adapters that cannot be combined",
    "W0501": "value outside the usual range",
    "W0502": "unused allow",
    "W0503": "idle GPUs",
    "W0504": "combination not recommended",
    "W0505": "too little host memory",
    "W0506": "too few tokens for pretraining",
    "W0508": "very few optimizer steps",
    "W0509": "data size is assumed",
    "W0510": "global batch size changed",
    "W0511": "only one label in the sample",
    "W0512": "ambiguous short name",
    "W0513": "hardware key without effect",
    "W0514": "teacher smaller than the student",
    "W0516": "unused columns",
    "W0517": "incomplete model folder",
    "W0518": "rows not checked",
    "W0519": "slow network between nodes",
    "W0520": "few CPU cores",
    "W0521": "model treated as a base model",
    "W0522": "training disables thinking",
    "W0523": "hardware is assumed",
    "W0524": "outdated measurements",
    "W0525": "thoughts longer than answers may be",
    "W0531": "held-out questions not compared",
    "W0532": "messages after the last answer",
    "W0533": "thoughts in prompts",
    "W0534": "end-of-turn token in a message",
    "W0535": "rows longer than max_length",
    "W0536": "LoRA became QLoRA",
    "W0537": "answers that repeat their prompt",
    "W0538": "reward file imports what is not installed",
    "W0540": "new domain without its raw text",
    "W0542": "rows without an answer or a question",
    "W0545": "a key of memory decides what is trained",
    "W0546": "value without effect",
    "W0549": "too few general rows to replay",
    "W0550": "pairs with the same answer on both sides",
    "W0551": "files of bundles left out",
    "W0552": "rows that contradict others",
    "W0553": "many exact duplicates",
    "W0554": "rows that ask what is held out from them",
    "W0555": "stated number of rows differs from the files",
    "W0556": "reward for a value anywhere in an answer",
    "W0557": "calls of tools that rows do not name",
    "E0701": "output folder contains other files",
    "E0702": "output cannot be written",
    "E0703": "output folder belongs to another recipe",
    "E0704": "damaged bundle records",
    "E0801": "contradictory rows in recipec",
    "W0701": "merge conflicts",
}

_PAGES = Path(__file__).parent / "pages"


def explain(code: str) -> str | None:
    """Return the page of a diagnostic code as Markdown, None when there is no such code."""
    code = code.upper()
    if code not in CODES:
        return None
    return (_PAGES / f"{code}.md").read_text(encoding="utf-8")
