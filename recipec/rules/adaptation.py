"""Which parameters are trained: the ordered list of acceptable adaptations that the planner works through."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from recipec.rules.core import Choice, rule
from recipec.rules.words import data_size, gpu_memory

_Order = tuple[tuple[str, str], ...]
LORA, QLORA, FULL = ("lora", "none"), ("lora", "nf4"), ("full", "none")
_LORA_FIRST, _QLORA_FIRST, _FULL_FIRST = (LORA, QLORA, FULL), (QLORA, LORA, FULL), (FULL, LORA, QLORA)


class _Case(NamedTuple):
    stage: str
    priority: str | None
    new_domain: bool
    first_time: bool
    size: str
    memory: str

    @property
    def is_worth_full(self) -> bool:
        """Whether enough data and memory meet a reason to move every weight."""
        has_room = self.size == "10K-100K" and self.memory in ("48-160", ">160")
        return has_room and (self.new_domain or (self.first_time and self.priority == "quality"))


_BRANCHES: tuple[tuple[Callable[[_Case], bool], _Order, str], ...] = (  # the first that applies decides
    (lambda c: c.stage == "pretrain", (FULL,), "random weights must all be trained"),
    (lambda c: c.priority == "memory", _QLORA_FIRST, "priority memory: 4-bit base first"),
    (lambda c: c.priority == "speed", _LORA_FIRST, "priority speed: 1 % of the parameters to update"),
    (lambda c: c.first_time and c.memory == "<16", _QLORA_FIRST, "first training under 16 GB: 4-bit base first"),
    (lambda c: c.stage == "dpo", _LORA_FIRST, "DPO: the adapter switched off is the reference"),
    (lambda c: c.stage == "continue-pretrain", _FULL_FIRST, "new knowledge moves every weight"),
    (lambda c: c.size == ">100K", _FULL_FIRST, "over 100K examples full fine-tuning is preferred"),
    (lambda c: c.is_worth_full, _FULL_FIRST, "10K-100K examples, 48 GB or more, and a wish for the most quality"),
    (lambda c: True, _LORA_FIRST, "LoRA until its quality is shown not to suffice"),
)


@rule(
    "ADPT-001",
    decides="adaptations",
    watch="eval_loss: under LoRA, flat from the start asks for more rank, then for full fine-tuning",
    source="rule book 001, Decision Tree (Available compute?; Fine-tuning or continued pre-training?; Data size); "
    "003, Which fine-tuning method?, Anti-Patterns; 000, LoRA",
)
def adaptation_preferences(
    stage: str,
    priority: str | None,
    new_domain: bool,
    first_time: bool,
    examples: int,
    total_vram_gib: float,
    gpu_is_cpu: bool,
) -> Choice:
    """Decides the order in which adaptations are tried: the first one that fits is taken.

    A threshold in GB says nothing without the model's size, so memory only orders the list and the planner computes
    the fit. Pretraining from random weights trains them all: there is nothing else to choose. Then the first that
    applies: priority memory: QLoRA. Priority speed: LoRA. A first training under 16 GB: QLoRA
    (001; 003 says up to 24 GB, but LoRA on an unquantised base is faster where it fits). DPO: LoRA, whose reference is
    the adapter switched off. Continued pretraining: full (001). Over 100K examples: full, for a domain shift and for
    a task, where 001's tree has a hole. 10K to 100K, where 001's data row allows both, with 48 GB or more: full for a
    domain shift and for a first training with priority quality (001; 003 "and need max quality").
    Otherwise LoRA: 001's compute branches alone would say full from 48 GB on, but 003 calls starting with full
    an anti-pattern, and 001's own data rows say LoRA under 10K, a domain shift included, which no tree covers.
    """
    size, memory = data_size(examples), gpu_memory(total_vram_gib, gpu_is_cpu)
    case = _Case(stage, priority, new_domain, first_time, size, memory)
    order, why = next((order, why) for applies, order, why in _BRANCHES if applies(case))
    return Choice(order, f"{why}; {examples:,} examples ({size}), {total_vram_gib:g} GiB of GPU memory ({memory})")


_REASONS = {
    LORA: "LoRA on an unquantised base: about 1 % of the parameters, exact merge, the default of 001 and 003",
    QLORA: "LoRA on a 4-bit NF4 base: a quarter of the base's bf16 size, slower steps, and a merged model that differs "
    "slightly from what was trained (peft #1043)",
    FULL: "full fine-tuning: the largest shift, 16 bytes per parameter with AdamW; for over 100K rows, new knowledge",
}


def adaptation_reason(adaptation: str, quantization: str) -> str:
    """Say in one line what an entry of the preference list buys and costs."""
    return _REASONS[adaptation, quantization]


def wished(
    preferences: tuple[tuple[str, str], ...], adaptation: str | None, quantization: str | None
) -> tuple[tuple[str, str], ...]:
    """Keep the preferences that agree with what the recipe fixes; None fixes nothing, an empty answer is a conflict."""
    return tuple(
        (method, base) for method, base in preferences if adaptation in (None, method) and quantization in (None, base)
    )


@rule(
    "ADPT-002",
    decides="double_quantization",
    watch="peak_memory_gib, loss: memory matches the plan, and the first loss is near the unquantised model's",
    source="rule book 001, Decision Tree (< 16 GB: 4-bit NF4, double quant), Step 1 (QLoRA), Rules",
)
def double_quantization(quantization: str) -> Choice:
    """Decides whether the scales of a 4-bit base are quantised too.

    Rule book 001 says so three times: QLoRA is 4-bit NF4 with double quantization. It takes the scales from 0.5 to
    about 0.127 bits per parameter (QLoRA paper, arXiv 2305.14314, section 3): 0.37 bits, 0.3 GB on a 7B model.
    """
    if quantization == "nf4":
        return Choice(True, "NF4 with double quantization saves 0.37 bits per parameter, 0.3 GB on 7B")
    return Choice(False, f"quantization {quantization}: 0 scales to quantise")
