"""planted.py JSON: prepare several data sets with copies of a bundle's prepare_data.py, and tell what is learned.

The libraries are imported once; each script runs in a fork. The answer, in the file `answer`: the exit code of each
case, and of the case that is looked at every prepared row as text, with the stretches of it that are learned.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import runpy
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import datasets  # noqa: F401  what the scripts import, once for all forks
import trl.chat_template_utils
import trl.data_utils  # noqa: F401
from transformers import AutoTokenizer, PreTrainedTokenizerBase


def ask_what_is_held(case: dict[str, Any], first: Path) -> list[str]:
    """Put questions that later stages hold out, in the case that is looked at, for those that a case leaves open."""
    held = []
    for name in case["later"]:
        for split in ("test", "eval"):
            held += plain_questions((first / "data" / name / f"{split}.jsonl").read_text())
    chosen = dict(zip(case["open"], dict.fromkeys(held), strict=False))
    for file in (path for path in Path(case["data_root"]).rglob("*") if path.suffix in (".jsonl", ".json", ".csv")):
        file.write_text(re.sub("|".join(case["open"]), lambda found: chosen.get(found[0], found[0]), file.read_text()))
    return list(chosen.values())


def plain_questions(prepared: str) -> list[str]:
    """What rows ask that ask nothing else: without a long text, a conversation before it, or an input."""
    lines = [line for line in prepared.splitlines() if not re.search(r"-end|opening-|input-", line)]
    return [word for line in lines for word in re.findall(r"question-\d+", line)[:1]]


def prepared(case: dict[str, Any]) -> int:
    """The exit code of prepare_data.py in a case's copy of the bundle, with the case's rows where it reads them."""
    for source, target in case["hub"].items():
        shutil.copyfile(source, target)
    script = str(Path(case["bundle"], "prepare_data.py"))

    def run() -> None:
        os.environ["DATA_ROOT"] = case["data_root"]
        os.chdir(case["bundle"])
        sys.argv = [script]
        sys.path.insert(0, case["bundle"])
        runpy.run_path(script, run_name="__main__")

    return in_fork(run, Path(case["log"]))


def in_fork(run: Callable[[], None], log: Path) -> int:
    """Run a function in a fork with its output in `log`; the exit code that a script would have had."""
    sys.stdout.flush()
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    output = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    code = 0
    try:
        run()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def told(stage: dict[str, Any], bundle: Path) -> dict[str, list[dict[str, Any]]]:
    """Split -> its rows, each as text and as the stretches that are learned, by the stage's own rows.py."""
    spec = importlib.util.spec_from_file_location("rows", bundle / stage["folder"] / "rows.py")
    rows = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rows)
    tokenizer = AutoTokenizer.from_pretrained(stage["tokenizer"])
    own = next((path for path in (bundle / stage["folder"], bundle) if (path / "chat_template.jinja").is_file()), None)
    if own:
        tokenizer.chat_template = (own / "chat_template.jinja").read_text()
    return {
        path.stem: [text_of(rows, json.loads(line), tokenizer, stage["answers"]) for line in path.open()]
        for path in (bundle / "data" / stage["name"]).glob("*.jsonl")
    }


def text_of(
    rows: ModuleType, row: dict[str, Any], tokenizer: PreTrainedTokenizerBase, answers: list[list[str]]
) -> dict[str, Any]:
    """A row as its tokens are decoded, and what is learned of it, for all its answers together; and each by itself."""
    sides, learned = [], []
    for answer in answers:
        tokens, mask = rows.encode(row, tokenizer, *answer)
        sides.append(tokenizer.decode(tokens))
        learned += stretches(tokens, mask, tokenizer)
    return {"whole": "\n".join(sides), "learned": learned, "sides": sides, "label": row.get("label")}


def stretches(tokens: list[int], mask: list[int], tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The learned tokens that stand side by side, decoded."""
    found: list[list[int]] = []
    before = 0
    for token, taught in zip(tokens, mask, strict=True):
        if taught:
            found = found if before else [*found, []]
            found[-1].append(token)
        before = taught
    return [tokenizer.decode(stretch) for stretch in found]


def main(given: dict[str, Any]) -> None:
    """Prepare every case, look at the first, and write the answer."""
    before = {target: Path(target).read_bytes() for case in given["cases"] for target in case["hub"].values()}
    bundle, asked, codes = Path(given["cases"][0]["bundle"]), {}, []
    for case in given["cases"]:
        if "later" in case and codes[0] == 0:
            asked[case["stage"]] = ask_what_is_held(case, bundle)
        codes.append(prepared(case))
    for target, rows in before.items():  # what the checks behind this one read
        Path(target).write_bytes(rows)
    answer = {"codes": codes, "rows": {}, "later": {}}
    if codes[0] == 0:
        answer["rows"] = {stage["name"]: told(stage, bundle) for stage in given["stages"]}
    for case, code in zip(given["cases"], codes, strict=True):
        if case.get("stage") in asked and code == 0:
            text = Path(case["bundle"], "data", case["stage"], "train.jsonl").read_text()
            words = asked[case["stage"]]
            answer["later"][case["stage"]] = words, [word for word in words if word in text]
    Path(given["answer"]).write_text(json.dumps(answer))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
