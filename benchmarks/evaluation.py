"""CPU time of evaluate.py for 500 rows of the demo's model, by part, beside another version of recipec.

    python -m benchmarks.evaluation [COMMIT]     COMMIT: the version to compare with, as git names it

Both versions emit their own evaluate.py, which scores the same rows on one core. With COMMIT, the figures are written
to benchmarks/results/evaluation.md.
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
    start = time.process_time()
    return function(*given), time.process_time() - start
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
        found = {"this version": measured(folder, ROOT)}
        if len(sys.argv) > 1:
            found[sys.argv[1]] = measured(folder, other_version(sys.argv[1], folder / "other"))
    report = table(found)
    print(report)
    if len(found) > 1:
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


def measured(folder: Path, version: Path) -> dict[str, float]:
    """The least CPU seconds of each part over some runs, and the loss."""
    bundle = folder / version.name / "bundle"
    bundle.mkdir(parents=True)
    recipec = [sys.executable, "-m", "recipec", "build", str(version / "recipes" / "cpu-demo.toml"), "-o", str(bundle)]
    subprocess.run(recipec, check=True, cwd=folder, env=os.environ | {"PYTHONPATH": str(version)})
    environment = os.environ | {"DATA_ROOT": str(folder), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    script = COUNTED.replace('"bundle"', repr(str(bundle)))
    runs = [subprocess.run([sys.executable, "-c", script], check=True, cwd=folder, env=environment,
                           capture_output=True, text=True) for _ in range(RUNS)]  # fmt: skip
    found = [json.loads(run.stdout.splitlines()[-1]) for run in runs]
    return {name: min(run[name] for run in found) for name in (*PARTS, "eval_loss")}


def table(found: dict[str, dict[str, float]]) -> str:
    lines = ["| version | " + " | ".join(f"{part}, s" for part in PARTS) + " | score and answer, s | loss |"]
    lines.append("|---" * (len(PARTS) + 3) + "|")
    for version, seconds in found.items():
        parts = " | ".join(f"{seconds[part]:.2f}" for part in PARTS)
        lines.append(f"| {version} | {parts} | {worked(seconds):.2f} | {seconds['eval_loss']:.6f} |")
    last = ""
    if len(found) > 1:
        now, then = found.values()
        last = f"\n{worked(then) / worked(now):.1f} times faster: score {then['score'] / now['score']:.1f}, "
        last += f"answer {then['answer'] / now['answer']:.1f}. Most of what is left are the products of the layers.\n"
    how = f"{ROWS} rows, 9 million parameters in fp32, one core; CPU seconds, the least of {RUNS} runs."
    return "\n".join(lines) + f"\n\n{how}\n{last}"


def worked(seconds: dict[str, float]) -> float:
    return seconds["score"] + seconds["answer"]


if __name__ == "__main__":
    main()
