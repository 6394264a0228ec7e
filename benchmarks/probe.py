"""Predicted and measured time and memory of four trainings on this CPU, planned with rates that `recipec probe` found.

    python -m benchmarks.probe [--one-core] [--minutes 1] [--only CASE] [--steps N] [--write]

Each bundle is emitted and run unmodified. On a machine that others use too, --one-core counts CPU seconds of one thread
instead of wall time, of the probe and of the trainings. --write puts the table into benchmarks/results/probe.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results" / "probe.md"
TEMPLATE_TOKENS = 24  # at most, in a row of one question and one answer
WITHIN_TIME, WITHIN_MEMORY = 0.25, 0.10
PROBE_FILE = "machine.toml"
# Runs a script on the CPU seconds of its process, where it would read the clock.
ONE_CORE = """
import runpy, sys, time
time.monotonic = time.perf_counter = time.process_time
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""
# The probe in this process, where its clock is replaced.
MEASURE = """
import json, sys
from datetime import date
from pathlib import Path
import msgspec
from recipec.probe.document import document
from recipec.probe.run import measure
if __name__ == "__main__":
    found = msgspec.json.encode(measure(Path(), 60 * float(sys.argv[2]), True))
    Path(sys.argv[1]).write_text(document(json.loads(found), date.today()))
"""


class Case(Struct, frozen=True):
    """A training: its rows, and what its recipe says."""

    name: str
    what: str
    rows: str  # demo | answers | pairs | text
    model: str
    max_length: int
    batch: int
    steps: int
    task: str = "instruct"
    adaptation: str = "full"


