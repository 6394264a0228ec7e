"""Every kind of bundle, run on this machine's CPU: `python tests/execution/matrix.py [PART OF A NAME]`.

The cells are made from the rows of recipec.axes, so that a new method, strategy, adaptation or format brings its own;
the shipped recipes, those of this folder and the files with tests that are too long for every commit are cells, too.
Runs those that matrix.csv does not have (all whose name contains the argument, anew, where one is given), a row at
a time, so that it can be stopped and continued; then writes matrix.md. A cell takes 10 to 90 seconds on two cores.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from fork_server.start import fork_server, forking
from msgspec import Struct

from recipec.axes import ADAPTATIONS, METHODS, STRATEGIES, Adaptation, Method, Strategy
from recipec.bundle.build import write_bundle
from recipec.catalog.stack import stack
from recipec.compiler import compile_recipe
from recipec.dataset import recognise
from recipec.diagnostics.model import Diagnostic
from recipec.verify import verify_bundle
from recipec.verify.data import read_rows
from recipec.verify.report import VerifyReport

HERE = Path(__file__).parent
TESTS = HERE.parent
SHIPPED = TESTS.parent / "recipes"
TABLE, SUMMARY = HERE / "matrix.csv", HERE / "matrix.md"
COLUMNS = ("cell", "level", "result", "checks", "loss", "seconds", "date")
REWARD = "data/rewards.py:repeats"
_NOT_RUN = dict.fromkeys(COLUMNS, "") | {"result": "not run yet"}
_RULE = re.compile(r"\b[A-Z]{2,6}-\d{3}\b")
MODELS = {  # one model of each type of transformers in the catalog
    "llama": "meta-llama/Llama-3.2-1B",
    "llama4_text": "meta-llama/Llama-4-Scout-17B-16E",
    "mistral": "mistralai/Mistral-7B-v0.3",
    "mixtral": "mistralai/Mixtral-8x7B-v0.1",
    "qwen2": "Qwen/Qwen2.5-0.5B-Instruct",
    "qwen3": "Qwen/Qwen3-1.7B",
    "qwen3_moe": "Qwen/Qwen3-30B-A3B",
    "qwen3_5_text": "Qwen/Qwen3.5-0.8B",
    "lfm2": "LiquidAI/LFM2-700M",
    "gemma": "google/gemma-2b",
    "gemma2": "google/gemma-2-2b",
    "gemma3_text": "google/gemma-3-1b-pt",
    "gemma4_text": "google/gemma-4-31B",
    "gemma4_unified_text": "google/gemma-4-12B",
    "phi3": "microsoft/Phi-3-mini-4k-instruct",
    "olmo2": "allenai/OLMo-2-1124-7B",
    "olmo3": "allenai/Olmo-3-1025-7B",
    "granite": "ibm-granite/granite-3.1-2b-base",
    "granitemoehybrid": "ibm-granite/granite-4.0-1b-base",
    "nemotron_h": "nvidia/NVIDIA-Nemotron-3-Nano-4B-BF16",
    "falcon_h1": "tiiuae/Falcon-H1-0.5B-Base",
    "glm4": "zai-org/GLM-4-9B-0414",
    "glm4_moe": "zai-org/GLM-4.5-Air",
    "ministral3": "mistralai/Ministral-3-3B-Base-2512",
    "seed_oss": "ByteDance-Seed/Seed-OSS-36B-Base",
    "smollm3": "HuggingFaceTB/SmolLM3-3B-Base",
    "gpt_neox": "EleutherAI/pythia-160m",
    "gpt_oss": "openai/gpt-oss-20b",
}
OTHERWISE = {"gemma4_text that borrows": "google/gemma-4-E2B"}  # models whose layers differ from the one of their type
SHARDED = ("glm4_moe", "llama4_text")  # too large for one GPU, even with adapters
MODEL = MODELS["qwen2"]  # of the cells whose model does not matter
BESIDE = "Qwen/Qwen2.5-7B-Instruct"  # what else such a cell runs: of another size, with the same tokens
DATA = HERE / "recipes" / "data"


class Cell(Struct, frozen=True):
    """One recipe of the matrix and how far it is verified, or a file with tests that only the matrix runs."""

    name: str
    recipe: str
    level: str = "run"
    beside: Path = HERE / "recipes"  # the folder with what the recipe names

    @property
    def is_test_file(self) -> bool:
        return self.level == "test"


def cells() -> Iterator[Cell]:
    """What differs in code: model types, methods with strategies, adaptations and formats, and the recipes that exist.

    Layers are recomputed where that goes with the adaptation, as in most runs of real size: these are so small that
    they would keep all.
    """
    usual = [row for row in ADAPTATIONS.values() if row.unasked]
    whole, adapter = (next(row for row in usual if row.trains_all is all) for all in (True, False))
    single = next(row for row in STRATEGIES.values() if row.one_rank)
    for (kind, model), adaptation in product((MODELS | OTHERWISE).items(), (whole, adapter)):
        strategy = STRATEGIES["fsdp"] if kind in SHARDED else single
        recipe = _recipe(METHODS["sft"], "chat", model, adaptation, strategy)
        yield Cell(f"{kind} {adaptation.name}", recipe)
    for method in METHODS.values():
        known = [row for row in map(ADAPTATIONS.get, method.adaptations) if not row.asked_in]
        for strategy, adaptation in product(STRATEGIES.values(), known):
            recipe = _recipe(method, method.formats[0], MODEL, adaptation, strategy)
            yield Cell(f"{method.name} {strategy.name} {adaptation.name}", recipe)
        for format in method.formats[1:]:
            yield Cell(f"{method.name} on {format}", _recipe(method, format, MODEL, known[0], single))
    for path in sorted((HERE / "recipes").glob("*.toml")):
        yield Cell(f"recipes/{path.name}", path.read_text(encoding="utf-8"), "learn")
    for path in sorted(SHIPPED.glob("*.toml")):
        recipe = path.read_text(encoding="utf-8")
        if "[recipe]" in recipe:  # else others extend it
            yield Cell(f"shipped/{path.name}", recipe, "learn", SHIPPED)
    for path in sorted(TESTS.rglob("test_*.py")):
        if re.search("^from tiers import|pytest.mark.matrix", path.read_text(encoding="utf-8"), re.MULTILINE):
            yield Cell(path.relative_to(TESTS).as_posix(), "", "test")


@cache
def data_files() -> dict[str, str]:
    """Format -> the first file of the data folder that holds such rows."""
    found = {}
    for path in sorted(path for path in DATA.iterdir() if path.is_file() and path.suffix != ".py"):
        rows = read_rows([path], 10)
        if rows:  # the functions that reward answers lie beside the data
            found.setdefault(recognise(tuple(rows), None, {}, ["here"] * len(rows)).format, path.name)
    return found


def _recipe(method: Method, format: str, model: str, adaptation: Adaptation, strategy: Strategy) -> str:
    nodes = "nodes = 2\nnetwork_gbps = 200" if strategy.groups else ""
    named = {"method": method.alignment} if method.alignment else dict.fromkeys(method.named_models, BESIDE)
    if method.earns:
        named |= {"reward": REWARD}
    alignment = "\n".join(["[alignment]", *(f'{key} = "{name}"' for key, name in named.items())]) if named else ""
    return f"""\
