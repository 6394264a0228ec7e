"""CPU time of `recipec build` and `recipec check` in a fresh process, beside a bare interpreter and `trl sft --help`.

    python benchmarks/build_speed.py [RUNS]

The minimum of several runs counts, with .pyc files and the template cache warm: other load only adds to it. The ratio
to the bare interpreter is what can be compared between machines. `check` reads a JSON list of 22 MB, the size of
Alpaca's file. What `recipec plan` does is timed in this process. The script fails where check or a plan takes more
than it may. Writes benchmarks/results/build_speed.md.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from unittest.mock import patch

ROOT = Path(__file__).parent.parent
RECIPE = ROOT / "recipes" / "support-chat.toml"
RESULTS = Path(__file__).parent / "results" / "build_speed.md"
RECIPEC = [sys.executable, "-m", "recipec"]
JSON_BYTES = 22 * 10**6
MOST_CHECK_SECONDS = 0.40
ON_JSON = """\
[recipe]
name = "alpaca"
[goal]
task = "instruct"
[model]
name = "meta-llama/Llama-3.1-8B"
[data]
train = "alpaca.json"
[hardware]
gpu = "rtx-4090"
"""
PLANNED = """\
[recipe]
name = "planned"
[goal]
task = "instruct"
[model]
name = "{model}"
[data]
train = "chat.jsonl"
examples = 50000
tokens_per_example = 600
max_length = {max_length}
[hardware]
gpu = "{gpu}"
gpus_per_node = {gpus}
nodes = {nodes}
"""
ROW = {"messages": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Because."}]}
AGAIN = 12  # plans of each kind
PLANS = (  # what is planned, and the milliseconds that it may take
    ("Qwen3-8B, one node of 8 H100", ("Qwen/Qwen3-8B", "h100", 8, 1), 60),
    ("Qwen3-8B, 512 H100", ("Qwen/Qwen3-8B", "h100", 8, 64), 300),
    ("Llama-3.1-70B, 512 H100", ("meta-llama/Llama-3.1-70B", "h100", 8, 64), 300),
    ("Llama-3.1-405B, one RTX 4090: E0402 with its ways out", ("meta-llama/Llama-3.1-405B", "rtx-4090", 1, 1), 500),
)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    bare = cpu_seconds([sys.executable, "-c", "pass"], runs)
    with tempfile.TemporaryDirectory() as folder:
        build = cpu_seconds([*RECIPEC, "build", str(RECIPE), "-o", f"{folder}/out"], runs)
        check = cpu_seconds([*RECIPEC, "check", str(recipe_on_json(Path(folder)))], runs)
    trl = cpu_seconds([str(Path(sys.executable).parent / "trl"), "sft", "--help"], 1)
    whole, planning = warm_milliseconds(RECIPE), warm_milliseconds(RECIPE, only_plan=True)
    plans = [(name, *plan_milliseconds(*of), most) for name, of, most in PLANS]
    rows = [("bare interpreter", bare), ("`recipec build` of a shipped recipe", build)]
    rows += [(f"`recipec check` with a JSON list of {JSON_BYTES / 1e6:.0f} MB", check), ("`trl sft --help`", trl)]
    text = report(rows, bare, whole, planning, plans)
    RESULTS.write_text(text, encoding="utf-8")
    print(text, end="")
    if check > MOST_CHECK_SECONDS:
        raise SystemExit(f"check takes {check:.3f} s, and may take {MOST_CHECK_SECONDS:.2f} s")
    if slow := [name for name, taken, _, most in plans if taken > most]:
        raise SystemExit(f"these plans take longer than they may: {'; '.join(slow)}")


def report(
    rows: list[tuple[str, float]],
    bare: float,
    whole: float,
    planning: float,
    plans: list[tuple[str, float, float, int]],
) -> str:
    """The figures as a page."""
    machine = f"{platform.machine()}, Python {platform.python_version()}, {date.today()}"
    lines = [
        "# CPU time of a build and of a check",
        "",
        f"The least user and system time of several fresh processes on one machine ({machine}), from "
        "`python benchmarks/build_speed.py`.",
        "",
        "| command | seconds | times a bare interpreter |",
        "|---|---:|---:|",
        *(f"| {name} | {seconds:.3f} | {seconds / bare:.1f} |" for name, seconds in rows),
        "",
        f"`recipec check` with the JSON list may take {MOST_CHECK_SECONDS:.2f} s. In a process that has compiled "
        f"before, a compilation takes {whole:.0f} ms, of which {planning:.0f} ms are the plan.",
        "",
        "| planned in a process that has planned before | ms, the same recipe | ms, another length | may take |",
        "|---|---:|---:|---:|",
        *(f"| {name} | {again:.0f} | {anew:.0f} | {most} |" for name, again, anew, most in plans),
    ]
    return "\n".join(lines) + "\n"


def recipe_on_json(folder: Path) -> Path:
    """A recipe whose data are one JSON list of JSON_BYTES or a little more, indented as Alpaca's is."""
    row = {"instruction": "Name three ways to stay healthy. " * 3, "input": "", "output": "Eat, sleep and move. " * 12}
    each = len(json.dumps(row, indent=4)) + 2
    rows = [row | {"instruction": f"{row['instruction']}{number}"} for number in range(JSON_BYTES // each)]
    (folder / "alpaca.json").write_text(json.dumps(rows, indent=4), encoding="utf-8")
    recipe = folder / "recipe.toml"
    recipe.write_text(ON_JSON, encoding="utf-8")
    return recipe


def cpu_seconds(command: list[str], runs: int) -> float:
    """The least user and system time of `runs` runs, after one to warm caches."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return min(one_run(command, environment) for _ in range(runs + 1))


def one_run(command: list[str], environment: dict[str, str]) -> float:
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command} failed")
    return usage.ru_utime + usage.ru_stime


def plan_milliseconds(model: str, gpu: str, gpus: int, nodes: int) -> tuple[float, float]:
    """The least time of planning a stage in this process, from the facts of its recipe to all that the plan says: of a
    recipe that was planned before, and of one whose rows are of another length, for which no estimate is kept."""
    import recipec.compiler as compiler

    times: list[float] = []
    plan = compiler.plan_recipe

    def timed(*given: object, **named: object) -> object:
        start = time.process_time()
        try:
            return plan(*given, **named)
        finally:
            times.append(time.process_time() - start)

    with tempfile.TemporaryDirectory() as folder, patch.object(compiler, "plan_recipe", timed):
        recipe = Path(folder) / "recipe.toml"
        (Path(folder) / "chat.jsonl").write_text(json.dumps(ROW) + "\n", encoding="utf-8")
        for length in (*[4096] * AGAIN, *range(4000, 4000 - 32 * AGAIN, -32)):
            text = PLANNED.format(model=model, gpu=gpu, gpus=gpus, nodes=nodes, max_length=length)
            recipe.write_text(text, encoding="utf-8")
            compiler.compile_recipe(recipe, only_plan=True)
    return min(times[:AGAIN]) * 1000, min(times[AGAIN:]) * 1000


def warm_milliseconds(recipe: Path, only_plan: bool = False) -> float:
    """The least time of one compilation in this process."""
    from recipec.compiler import compile_recipe

    times = []
    for _ in range(20):
        start = time.process_time()
        compile_recipe(recipe, only_plan=only_plan)
        times.append(time.process_time() - start)
    return min(times) * 1000


if __name__ == "__main__":
    main()
