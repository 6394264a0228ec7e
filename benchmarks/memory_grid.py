"""Hold the memory formula against the exact simulation on a grid of runs: `python -m benchmarks.memory_grid [N]`.

Simulates the next N cases (all, without N) that benchmarks/results/memory_grid.csv does not have, one row at a time, so
that it can be stopped and continued; then scores the formula on all rows and writes memory_grid.md. With 0 it only
scores. Needs no GPU; a case takes ten seconds.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import product
from statistics import median

from benchmarks.published import RESULTS
from recipec.catalog.models import model
from recipec.estimate.memory import MemoryEstimate, step_memory
from recipec.estimate.work import ALL_LINEAR, LoraShape, Work
from recipec.layout import Layout, Mesh

GIB = 1 << 30
TABLE, SUMMARY = RESULTS / "memory_grid.csv", RESULTS / "memory_grid.md"
MODELS = {  # name -> what it adds
    "meta-llama/Llama-3.1-8B": "grouped queries, 128k vocabulary",
    "Qwen/Qwen2.5-0.5B": "tied embeddings, query and key biases",
    "Qwen/Qwen3-8B": "norms on queries and keys",
    "mistralai/Mistral-7B-v0.3": "32k vocabulary",
    "microsoft/Phi-3-mini-4k-instruct": "fused projections, no grouped queries",
    "google/gemma-3-1b-pt": "tied 262k vocabulary, four norms, sliding window",
    "Qwen/Qwen3-30B-A3B": "mixture of 128 experts",
}
METHODS = {"full": ("full", "none"), "lora": ("lora", "none"), "qlora": ("lora", "nf4")}
RANKS = (("single", 1), ("ddp", 8), ("fsdp", 8), ("fsdp", 64), ("hsdp", 32))
TRAINERS = ("sft", "dpo")
OPTIMIZERS = ("adafactor", "lion", "sgd")  # beside AdamW: full fine-tuning of two models, on one device and with DDP
RECOMPUTED = (  # every n-th layer, and whether their inputs wait on the host: three models on one device, sharded whole
    *(("single", method, *kind) for method in ("full", "lora") for kind in ((2, False), (3, True))),
    *(("single", "qlora", *kind) for kind in ((4, False), (1, True))),
    *((strategy, "full", 1, True) for strategy in ("ddp", "fsdp")),
    *(("fsdp", "lora", *kind) for kind in ((2, False), (1, True))),
    ("fsdp", "full", 2, False),
)
ATTENTIONS = (  # what the cases above do not have: masks in packed rows, and attention without a fused kernel
    *(("google/gemma-3-1b-pt", trainer, True, "sdpa") for trainer in ("sft", "continue-pretrain")),
    *((name, "continue-pretrain", True, "sdpa") for name in ("mistralai/Mistral-7B-v0.1", "allenai/Olmo-3-1025-7B")),
    ("meta-llama/Llama-3.1-8B", "sft", True, "sdpa"),
    *((name, "sft", False, "eager") for name in ("google/gemma-2-2b", "openai/gpt-oss-20b")),
)
RECOMPUTED_MODELS = ("meta-llama/Llama-3.1-8B", "google/gemma-3-1b-pt", "Qwen/Qwen3-30B-A3B")
OPTIMIZER_MODELS = ("meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-0.5B")
TOKENS = ((1024, 8), (1024, 2), (2048, 1), (2048, 4), (4096, 1), (4096, 2), (8192, 1), (16384, 1))  # length, rows
ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")  # what the rules adapt in a mixture of experts
STAGES = ("forward", "forward_end", "reference", "loss", "layer_backward", "end_of_backward", "optimizer_step")
COLUMNS = ("case", "peak_bytes", "peak_stage", *STAGES, "evaluation", "seconds", "found_by")


@dataclass(frozen=True, slots=True)
class Case:
    """One run of the grid."""

    model: str
    method: str
    strategy: str
    ranks: int
    trainer: str
    checkpointing: bool
    length: int
    rows: int
    packed: bool
    accumulation: int
    dropout: bool
    optimizer: str = "adamw"
    recompute_every: int = 1
    activation_offload: bool = False
    attention: str = ""  # empty: flash attention where rows are packed, SDPA elsewhere

    @property
    def id(self) -> str:
        kept = "checkpointed" if self.checkpointing else "kept"
        kept += f" every-{self.recompute_every}" if self.recompute_every > 1 else ""
        kept += " on-host" if self.activation_offload else ""
        rows = "packed" if self.packed else "padded"
        run = f"{self.method} {self.strategy}-{self.ranks} {self.trainer}"
        dropout = " dropout" if self.dropout else ""
        optimizer = f" {self.optimizer}" if self.optimizer != "adamw" else ""
        batch = f"{self.length}x{self.rows} {rows} accumulate-{self.accumulation}"
        attention = f" {self.attention}" if self.attention else ""
        return f"{self.model} {run} {kept} {batch}{dropout}{optimizer}{attention}"

    @property
    def layout(self) -> Layout:
        adaptation, quantization = METHODS[self.method]
        meshes = {"fsdp": Mesh(shard=self.ranks), "hsdp": Mesh(replicate=self.ranks // 8, shard=8)}
        return Layout(
            adaptation=adaptation,
            quantization=quantization,
            precision="bf16",
            strategy=self.strategy,
            mesh=meshes.get(self.strategy, Mesh(replicate=self.ranks)),
            offload="none",
            micro_batch=self.rows,
            accumulation=self.accumulation,
            checkpointing=self.checkpointing,
            attention=self.attention or ("flash_attention_2" if self.packed else "sdpa"),
            packing=self.packed,
            optimizer=self.optimizer,
            recompute_every=self.recompute_every,
            activation_offload=self.activation_offload,
        )

    @property
    def work(self) -> Work:
        full = self.method == "full"
        targets = ATTENTION if self.architecture.moe else ALL_LINEAR
        reference = "none" if self.trainer != "dpo" else "model" if full else "adapter-off"
        return Work(
            objective=self.trainer,
            seq_len_tokens=self.length,
            lora=None if full else LoraShape(16, targets, self.dropout),
            reference=reference,
            padded=not self.packed,
            sync_each_batch=True,
        )

    @property
    def architecture(self):
        found = model(self.model)
        assert found is not None
        return found.architecture

    @property
    def formula(self) -> MemoryEstimate:
        return step_memory(self.architecture, self.layout, self.work)


def cases() -> list[Case]:
    """Every model, method, strategy and trainer; the other choices by a hash, which also orders them."""
    rows = [_case(*choice) for choice in product(MODELS, METHODS, RANKS, TRAINERS)]
    others = product(OPTIMIZER_MODELS, RANKS[:2], OPTIMIZERS)
    rows += [replace(_case(name, "full", ranks, "sft"), optimizer=other) for name, ranks, other in others]
    rows += [_recomputing(name, *kind) for name, kind in product(RECOMPUTED_MODELS, RECOMPUTED)]
    kinds = product(ATTENTIONS, ("full", "lora"), (("single", 1), ("fsdp", 8)))
    rows += [_attending(*kind, method, ranks) for kind, method, ranks in kinds]
    return sorted(rows, key=lambda case: _number(case.id))


def _case(name: str, method: str, ranks: tuple[str, int], trainer: str) -> Case:
    number = _number(f"{name} {method} {ranks} {trainer}")
    length, rows = TOKENS[number // 7 % len(TOKENS)]
    packed = trainer == "sft" and number % 3 == 0
    dropout = trainer == "sft" and method != "full" and number % 11 > 3
    return Case(name, method, *ranks, trainer, number % 5 > 1, length, rows, packed, 1 if number % 4 else 4, dropout)


def _attending(name: str, trainer: str, packed: bool, attention: str, method: str, ranks: tuple[str, int]) -> Case:
    """Rows of at most 8,192 tokens, 4,096 for eager attention, which holds tens of GiB for longer ones."""
    case = _case(name, method, ranks, trainer)
    length = min(case.length, 4096 if attention == "eager" else 8192)
    return replace(case, length=length, packed=packed, attention=attention)


def _recomputing(name: str, strategy: str, method: str, every: int, on_host: bool) -> Case:
    case = _case(name, method, (strategy, 1 if strategy == "single" else 8), "sft")
    return replace(case, checkpointing=True, recompute_every=every, activation_offload=on_host)


def _number(text: str) -> int:
    return int(sha256(text.encode()).hexdigest()[:8], 16)


def main(arguments: list[str]) -> int:
    """Continue the table and score the formula."""
    known = read()
    missing = [case for case in cases() if case.id not in known]
    for case in missing[: int(arguments[0]) if arguments else None]:
        known[case.id] = _simulated(case)
        _append(known[case.id])
        print(_line(case, known[case.id]), flush=True)
    text = "\n".join(report(known)) + "\n"
    print(text, end="")
    SUMMARY.write_text(text, encoding="utf-8")
    return 0


def read() -> dict[str, Mapping[str, str]]:
    """The rows that exist, by case."""
    if not TABLE.exists():
        return {}
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {row["case"]: row for row in csv.DictReader(file)}


def _simulated(case: Case) -> Mapping[str, str]:
    from recipec.simulate.simulate import simulate

    found = simulate(case.architecture, case.layout, case.work)
    row = {"case": case.id, "peak_bytes": found.peak_allocated_bytes, "peak_stage": found.peak_stage}
    row |= {name: found.stages.get(name, "") for name in (*STAGES, "evaluation")}
    row |= {"seconds": f"{found.seconds:.1f}", "found_by": found.notes[0]}
    return {name: str(value) for name, value in row.items()}


def _append(row: Mapping[str, str]) -> None:
    new = not TABLE.exists()
    with TABLE.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


def error(case: Case, row: Mapping[str, str]) -> float:
    """Formula over simulation, less one."""
    return case.formula.peak_allocated_bytes / int(row["peak_bytes"]) - 1


def _line(case: Case, row: Mapping[str, str]) -> str:
    simulated = f"{int(row['peak_bytes']) / GIB:9.2f} GiB {row['peak_stage']:15}"
    return f"{case.id:95} {simulated} formula {error(case, row):+7.1%} {case.formula.peak_stage:15} {row['seconds']} s"


def report(known: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """The percentile table, and every case that is off by more than three percent."""
    done = [case for case in cases() if case.id in known]
    errors = {case: error(case, known[case.id]) for case in done}
    yield "# The memory formula against the exact simulation"
    yield ""
    yield f"{len(done)} of {len(cases())} cases. Errors are formula / simulation - 1; bias is their median."
    yield ""
    yield "| group | n | within 3 % | median | p90 | p95 | worst | bias |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, group in _groups(errors).items():
        yield _row(name, group)
    yield ""
    yield "Off by more than 3 %:"
    yield ""
    for case in sorted((case for case in done if abs(errors[case]) > 0.03), key=lambda case: errors[case]):
        row = known[case.id]
        peaks = f"{row['peak_stage']}, formula {case.formula.peak_stage}"
        yield f"- {errors[case]:+.1%} {case.id} ({int(row['peak_bytes']) / GIB:.2f} GiB at {peaks})"


def _groups(errors: Mapping[Case, float]) -> dict[str, list[float]]:
    groups: dict[str, list[float]] = {"all": []}
    for case, value in errors.items():
        parts = (f"{case.strategy}-{case.ranks}", case.trainer, case.optimizer, f"{case.method}, {case.strategy}")
        parts += ("every n-th layer recomputed",) if case.recompute_every > 1 else ()
        parts += (f"{'packed' if case.packed else 'padded'} rows, {case.attention}",) if case.attention else ()
        parts += ("activations on the host",) if case.activation_offload else ()
        for name in ("all", case.model, case.method, *parts):
            groups.setdefault(name, []).append(value)
    return groups


def _row(name: str, group: list[float]) -> str:
    sizes = sorted(abs(value) for value in group)
    within = sum(size <= 0.03 for size in sizes) / len(sizes)
    cuts = [sizes[round(share * (len(sizes) - 1))] for share in (0.5, 0.9, 0.95, 1.0)]
    return f"| {name} | {len(group)} | {within:.0%} | " + " | ".join(f"{v:.1%}" for v in (*cuts, median(group))) + " |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
