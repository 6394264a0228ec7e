"""Time of evaluate.py for 500 rows of the demo's model, by part, beside another version of recipec.

    python -m benchmarks.evaluation [COMMIT]     COMMIT: the version to compare with, as git names it

Both versions emit their own evaluate.py, which scores the same rows: seconds of one core, and of the clock with all
cores. With COMMIT, the figures are written to benchmarks/results/evaluation.md. Nothing else should run meanwhile.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results" / "evaluation.md"
ROWS, RUNS = 500, 3
PARTS = ("load", "score", "answer")
COUNTED = """
import json, sys, time
sys.path.insert(0, "bundle")
sys.argv = ["evaluate.py", "before"]
import evaluate
from datasets import load_dataset
def timed(function, *given):
    start = time.perf_counter()
    return function(*given), time.perf_counter() - start
(model, tokenizer), load = timed(evaluate.load, "before")
rows = load_dataset("json", data_files="rows.jsonl", split="train")
metrics, score = timed(evaluate.measure, model, tokenizer, rows)
_, answer = timed(evaluate.show, model, tokenizer, rows)
print(json.dumps({"load": load, "score": score, "answer": answer, **metrics}))
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder)
        versions = {"this version": ROOT}
        if len(sys.argv) > 1:
            versions[sys.argv[1]] = other_version(sys.argv[1], folder / "other")
        bundles = {name: built(folder, version) for name, version in versions.items()}
        template = (bundles["this version"] / "chat_template.jinja").read_text()
        for bundle in bundles.values():
            (bundle / "chat_template.jinja").write_text(template)  # all score the same tokens
        found = {cores: alternately(folder, bundles, cores) for cores in (1, os.cpu_count() or 1)}
        report = table(found)
    print(report)
    if len(versions) > 1:
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
    """The demo's bundle as a version emits it."""
    bundle = folder / version.name / "bundle"
    bundle.mkdir(parents=True)
    recipec = [sys.executable, "-m", "recipec", "build", str(version / "recipes" / "cpu-demo.toml"), "-o", str(bundle)]
    subprocess.run(recipec, check=True, cwd=folder, env=os.environ | {"PYTHONPATH": str(version)})
    return bundle


def alternately(folder: Path, bundles: dict[str, Path], cores: int) -> dict[str, dict[str, float]]:
    """The least seconds of each part over some runs, in which the versions take turns, and the loss."""
    runs = [{name: measured(folder, bundle, cores) for name, bundle in bundles.items()} for _ in range(RUNS)]
    parts = (*PARTS, "eval_loss")
    return {name: {part: min(run[name][part] for run in runs) for part in parts} for name in bundles}


def measured(folder: Path, bundle: Path, cores: int) -> dict[str, float]:
    """The seconds of one run."""
    environment = os.environ | {"DATA_ROOT": str(folder), "OMP_NUM_THREADS": str(cores), "HF_HUB_OFFLINE": "1"}
    script = [sys.executable, "-c", COUNTED.replace('"bundle"', repr(str(bundle)))]
    run = subprocess.run(script, check=True, cwd=folder, env=environment, capture_output=True, text=True)
    return json.loads(run.stdout.splitlines()[-1])


def table(found: dict[int, dict[str, dict[str, float]]]) -> str:
    """A line for each version and number of cores, and by how much the first version is faster."""
    lines = ["| cores | version | " + " | ".join(f"{part}, s" for part in PARTS) + " | score and answer, s | loss |"]
    lines.append("|---" * (len(PARTS) + 4) + "|")
    for cores, versions in found.items():
        for version, seconds in versions.items():
            parts = " | ".join(f"{seconds[part]:.2f}" for part in PARTS)
            lines.append(f"| {cores} | {version} | {parts} | {worked(seconds):.2f} | {seconds['eval_loss']:.6f} |")
    how = f"{ROWS} rows, 9 million parameters in fp32; seconds of the clock, the least of {RUNS} runs."
    faster = [compared(cores, *versions.values()) for cores, versions in found.items() if len(versions) > 1]
    return "\n".join([*lines, "", how, *faster, ""])


def compared(cores: int, now: dict[str, float], then: dict[str, float]) -> str:
    times = [f"{part} {then[part] / now[part]:.1f}" for part in ("score", "answer")]
    return f"With {cores} of the cores {worked(then) / worked(now):.1f} times faster: {', '.join(times)}."


def worked(seconds: dict[str, float]) -> float:
    return seconds["score"] + seconds["answer"]


if __name__ == "__main__":
    main()