[recipe]
name = "cell"
[goal]
task = "{method.task}"
[model]
name = "{model}"
[data]
{method.section} = "data/{data_files()[format]}"
examples = 5_000
max_length = 256
[hardware]
gpu = "b200"
gpus_per_node = {1 if strategy.one_rank else 4}
{nodes}
[train]
adaptation = "{adaptation.name}"
strategy = "{strategy.name}"
global_batch_size = 32
activation_checkpointing = {str(adaptation.recomputes).lower()}
{alignment}
"""


def main(arguments: list[str]) -> None:
    """Continue the table and write its summary."""
    known = read()
    wanted = [cell for cell in cells() if (arguments[0] in cell.name if arguments else cell.name not in known)]
    with TemporaryDirectory(prefix="recipec-matrix-") as folder, fork_server(Path(folder)), forking(Path(folder)):
        for cell in wanted:
            known[cell.name] = _run(cell)
            print(*known[cell.name].values(), sep=" | ", flush=True)
            _write(known)
    SUMMARY.write_text("\n".join([*report(known), ""]), encoding="utf-8")


def read() -> dict[str, dict[str, str]]:
    """The rows that exist, by cell."""
    if not TABLE.exists():
        return {}
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {row["cell"]: row for row in csv.DictReader(file)}


def _write(known: dict[str, dict[str, str]]) -> None:
    order = {cell.name: place for place, cell in enumerate(cells())}
    rows = sorted((row for name, row in known.items() if name in order), key=lambda row: order[row["cell"]])
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _run(cell: Cell) -> dict[str, str]:
    """One cell's row of the table."""
    started = time.monotonic()
    row = _tested(cell) if cell.is_test_file else _verified(cell)
    seconds = f"{time.monotonic() - started:.0f}"
    return {"cell": cell.name, "level": cell.level, **row, "seconds": seconds, "date": date.today().isoformat()}


