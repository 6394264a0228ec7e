"""evaluate.py finds on two processes what it finds on one, however it measures; a first look reads few rows."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, good, with_key
from tiers import quick_where

from recipec.bundle.build import write_bundle
from recipec.verify.bundle import read_bundle
from recipec.verify.sandbox import Sandbox, make_sandbox

pytestmark = pytest.mark.executes

TWO = {"gpu": "a100-80gb", "gpus_per_node": 2}
SECONDS = 240.0
# Losses of tokens, pairs beside the start's, scores with their lengths, a teacher, rewards of answers: and what each
# calls for every batch.
MEASURED = {
    "lora-ddp": "learned_logits",
    "dpo-full": "learned_logits",
    "reward": "padded",
    "distill": "learned_logits",
    "on-policy-distill": "token_losses",
    "grpo": "rewards_of",
}
# Says each call of a function of evaluate.py, and the process that calls it.
COUNTING = """
def counting(function):
    def counted(*args, **kwargs):
        print("CALLED BY", os.environ.get("RANK", "0"))
        return function(*args, **kwargs)
    return counted


{called} = counting({called})


if __name__ =="""


def prepared(folder: Path, base: str) -> Sandbox:
    """A bundle for two GPUs, with stand-ins for its models and prepared rows."""
    recipe = with_key(with_key(BASES[base], "hardware", TWO), "train.strategy", "ddp")
    recipe = with_key(with_key(recipe, "train.micro_batch_size", 4), "data.test_fraction", 0.1)
    done = good(folder / "recipe", recipe)
    assert done.lock is not None
    write_bundle(folder / "out", done.files, done.plan_json, done.lock)
    (folder / "sandbox").mkdir()
    sandbox = make_sandbox(read_bundle(folder / "out"), folder / "sandbox", 160)
    run(sandbox, "python", "prepare_data.py")
    return sandbox


def run(sandbox: Sandbox, *command: str) -> str:
    ended = sandbox.run("evaluation", list(command), sandbox.environment({}), SECONDS)
    assert ended.ok, ended.tail()
    return ended.text()


def evaluated(sandbox: Sandbox, *command: str, quick: bool = False) -> tuple[dict[str, Any], Counter[str]]:
    """What an evaluation before training writes, and how often each process has called what is counted."""
    file = sandbox.outputs / "evaluation" / sandbox.bundle.last.name / ("quick" if quick else ".") / "before.json"
    file.unlink(missing_ok=True)
    said = run(sandbox, *command, "evaluate.py", "before", *["--quick"] * quick)
    return json.loads(file.read_text()), Counter(re.findall(r"CALLED BY (\d)", said))


@pytest.mark.parametrize("base", quick_where({"lora-ddp", "grpo"}, MEASURED))
def test_two_processes_share_the_rows_and_find_what_one_finds(tmp_path: Path, base: str, forked: None) -> None:
    sandbox = prepared(tmp_path, base)
    script = sandbox.bundle.root / "evaluate.py"
    small = script.read_text()
    for name, value in {"TOKENS_AT_ONCE": 256, "ANSWERS_AT_ONCE": 4, "NEW_TOKENS": 16}.items():
        small = re.sub(f"^({name} = ).*", rf"\g<1>{value}", small, flags=re.MULTILINE)
    counting = COUNTING.replace("{called}", MEASURED[base])
    script.write_text(small.replace("\nif __name__ ==", counting))
    alone, calls = evaluated(sandbox, "python")
    both, shares = evaluated(sandbox, "torchrun", "--standalone", "--nproc-per-node", "2")
    assert both["metrics"] == pytest.approx(alone["metrics"], rel=1e-6)
    assert both["samples"] == alone["samples"]
    for one, other in zip(alone.get("answers", []), both.get("answers", []), strict=True):
        assert other == pytest.approx(one, rel=1e-6)
    assert shares["0"] + shares["1"] == calls["0"] and 0 < shares["1"] <= shares["0"] < calls["0"]


def test_a_first_look_reads_few_rows_and_leaves_the_whole_evaluation(tmp_path: Path, forked: None) -> None:
    sandbox = prepared(tmp_path, "lora-ddp")
    script = sandbox.bundle.root / "evaluate.py"
    script.write_text(script.read_text().replace("QUICK_ROWS = 32", "QUICK_ROWS = 5"))
    (whole, _), (quick, _) = evaluated(sandbox, "python"), evaluated(sandbox, "python", quick=True)
    assert quick["rows"] == 5 < whole["rows"]
    assert quick["metrics"] != whole["metrics"]
    file = sandbox.outputs / "evaluation" / sandbox.bundle.last.name / "before.json"
    assert json.loads(file.read_text()) == whole
