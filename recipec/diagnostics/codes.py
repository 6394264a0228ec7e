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
    "E0004": "file begins with a byte order mark",
    "E0005": "file is too large for a recipe",
    "E0006": "forbidden character in a string",
    "E0007": "extended recipe not found",
    "E0008": "recipes extend each other in a loop",
    "E0009": "too many recipes extended",
    "E0101": "not valid TOML",
    "E0102": "nested too deeply",
    "E0103": "number too large for TOML",
    "E0201": "missing key",
    "E0202": "wrong type",
    "E0203": "unknown key",
    "E0204": "not one of the allowed values",
    "E0205": "number out of range",
    "E0206": "text of the wrong form",
    "E0207": "list or table of the wrong size",
    "E0301": "unknown model",
    "E0302": "unknown GPU",
    "E0303": "data file not found",
    "E0304": "data cannot be used",
    "E0305": "data format not recognized",
    "E0306": "local model folder cannot be used",
    "E0307": "unknown model family or license",
    "E0308": "rows with more than is learned",
    "E0309": "rows that can be learned in several ways",
    "E0310": "reward function that cannot be used",
    "E0311": "adapter that cannot be trained on",
    "E0401": "contradiction",
    "E0402": "does not fit",
    "E0403": "over budget",
    "E0404": "policy broken",
    "E0405": "combination known to fail",
    "E0406": "secret in the recipe",
    "E0407": "value that recipec sets itself",
    "E0408": "no model to choose",
    "E0410": "plan that cannot be built yet",
    "E0411": "nothing would be learned",
    "E0412": "measurements of another machine",
    "E0413": "impossible measurement",
    "W0501": "value outside the range of its rule",
    "W0502": "unused allow",
    "W0503": "GPUs left idle",
    "W0504": "combination advised against",
    "W0505": "too little host memory",
    "W0506": "few tokens to pretrain on",
    "W0508": "very few optimizer steps",
    "W0509": "size of the data assumed",
    "W0510": "global batch not met",
    "W0511": "one label in the sample",
    "W0512": "name that several share",
    "W0513": "hardware key without effect",
    "W0514": "smaller model to learn from",
    "W0516": "columns that nothing reads",
    "W0517": "model folder not complete",
    "W0518": "rows not checked",
    "W0519": "slow network between nodes",
    "W0520": "few CPU cores",
    "W0521": "model taken for a base model",
    "W0522": "model that learns not to think",
    "W0523": "machine that is assumed",
    "W0524": "measurements out of date",
    "W0531": "held-out questions that are not compared",
    "W0532": "messages behind the last answer",
    "W0533": "thoughts in prompts",
    "W0534": "text that ends a turn",
    "W0535": "rows longer than max_length",
    "W0536": "adapter on a quantized base",
    "E0701": "output folder holds other files",
    "E0702": "output cannot be written",
    "E0703": "output folder is another recipe's bundle",
    "E0704": "records of the bundle are damaged",
    "E0801": "rows of recipec contradict each other",
    "W0701": "edits in conflict",
}

_PAGES = Path(__file__).parent / "pages"


def explain(code: str) -> str | None:
    """Return the page of a diagnostic code as Markdown, None when there is no such code."""
    code = code.upper()
    if code not in CODES:
        return None
    return (_PAGES / f"{code}.md").read_text(encoding="utf-8")
