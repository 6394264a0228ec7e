"""The runs of the GPU benchmark, as recipes."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

STEPS = 6
ROWS = "rows.jsonl"
SMALL_MOE = "small-moe"  # a folder that `models.py` makes: the layers of Qwen3-30B-A3B, fewer of them
_RECIPE = """\
[recipe]
name = "gpu"

[goal]
task = "{task}"

[model]
name = "{model}"

[data]
{source} = "{file}"
format = "{format}"{template}
max_length = {length}
examples = {examples}
tokens_per_example = {tokens}

[hardware]
gpu = "{gpu}"
cpu_cores = 16

[track]
to = "none"

[train]
adaptation = "{adaptation}"
strategy = "single"
optimizer = "{optimizer}"
attention = "sdpa"
{recomputation}
micro_batch_size = {rows}
global_batch_size = {batch}
epochs = 1
packing = false
"""


class Case(Struct, frozen=True):
    """One run on one GPU; every choice that the planner has is fixed."""

    model: str
    adaptation: str  # full | lora | qlora | lora-int8
    length: int  # tokens of the longest row
    rows: int  # micro batch
    objective: str = "sft"  # sft | dpo | pretrain
    checkpointing: bool = True
    accumulation: int = 1
    optimizer: str = "adamw"
    recompute_every: int = 1
    activation_offload: bool = False

    @property
    def id(self) -> str:
        kept = "checkpointed" if self.checkpointing else "kept"
        kept += f" every-{self.recompute_every}" if self.recompute_every > 1 else ""
        kept += " on-host" if self.activation_offload else ""
        more = f" accumulate-{self.accumulation}" if self.accumulation > 1 else ""
        more += f" {self.optimizer}" if self.optimizer != "adamw" else ""
        return f"{self.model} {self.adaptation} {self.objective} {self.length}x{self.rows} {kept}{more}"

    @property
    def examples(self) -> int:
        """Rows for STEPS steps, with a fifth kept back for evaluation and test."""
        return max(-(-self.rows * self.accumulation * STEPS * 5 // 4), 40)

    def lengths(self) -> Iterator[int]:
        """Tokens of each row: sixteen lengths up to the longest, so that batches are padded."""
        return (self.length - index % 16 for index in range(self.examples))

    def recipe(self, gpu: str) -> str:
        """The TOML that pins this run on `gpu`."""
        task = {"sft": "instruct", "dpo": "align", "pretrain": "pretrain"}[self.objective]
        formats = {"sft": "prompt-completion", "dpo": "preference", "pretrain": "text"}
        return _RECIPE.format(
            task=task,
            model=f"./{self.model}" if self.model == SMALL_MOE else self.model,
            source="preferences" if self.objective == "dpo" else "train",
            format=formats[self.objective],
            file=ROWS,
            template="" if self.objective == "pretrain" else '\ntemplate = "plain"',  # with which rows are counted
            length=self.length,
            examples=self.examples,
            tokens=sum(self.lengths()) // self.examples,
            gpu=gpu,
            adaptation=self.adaptation,
            optimizer=self.optimizer,
            recomputation=self._recomputation(),
            rows=self.rows,
            batch=self.rows * self.accumulation,
        )

    def _recomputation(self) -> str:
        if not self.checkpointing:
            return "activation_checkpointing = false"
        offload = str(self.activation_offload).lower()
        return f"recompute_every = {self.recompute_every}\nactivation_offload = {offload}"


SMALL, MIDDLE, LARGE = "Qwen/Qwen2.5-0.5B", "meta-llama/Llama-3.2-3B", "meta-llama/Llama-3.1-8B"
CASES = [
    # 0.5 billion parameters, tied embeddings, biases: every method and objective
    Case(SMALL, "full", 1024, 8),
    Case(SMALL, "full", 1024, 16, checkpointing=False),
    Case(SMALL, "full", 4096, 4),
    Case(SMALL, "full", 1024, 4, accumulation=4, checkpointing=False),
    Case(SMALL, "full", 2048, 8, optimizer="adamw-8bit"),
    Case(SMALL, "full", 1024, 8, "dpo"),
    Case(SMALL, "full", 2048, 8, "pretrain", checkpointing=False),
    Case(SMALL, "lora", 2048, 8),
    Case(SMALL, "lora", 1024, 8, checkpointing=False),
    Case(SMALL, "lora", 1024, 8, "dpo"),
    Case(SMALL, "qlora", 2048, 8),
    Case(SMALL, "lora-int8", 2048, 8),
    # other blocks
    Case("google/gemma-3-1b-pt", "full", 2048, 4),
    Case("google/gemma-3-1b-pt", "lora", 2048, 8, checkpointing=False),
    Case("microsoft/Phi-3-mini-4k-instruct", "lora", 2048, 8),
    Case("microsoft/Phi-3-mini-4k-instruct", "qlora", 2048, 4, checkpointing=False),
    Case(SMALL_MOE, "full", 1024, 8),
    Case(SMALL_MOE, "lora", 2048, 8),
    Case("Qwen/Qwen3-1.7B", "full", 2048, 8),
    Case("Qwen/Qwen3-1.7B", "lora", 8192, 2),
    # 3 billion
    Case(MIDDLE, "full", 1024, 8),
    Case(MIDDLE, "full", 4096, 2),
    Case(MIDDLE, "lora", 2048, 8),
    Case(MIDDLE, "qlora", 2048, 8, "dpo"),
    # 8 billion
    Case(LARGE, "lora", 1024, 8),
    Case(LARGE, "lora", 2048, 2, checkpointing=False),
    Case(LARGE, "lora", 2048, 8),
    Case(LARGE, "lora", 8192, 4),
    Case(LARGE, "qlora", 2048, 8),
    Case(LARGE, "qlora", 2048, 2, checkpointing=False),
    Case(LARGE, "lora-int8", 2048, 8),
    Case(LARGE, "lora-int8", 1024, 4, "dpo"),
    Case(LARGE, "qlora", 16384, 1),
    Case(LARGE, "lora", 8192, 2, recompute_every=2),
    Case(LARGE, "lora", 8192, 4, activation_offload=True),
    Case(LARGE, "qlora", 65536, 1, activation_offload=True),
    Case(LARGE, "lora", 1024, 4, "dpo"),
    Case(LARGE, "full", 1024, 1),
    Case(LARGE, "full", 1024, 8, optimizer="adamw-8bit"),
]
EDGES = [
    Case(SMALL, "full", 1024, 1),
    Case(SMALL, "lora", 2048, 1, checkpointing=False),
    Case(MIDDLE, "full", 2048, 1),
    Case(LARGE, "lora", 2048, 1),
    Case(LARGE, "qlora", 4096, 1),
]
