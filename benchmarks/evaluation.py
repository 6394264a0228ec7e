"""Time of evaluate.py for 500 rows of the demo's model, by part, beside another version of recipec.

    python -m benchmarks.evaluation [COMMIT]     COMMIT: the version to compare with, as git names it

Both versions emit their own evaluate.py, and they score the same rows in turns: with one thread, where CPU seconds are
counted, and with PyTorch's own number of threads, where seconds of a clock are. With COMMIT, the figures are written
to benchmarks/results/evaluation.md.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results" / "evaluation.md"
ROWS, RUNS = 500, 5
PARTS = ("load", "score", "answer")
COUNTED = """
import json, sys, time
sys.path.insert(0, "bundle")
sys.argv = ["evaluate.py", "before"]
import evaluate, torch
from datasets import load_dataset
clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
def timed(function, *given):
    start = clock()
    return function(*given), clock() - start
(model, tokenizer), load = timed(evaluate.load, "before")
rows = load_dataset("json", data_files="rows.jsonl", split="train")
metrics, score = timed(evaluate.measure, model, tokenizer, rows)
_, answer = timed(evaluate.show, model, tokenizer, rows)
found = {"load": load, "score": score, "answer": answer, "threads": torch.get_num_threads(), **metrics}
print(json.dumps(found))
"""


Run = dict[str, float]  # seconds of each part, the threads and the loss


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder)
        bundles = {"this version": built(folder, ROOT)}
        if len(sys.argv) > 1:
            bundles[sys.argv[1]] = built(folder, other_version(sys.argv[1], folder / "other"))
        alone = in_turns(folder, bundles, {"OMP_NUM_THREADS": "1"})
        threaded = in_turns(folder, bundles, {})
    report = "\n".join([*one_thread(alone), "", *all_threads(threaded)]) + "\n"
    print(report)
    if len(bundles) > 1:
        RESULTS.write_text(f"# evaluate.py\n\n`python -m benchmarks.evaluation {sys.argv[1]}`\n\n{report}")


def write_rows(folder: Path) -> None:
    """The demo's model and data, and so many rows of it in the form that its preparation writes."""
    subprocess.run([sys.executable, str(ROOT / "recipes" / "make_demo.py"), str(folder)], check=True)
    with (folder / "data" / "docstrings.jsonl").open() as given, (folder / "rows.jsonl").open("w") as rows:
        for line, _ in zip(given, range(ROWS), strict=False):
            said = json.loads(line)
            turns = {"prompt": ("user", said["prompt"]), "completion": ("assistant", said["completion"])}
            row = {name: [{"role": role, "content": content}] for name, (role, content) in turns.items()}
            rows.write(json.dumps(row) + "\n")


def other_version(commit: str, folder: Path) -> Path:
    """The sources of another version."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", commit, "recipec", "templates", "recipes"], check=True, cwd=ROOT,
                             stdout=subprocess.PIPE)  # fmt: skip
    subprocess.run(["tar", "-x"], input=archive.stdout, check=True, cwd=folder)
    return folder


def built(folder: Path, version: Path) -> Path:
    """The bundle that a version makes of the demo's recipe."""
    bundle = folder / version.name / "bundle"
    bundle.mkdir(parents=True)
    recipec = [sys.executable, "-m", "recipec", "build", str(version / "recipes" / "cpu-demo.toml"), "-o", str(bundle)]
    quiet = {"stdout": subprocess.DEVNULL, "env": os.environ | {"PYTHONPATH": str(version)}}
    subprocess.run(recipec, check=True, cwd=folder, **quiet)
    return bundle


def in_turns(folder: Path, bundles: dict[str, Path], threads: dict[str, str]) -> dict[str, list[Run]]:
    """Some runs of each version, one after the other, so that what else the machine does meets all of them."""
    given = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    environment = given | {"DATA_ROOT": str(folder), "HF_HUB_OFFLINE": "1"} | threads
    found: dict[str, list[Run]] = {version: [] for version in bundles}
    for _ in range(RUNS):
        for version, bundle in bundles.items():
            command = [sys.executable, "-c", COUNTED.replace('"bundle"', repr(str(bundle)))]
            run = subprocess.run(command, check=True, cwd=folder, env=environment, capture_output=True, text=True)
            found[version].append(json.loads(run.stdout.splitlines()[-1]))
    return found


def one_thread(found: dict[str, list[Run]]) -> list[str]:
    """The least CPU seconds of each part."""
    least = {version: {name: min(run[name] for run in runs) for name in runs[0]} for version, runs in found.items()}
    lines = [
        f"One thread, CPU seconds, the least of {RUNS} runs in turns; {ROWS} rows, 9 million parameters in fp32.",
        "",
    ]
    lines += table(least)
    if len(least) > 1:
        now, then = least.values()
        parts = ", ".join(f"{part} {then[part] / now[part]:.1f}" for part in PARTS[1:])
        lines += ["", f"{worked(then) / worked(now):.1f} times fewer: {parts}."]
    return lines


def all_threads(found: dict[str, list[Run]]) -> list[str]:
    """The middle of the seconds of each part, and of the ratios of neighboring runs."""
    middle = {version: {name: median(run[name] for run in runs) for name in runs[0]} for version, runs in found.items()}
    threads = round(next(iter(middle.values()))["threads"])
    lines = [f"{threads} threads, seconds of a clock, the median of {RUNS} runs in turns.", "", *table(middle)]
    if len(found) > 1:
        now, then = found.values()
        ratios = [worked(old) / worked(new) for new, old in zip(now, then, strict=True)]
        each = ", ".join(f"{ratio:.1f}" for ratio in sorted(ratios))
        lines += ["", f"{median(ratios):.1f} times faster, the median of {each}."]
    return lines


def table(found: dict[str, Run]) -> list[str]:
    lines = ["| version | " + " | ".join(f"{part}, s" for part in PARTS) + " | score and answer, s | loss |"]
    lines.append("|---" * (len(PARTS) + 3) + "|")
    for version, seconds in found.items():
        parts = " | ".join(f"{seconds[part]:.2f}" for part in PARTS)
        lines.append(f"| {version} | {parts} | {worked(seconds):.2f} | {seconds['eval_loss']:.6f} |")
    return lines


def worked(seconds: Run) -> float:
    return seconds["score"] + seconds["answer"]


if __name__ == "__main__":
    main()
