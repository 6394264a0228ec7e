"""The user's own rows, prepared by the bundle's own script and counted: steps, time and cost follow from their number.

A run replaces data and steps, so it cannot see that there are other rows than the plan counts with.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

from recipec.dataset import files_of
from recipec.rules.evaluation import training_rows
from recipec.rules.intervals import answers_in
from recipec.verify.bundle import Bundle, BundleStage
from recipec.verify.data import read_rows
from recipec.verify.report import VerifyReport
from recipec.verify.rows import BundleData, bundle_data
from recipec.verify.run import read_json
from recipec.verify.sandbox import Sandbox, copy_bundle
from recipec.verify.stand_in import known_model, marks_of, models_of, place_model, stand_in_tokenizer, template_text

WHAT = "counting the real rows"
MOST_BYTES = 32 * 2**20  # of data that is prepared: a few minutes on one core
LIMIT_SECONDS = 240.0
OFF = 0.25  # of the planned number: what duplicates, leaks and a bounded sample explain
OFF_ROWS = 2  # explained at any size: shares of few rows are rounded
VOCABULARY = 8192  # of a tokenizer made from the rows, where the model's own is not on this machine
_ROWS_FOR_TOKENIZER = 2000  # of each file


class NotCounted(Exception):
    """The rows cannot be counted here: the message says why."""


def count_rows(bundle: Bundle, root: Path, report: VerifyReport) -> None:
    """Prepare the user's own data in `root`, and compare rows and steps with the plan's."""
    data_root = Path(os.environ.get("DATA_ROOT") or ".").resolve()
    try:
        files = own_files(bundle_data(bundle.root / "prepare_data.py"), data_root)
        found, exact = _place_tokenizer(bundle, root, files)
        prepared = _prepare(bundle, root, {"DATA_ROOT": str(data_root)} | found, report)
    except NotCounted as error:
        report.skip(WHAT, str(error))
        return
    for stage in bundle.stages if prepared else ():
        compare(stage, read_json(prepared / "data" / stage.name / "report.json"), exact, report)


def own_files(data: BundleData, root: Path) -> list[Path]:
    """Every file that the bundle reads; raises NotCounted where one is missing or all are too large."""
    sources = [source.given for stage in data.stages for source in stage.sources]
    if hub := [source["hub"] for source in sources if "hub" in source]:
        raise NotCounted(f"the rows of {', '.join(hub)} are on the Hub")
    files = []
    for pattern in dict.fromkeys(source["path"] for source in sources):
        files += (found := files_of(pattern, root))
        if not found:
            raise NotCounted(f"{root} has no {pattern}; set DATA_ROOT to the folder that paths start from")
    size = sum(path.stat().st_size for path in files)
    if size > MOST_BYTES:
        raise NotCounted(f"{size / 2**20:.0f} MiB of data; up to {MOST_BYTES / 2**20:.0f} are prepared here")
    return files


def _place_tokenizer(bundle: Bundle, root: Path, files: Sequence[Path]) -> tuple[dict[str, str], bool]:
    """Where the script finds a tokenizer, and whether it is the model's own; raises NotCounted."""
    from huggingface_hub import constants, try_to_load_from_cache

    policy = models_of(bundle)[0]
    if policy.real_folder is not None:
        if not (policy.real_folder / "tokenizer.json").is_file():
            raise NotCounted(f"{policy.name} has no tokenizer.json")
        return {}, True
    needed = ("config.json", "tokenizer.json", "tokenizer_config.json")
    cached = [try_to_load_from_cache(policy.name, name, revision=policy.revision) for name in needed]
    if all(isinstance(path, str) for path in cached):
        return {"HF_HUB_CACHE": constants.HF_HUB_CACHE}, True
    known, texts = known_model(policy), [json.dumps(row, default=str) for row in read_rows(files, _ROWS_FOR_TOKENIZER)]
    template = template_text(known.template_family, known.kind)
    tokenizer = stand_in_tokenizer(known, texts, template, VOCABULARY, marks_of(bundle))
    place_model(policy, root, texts, tokenizer)
    return {}, False


