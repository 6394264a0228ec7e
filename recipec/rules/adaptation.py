"""Which parameters are trained: the ordered list of acceptable adaptations that the planner works through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from recipec.axes import ADAPTATIONS, BASES, Method
from recipec.rules.core import Choice, rule
from recipec.rules.defaults import method_of
from recipec.rules.words import data_size, gpu_memory

_OPEN = [row for row in ADAPTATIONS.values() if row.unasked]
ADAPTERS_FIRST = tuple(row.name for row in sorted(_OPEN, key=lambda row: (row.trains_all, row.quantized)))
SMALLEST_FIRST = tuple(row.name for row in sorted(_OPEN, key=lambda row: (row.trains_all, not row.quantized)))
FULL_FIRST = tuple(row.name for row in sorted(_OPEN, key=lambda row: (not row.trains_all, row.quantized)))


class _Case(NamedTuple):
    method: Method
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


_Order = tuple[str, ...]
_BRANCHES: tuple[tuple[Callable[[_Case], bool], _Order, str], ...] = (  # the first that applies decides
    (lambda c: c.priority == "memory", SMALLEST_FIRST, "the recipe puts memory first"),
    (
        lambda c: c.priority == "speed",
        ADAPTERS_FIRST,
        "the recipe puts speed first, and an adapter updates 1% of the weights",
    ),
    (lambda c: c.first_time and c.memory == "<16", SMALLEST_FIRST, "a first training under 16 GB of GPU memory"),
    (lambda c: bool(c.method.preferred), (), ""),  # the method's own order
    (lambda c: c.size == ">100K", FULL_FIRST, "more than 100,000 rows are worth training every weight"),
    (lambda c: c.is_worth_full, FULL_FIRST, "10,000 rows or more, 48 GB or more, and a wish for the most quality"),
    (lambda c: True, ADAPTERS_FIRST, "LoRA until its quality is shown not to suffice"),
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
    size, memory, method = data_size(examples), gpu_memory(total_vram_gib, gpu_is_cpu), method_of(stage)
    order, why = _order(_Case(method, priority, new_domain, first_time, size, memory))
    return Choice(tuple(name for name in order if name in method.adaptations), why)


def _order(case: _Case) -> tuple[_Order, str]:
    """The order that applies; a method with a single adaptation has its own at once."""
    own = case.method.preferred, case.method.preferred_because
    if len(case.method.adaptations) == 1:
        return own
    order, why = next((order, why) for applies, order, why in _BRANCHES if applies(case))
    return (order, why) if order else own


def wished(preferences: Sequence[str], family: str | None, base: str | None) -> tuple[str, ...]:
    """Keep the preferences that agree with what the recipe fixes; None fixes nothing, an empty answer is a conflict."""
    rows = [ADAPTATIONS[name] for name in preferences]
    return tuple(row.name for row in rows if family in (None, row.family) and base in (None, row.base))


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
    if BASES[quantization].bits is None:
        return Choice(False, "the base is not quantized, so it has no scales")
    return Choice(True, "the scales of a 4-bit base take 0.37 bits per parameter less")