def _tested(cell: Cell) -> dict[str, str]:
    """Run the tests of a file that are for the matrix alone."""
    command = [sys.executable, "-m", "pytest", "-m", "matrix", "-rfE", str(TESTS / cell.name)]
    told = subprocess.run(command, capture_output=True, text=True, check=False, cwd=TESTS.parent)
    passed = re.search(r"(\d+) passed", told.stdout)
    failed = re.findall(r"^(?:FAILED|ERROR) \S+::(\S+)", told.stdout, re.MULTILINE)
    result = "passed" if told.returncode == 0 else f"FAILED: {'; '.join(failed) or told.stdout[-200:]}"
    return {"result": result, "checks": passed[1] if passed else "0", "loss": ""}


def _verified(cell: Cell) -> dict[str, str]:
    """Compile, build and verify the recipe of a cell."""
    with TemporaryDirectory(prefix="recipec-cell-") as name:
        folder = Path(name)
        for path in cell.beside.iterdir():
            (folder / path.name).symlink_to(path)
        os.environ["DATA_ROOT"] = name
        recipe = folder / "cell.toml"
        recipe.write_text(cell.recipe, encoding="utf-8")
        done = compile_recipe(recipe)
        if done.lock is None:
            return {"result": f"refused: {_reason(done.diagnostics)}", "checks": "", "loss": ""}
        write_bundle(folder / "out", done.files, done.plan_json, done.lock)
        return _outcome(verify_bundle(folder / "out", cell.level))


def _reason(diagnostics: Sequence[Diagnostic]) -> str:
    """The rule that refuses a cell, or the diagnostic where no rule does, and its title."""
    error = next(found for found in diagnostics if found.code.startswith("E"))
    rule = _RULE.search(" ".join((error.title, *error.help, *error.notes)))
    return f"{rule[0] if rule else error.code} {error.title}"


def _outcome(report: VerifyReport) -> dict[str, str]:
    failed = [check.name for check in report.checks if not check.ok] + [row.what for row in report.not_run]
    losses = [check.detail.split(" in ")[0] for check in report.checks if check.name.endswith("losses are finite")]
    result = "passed" if report.ok else f"FAILED: {'; '.join(failed)}"
    return {"result": result, "checks": str(len(report.checks)), "loss": ", ".join(losses)}


def report(known: dict[str, dict[str, str]]) -> Iterator[str]:
    """The table as people read it."""
    rows = [known.get(cell.name, _NOT_RUN | {"cell": cell.name, "level": cell.level}) for cell in cells()]
    results = Counter(row["result"].partition(":")[0] for row in rows)
    yield "# Every kind of bundle, run"
    yield ""
    yield f"{len(rows)} cells: {', '.join(f'{count} {result}' for result, count in sorted(results.items()))}."
    yield "Stand-ins of a few hundred thousand parameters on a CPU, two processes for a distributed plan (HSDP: four)."
    yield "A refused cell names the rule that refuses it (`recipec explain RULE`), or the diagnostic."
    yield f"Stack: {', '.join(f'{name} {version}' for name, version in stack().items())}."
    yield ""
    yield "A cell is what the code of its day did; the tests of every day run each method and strategy once."
    yield ""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---" * len(COLUMNS) + "|"
    for row in rows:
        yield "| " + " | ".join(row[column] for column in COLUMNS) + " |"


if __name__ == "__main__":
    main(sys.argv[1:])
