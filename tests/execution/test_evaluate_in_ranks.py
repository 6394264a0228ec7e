"""evaluate.py finds on two processes what it finds on one, however it measures; a first look reads few rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, good, with_key

from recipec.bundle.build import write_bundle
from recipec.verify.bundle import read_bundle
from recipec.verify.sandbox import Sandbox, make_sandbox

pytestmark = pytest.mark.executes

TWO = {"gpu": "a100-80gb", "gpus_per_node": 2}
SECONDS = 240.0
# Losses of tokens, pairs beside the start's, scores with their lengths, a teacher.
MEASURED = ("lora-ddp", "dpo-full", "reward", "distill")


def prepared(folder: Path, base: str) -> Sandbox:
    """A bundle for two GPUs, with stand-ins for its models and prepared rows."""
    recipe = with_key(with_key(BASES[base], "hardware", TWO), "train.strategy", "ddp")
    recipe = with_key(recipe, "train.micro_batch_size", 4)
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


def evaluated(sandbox: Sandbox, *command: str, quick: bool = False) -> dict[str, Any]:
    """What an evaluation before training writes."""
    file = sandbox.outputs / "evaluation" / sandbox.bundle.last.name / ("quick" if quick else ".") / "before.json"
    file.unlink(missing_ok=True)
    run(sandbox, *command, "evaluate.py", "before", *["--quick"] * quick)
    return json.loads(file.read_text())


@pytest.mark.parametrize("base", MEASURED)
def test_two_processes_find_what_one_finds(tmp_path: Path, base: str, forked: None) -> None:
    sandbox = prepared(tmp_path, base)
    script = (sandbox.bundle.root / "evaluate.py").read_text()
    small = script.replace("TOKENS_AT_ONCE = 4096", "TOKENS_AT_ONCE = 256")
    assert small != script, "the test is out of date"
    (sandbox.bundle.root / "evaluate.py").write_text(small)
    alone = evaluated(sandbox, "python")
    both = evaluated(sandbox, "torchrun", "--standalone", "--nproc-per-node", "2")
    assert both["metrics"] == pytest.approx(alone["metrics"], rel=1e-6)
    assert both["samples"] == alone["samples"]
    for one, other in zip(alone.get("answers", []), both.get("answers", []), strict=True):
        assert other == pytest.approx(one, rel=1e-6)


def test_each_process_scores_a_share(tmp_path: Path, forked: None) -> None:
    """Each says how many batches it took: all of them together are those of one process."""
    sandbox = prepared(tmp_path, "lora-ddp")
    script = sandbox.bundle.root / "evaluate.py"
    text, share = script.read_text(), "    return list(parts)"
    assert share in text, "the test is out of date"
    start, _, rest = text.partition(share)
    line, _, rest = rest.partition("\n")
    said = f"{start}    taken = list(parts){line}\n    print('TOOK', len(taken))\n    return taken\n{rest}"
    script.write_text(said.replace("TOKENS_AT_ONCE = 4096", "TOKENS_AT_ONCE = 256"))
    alone = run(sandbox, "python", "evaluate.py", "before")
    (sandbox.outputs / "evaluation" / "sft" / "before.json").unlink()
    both = run(sandbox, "torchrun", "--standalone", "--nproc-per-node", "2", "evaluate.py", "before")
    shares = [int(line.split()[-1]) for line in both.splitlines() if "TOOK" in line]
    (whole,) = (int(line.split()[-1]) for line in alone.splitlines() if "TOOK" in line)
    assert len(shares) == 2 and sum(shares) == whole and abs(shares[0] - shares[1]) <= 1 < whole


def test_a_first_look_reads_few_rows_and_leaves_the_whole_evaluation(tmp_path: Path, forked: None) -> None:
    sandbox = prepared(tmp_path, "lora-ddp")
    script = sandbox.bundle.root / "evaluate.py"
    script.write_text(script.read_text().replace("QUICK_ROWS = 32", "QUICK_ROWS = 5"))
    whole, quick = evaluated(sandbox, "python"), evaluated(sandbox, "python", quick=True)
    assert quick["rows"] == 5 < whole["rows"]
    assert quick["metrics"] != whole["metrics"]
    file = sandbox.outputs / "evaluation" / sandbox.bundle.last.name / "before.json"
    assert json.loads(file.read_text()) == whole