def _prepare(bundle: Bundle, root: Path, found: Mapping[str, str], report: VerifyReport) -> Path | None:
    """The folder of a copy that has prepared the user's data; None where that failed. Raises NotCounted."""
    sandbox = Sandbox(root, copy_bundle(bundle, root), "", "")
    environment = sandbox.environment({}) | found
    outcome = sandbox.run("prepare", ["python", "prepare_data.py"], environment, LIMIT_SECONDS)
    if outcome.code is None:
        raise NotCounted(f"prepare_data.py took more than {LIMIT_SECONDS:.0f} s")
    if outcome.ok:
        return sandbox.bundle.root
    if any(stage.origins["examples"] == "recipe" for stage in bundle.stages):
        last = (outcome.text().splitlines() or ["no output"])[-1]
        raise NotCounted(f"prepare_data.py fails on the files here, which may be samples of the data: {last}")
    report.add("prepare_data.py prepares the rows that are there", outcome.tail())
    return None


def compare(stage: BundleStage, counted: Mapping[str, Any], exact: bool, report: VerifyReport) -> None:
    """Report rows to train on, and steps, that are not about as many as planned.

    `exact`: tokens were counted with the model's own tokenizer.
    """
    train, facts = counted["train"], stage.decisions
    complete = train["read"] - train.get("incomplete", 0)
    held = {complete, train.get("answers", complete)}  # rows of the files, or their answers
    if stage.origins["examples"] == "recipe" and all(_off(rows, facts["source_rows"]) for rows in held):
        states = f"the files hold {train['read']:,} rows and the recipe states {facts['source_rows']:,}"
        report.skip(f"{stage.name}: {WHAT}", f"{states}, so they are not the data of the plan")
        return
    steps = steps_of(stage, train, exact, replayed_rows(counted))
    pairs = [("rows to train on", train["counted"] + replayed_rows(counted), training_rows(facts))]
    pairs += [] if steps is None else [("optimizer steps", steps, facts["total_steps"])]
    seen = [f"{found:,} {what}, the plan counts {planned:,}" for what, found, planned in pairs]
    problems = [said for said, (_, found, planned) in zip(seen, pairs, strict=True) if _off(found, planned)]
    report.add(f"{stage.name}: the plan counts the rows that are there", problems, "; ".join(seen))


def replayed_rows(counted: Mapping[str, Any]) -> int:
    """The general rows among those to train on, as they were before texts were split into pieces."""
    if "replay" not in counted["train"]:
        return 0
    pieces, pool = counted["train"]["replay"]["rows"], counted["replayed"]
    return round(pieces * min(1, pool["counted"] / pool["rows"]))


def steps_of(stage: BundleStage, train: Mapping[str, int], exact: bool, replayed: int = 0) -> int | None:
    """Optimizer steps with these rows and `replayed` ones; None where uncounted tokens or the recipe decide.

    Tokens decide how many blocks are packed, and into how many pieces long texts are cut.
    """
    facts = stage.decisions
    by_tokens = stage.choice["packing"] or facts["overflow"] == "split"
    if facts["max_steps"] > 0 or (by_tokens and not exact):
        return None
    rows = train["rows"] if exact else train["counted"] + replayed
    if stage.method.generates:  # steps of whole generations
        batch = {"global_batch_size": stage.choice["global_batch_size"]}
        return ceil(facts["epochs"] * answers_in(rows, facts | batch) / batch["global_batch_size"])
    sequences = train["tokens"] / facts["max_length"] if stage.choice["packing"] else rows
    return ceil(facts["epochs"] * max(1, ceil(sequences / stage.choice["global_batch_size"])))


def _off(found: float, planned: float) -> bool:
    return abs(found - planned) > max(OFF_ROWS, OFF * planned)