CASES = (
    Case("demo", "the demo: full fine-tuning of 9M parameters, short answers", "demo", "demo-model", 112, 32, 100),
    Case("adapter", "LoRA on 29M parameters, long answers", "answers", "wide", 320, 8, 40, adaptation="lora"),
    Case("pairs", "DPO of 9M parameters, full fine-tuning", "pairs", "demo-model", 160, 8, 60, "align"),
    Case("text", "continued pretraining of 29M parameters, packed", "text", "wide", 512, 4, 40, "continue-pretrain"),
)
WIDE = {"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 8, "num_attention_heads": 8}


class Run(Struct, frozen=True):
    """What was predicted and measured of a case."""

    case: Case
    predicted_seconds: float
    measured_seconds: float
    predicted_gib: float
    measured_gib: float


def main() -> None:
    """Probe, then plan and run each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one-core", action="store_true")
    parser.add_argument("--minutes", default="1")
    parser.add_argument("--only", choices=[case.name for case in CASES])
    parser.add_argument("--steps", type=int, help="of each training, for a first look")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        prepare(folder)
        if not (folder / PROBE_FILE).exists():
            probe(folder, args.minutes, args.one_core)
        chosen = [replace(case, steps=args.steps or case.steps) for case in CASES if args.only in (None, case.name)]
        runs = [run(folder, case, args.one_core) for case in chosen]
        report = table(runs, tomllib.loads((folder / PROBE_FILE).read_text()), args.one_core)
    print(report)
    if args.write:
        RESULTS.write_text(report)


def environment(one_core: bool) -> dict[str, str]:
    """Offline, and on one thread where CPU seconds are counted."""
    found = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": str(ROOT)}
    found.pop("OMP_NUM_THREADS", None)
    return found | ({"OMP_NUM_THREADS": "1"} if one_core else {})


def execute(folder: Path, one_core: bool, *command: str) -> str:
    """The output of a command; raises CalledProcessError behind its last lines."""
    variables = environment(one_core) | {"DATA_ROOT": str(folder)}
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(command, cwd=folder, env=variables, text=True, **piped)
    if done.returncode:
        print("\n".join(done.stdout.splitlines()[-20:]))
        done.check_returncode()
    return done.stdout


def script(one_core: bool, path: Path, *args: str) -> list[str]:
    """How a script is started."""
    return [sys.executable, *(["-c", ONE_CORE] if one_core else []), str(path), *args]


def probe(folder: Path, minutes: str, one_core: bool) -> None:
    """Write the file of measurements."""
    if not one_core:
        options = ("--cpu", "-o", PROBE_FILE, "--minutes", minutes)
        execute(folder, False, sys.executable, "-m", "recipec", "probe", *options)
        return
    measuring = folder / "measure.py"
    measuring.write_text(MEASURE)
    execute(folder, True, *script(True, measuring, PROBE_FILE, minutes))


def prepare(folder: Path) -> None:
    """The demo's model and rows, a wider model with the same tokenizer, and rows of other kinds made of the demo's."""
    if (folder / "wide").exists():
        return
    folder.mkdir(exist_ok=True)
    execute(ROOT, False, sys.executable, "recipes/make_demo.py", str(folder))
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    config = AutoConfig.from_pretrained(folder / "demo-model", **WIDE, num_key_value_heads=8, head_dim=64)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder / "wide")
    AutoTokenizer.from_pretrained(folder / "demo-model").save_pretrained(folder / "wide")
    shown = [json.loads(line) for line in (folder / "data" / "docstrings.jsonl").read_text().splitlines()]
    tokenizer = AutoTokenizer.from_pretrained(folder / "wide")
    longest = {case.rows: case.max_length - TEMPLATE_TOKENS for case in CASES} | {"text": 10**6}
    for name, rows in {"answers": answers(shown), "pairs": pairs(shown), "text": texts(shown)}.items():
        kept = [row for row in rows if len(tokenizer(" ".join(row.values()))["input_ids"]) <= longest[name]]
        (folder / "data" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
    (folder / "data" / "docstrings.jsonl").rename(folder / "data" / "demo.jsonl")


def answers(shown: list[dict[str, str]]) -> Iterator[dict[str, str]]:
    """A question about eight definitions."""
    for first in range(0, len(shown) - 8, 8):
        group = shown[first : first + 8]
        yield {"prompt": group[0]["prompt"], "completion": " ".join(row["completion"] for row in group)}


def pairs(shown: list[dict[str, str]]) -> Iterator[dict[str, str]]:
    """Right and wrong answers, each of two definitions; both of them and the question fit the length of a row."""
    for first in range(0, len(shown) - 4, 2):
        mine, other = (" ".join(row["completion"] for row in shown[at : at + 2]) for at in (first, first + 2))
        yield {"prompt": shown[first]["prompt"], "chosen": mine, "rejected": other}


def texts(shown: list[dict[str, str]]) -> Iterator[dict[str, str]]:
    """Twenty definitions in a text."""
    for first in range(0, len(shown), 20):
        yield {"text": " ".join(row["completion"] for row in shown[first : first + 20])}


def recipe(folder: Path, case: Case, tokens_per_example: int, max_length: int) -> Path:
    """Write the recipe of a case."""
    part = "preferences" if case.rows == "pairs" else "train"
    rows = (folder / "data" / f"{case.rows}.jsonl").read_text().count("\n")
    path = folder / f"{case.name}.toml"
    path.write_text(f"""\
[recipe]
name = "{case.name}"
[goal]
task = "{case.task}"
[model]
name = "./{case.model}"
[data]
{part} = "data/{case.rows}.jsonl"
examples = {rows}
tokens_per_example = {tokens_per_example}
max_length = {max_length}
[hardware]
gpu = "cpu"
measured = "{PROBE_FILE}"
[train]
max_steps = {case.steps}
global_batch_size = {case.batch}
micro_batch_size = {case.batch}
adaptation = "{case.adaptation}"
""")
    return path


def planned(folder: Path, case: Case, one_core: bool) -> tuple[Path, dict[str, Any]]:
    """The bundle and its plan, with the lengths that the prepared rows have: those are not in question here."""
    bundle, usual, longest = folder / f"{case.name}-bundle", case.max_length, case.max_length
    for _ in range(2):
        path = recipe(folder, case, usual, longest)
        execute(folder, one_core, sys.executable, "-m", "recipec", "build", path.name, "-o", bundle.name)
        execute(folder, one_core, *script(False, bundle / "prepare_data.py"))
        (stage,) = json.loads((bundle / ".recipec" / "plan.json").read_text())["stages"]
        usual, longest = lengths(bundle / "data" / stage["name"] / "train.jsonl", case.max_length)
    return bundle, stage


def lengths(prepared: Path, most: int) -> tuple[int, int]:
    """Tokens of the usual row, and of the longest; text is cut into blocks of `most`."""
    found = [json.loads(line)["length"] for line in prepared.read_text().splitlines()]
    return round(sum(found) / len(found)), min(most, max(found))


def run(folder: Path, case: Case, one_core: bool) -> Run:
    """Plan, build, prepare and train."""
    bundle, stage = planned(folder, case, one_core)
    printed = execute(folder, one_core, *script(one_core, bundle / "train.py", "--resume", "none"))
    peak = re.search(r"peak memory of the process is ([\d.]+) GiB", printed)
    assert peak is not None
    predicted_gib = stage["memory"]["peak_device_bytes"] / 2**30
    found = Run(case, stage["time"]["seconds"], trained_seconds(bundle, stage["name"]), predicted_gib, float(peak[1]))
    print(found, flush=True)
    return found


def trained_seconds(bundle: Path, stage: str) -> float:
    """Of all training steps, without evaluations and saves, as the bundle logs their rate."""
    written = (bundle / "outputs" / stage).glob("checkpoint-*/trainer_state.json")
    states = sorted(written, key=lambda path: path.stat().st_mtime)
    before, seconds = 0.0, 0.0
    for entry in json.loads(states[-1].read_text())["log_history"]:
        if "tokens_per_second" in entry:
            seconds += (entry["num_tokens"] - before) / entry["tokens_per_second"]
            before = entry["num_tokens"]
    return seconds


def table(runs: list[Run], measured: dict[str, Any], one_core: bool) -> str:
    """The report as Markdown."""
    clock = "CPU seconds of one thread" if one_core else "wall time"
    rows = [
        f"| {run.case.what} | {run.case.steps} | {run.predicted_seconds:.0f} s | {run.measured_seconds:.0f} s | "
        f"{run.measured_seconds / run.predicted_seconds:.2f} | {run.predicted_gib:.2f} GiB | "
        f"{run.measured_gib:.2f} GiB | {run.measured_gib / run.predicted_gib:.2f} |"
        for run in runs
    ]
    return "\n".join(
        [
            "# Plans with measured rates, and what the runs took",
            "",
            f"`python -m benchmarks.probe --write`, {date.today()}, on {measured['machine']['cores']} cores of an x86 "
            f"server CPU with torch {measured['machine']['torch']}; {clock}. Time of the training steps, memory of the "
            "process; ratios are measured over predicted.",
            "",
            "| training | steps | predicted | measured | ratio | predicted | measured | ratio |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
            "",
            f"Wanted: time within {WITHIN_TIME:.0%}, memory within {WITHIN_MEMORY:.0%}.",
            "",
        ]
    )


if __name__ == "__main__":
    main()
