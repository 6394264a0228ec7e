"""Which parameters are trained: the ordered list of acceptable adaptations that the planner works through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from recipec.axes import ADAPTATIONS, BASES, Adaptation, Method
from recipec.axes.adaptations import BEHIND, BEHIND_MLP, FUSIONS, KEYS_VALUES, KEYS_VALUES_MLP, PREFIXES, PROMPTS
from recipec.axes.bases import ROW
from recipec.rules.core import Choice, Rule, rule
from recipec.rules.defaults import method_of
from recipec.rules.words import data_size, gpu_memory

_OPEN = [row for row in ADAPTATIONS.values() if row.unasked]
ADAPTERS_FIRST = tuple(row.name for row in sorted(_OPEN, key=lambda row: (row.trains_all, row.quantized)))
SMALLEST_FIRST = tuple(row.name for row in sorted(_OPEN, key=lambda row: (row.trains_all, not row.quantized)))
FULL_FIRST = tuple(row.name for row in sorted(_OPEN, key=lambda row: (not row.trains_all, row.quantized)))


def _title(order: Sequence[str]) -> str:
    """What comes first."""
    return ADAPTATIONS[order[0]].title


ROOM_FOR_QUALITY = 4.0  # rule book 003, Decision framework: memory over the size of the model


class _Case(NamedTuple):
    method: Method
    priority: str | None
    new_domain: bool
    first_time: bool
    size: str
    memory: str
    times_model: float  # memory of all GPUs over the weights in 16 bits

    @property
    def has_room(self) -> bool:
        """Whether data and memory are enough for full fine-tuning where there is a reason for it."""
        return self.size == "10K-100K" and self.memory in ("48-160", ">160")

    @property
    def has_quality_room(self) -> bool:
        """The same where the most quality is wanted, by the size of the model."""
        return self.priority == "quality" and self.size == "10K-100K" and self.times_model >= ROOM_FOR_QUALITY


_Order = tuple[str, ...]
_BRANCHES: tuple[tuple[Callable[[_Case], bool], _Order, str], ...] = (  # the first that applies decides
    (
        lambda c: c.priority == "memory",
        SMALLEST_FIRST,
        f"the recipe puts memory first, so {_title(SMALLEST_FIRST)} is tried first",
    ),
    (
        lambda c: c.priority == "speed",
        ADAPTERS_FIRST,
        f"the recipe puts speed first, and {_title(ADAPTERS_FIRST)} updates a small share of the weights",
    ),
    (
        lambda c: c.first_time and c.memory == "<16",
        SMALLEST_FIRST,
        f"a first training on less than 16 GB of GPU memory starts with {_title(SMALLEST_FIRST)}",
    ),
    (lambda c: bool(c.method.preferred), (), ""),  # the method's own order
    (lambda c: c.size == ">100K", FULL_FIRST, "more than 100,000 rows are enough to train every weight"),
    (
        lambda c: c.has_room and c.new_domain,
        FULL_FIRST,
        f"a new domain, 10,000 rows or more and 48 GB of GPU memory or more are worth {_title(FULL_FIRST)}",
    ),
    (
        lambda c: c.has_quality_room,
        FULL_FIRST,
        "the recipe puts quality first, with 10,000 rows or more and GPU memory of 4 times the model or more",
    ),
    (
        lambda c: c.has_room and c.first_time and c.priority == "quality",
        FULL_FIRST,
        "the recipe puts quality first, and 10,000 rows or more and 48 GB of GPU memory or more allow "
        f"{_title(FULL_FIRST)}",
    ),
    (
        lambda c: True,
        ADAPTERS_FIRST,
        f"{_title(ADAPTERS_FIRST)} comes first until evaluation shows that it is not good enough",
    ),
)


@rule(
    "ADPT-001",
    decides="adaptations",
    watch="eval_loss: falls; if it stays flat under LoRA, raise `train.lora.rank`, then set `train.adaptation = "
    '"full"`',
    source="docs/rule-books/001.md, Decision tree: available compute; Decision tree: fine-tuning or continued "
    "pre-training; Decision tree: data size for instruction tuning; Step 1; docs/rule-books/003.md, Identity; Stack "
    "defaults; Which fine-tuning method; Anti-patterns; docs/rule-books/000.md, Strategy table; recipec's choice (the "
    "order)",
)
def adaptation_preferences(
    stage: str,
    priority: str | None,
    new_domain: bool,
    first_time: bool,
    examples: int,
    params: int,
    total_vram_gb: float,
    gpu_is_cpu: bool,
) -> Choice:
    """Order in which full fine-tuning, LoRA and QLoRA are tried; the first that fits is used.

    Where weights of 16 bits cross a slow network or wait in host memory, LoRA gives way to QLoRA if it takes over twice
    the time, and full fine-tuning to adapters over four times; with `goal.priority = "speed"` the first gives way to
    any that is a quarter faster (recipec's choice).

    The first line that applies decides. Memory is that of all GPUs together.

    | when | order |
    |---|---|
    | pretraining from random weights | full only |
    | `goal.priority = "memory"` | QLoRA, LoRA, full |
    | `goal.priority = "speed"` | LoRA, QLoRA, full |
    | a first training on less than 16 GB | QLoRA, LoRA, full |
    | a method with an order of its own: DPO, KTO, GRPO and RLOO | LoRA, QLoRA, full |
    | a method with an order of its own: PPO | LoRA, full |
    | a method with an order of its own: continued pretraining and distillation | full, LoRA, QLoRA |
    | more than 100,000 rows | full, LoRA, QLoRA |
    | 10,000 to 100,000 rows, 48 GB or more, and a new domain | full, LoRA, QLoRA |
    | 10,000 to 100,000 rows, memory of 4 times the model or more, and `goal.priority = "quality"` | full, LoRA, QLoRA |
    | 10,000 to 100,000 rows, 48 GB or more, a first training and `goal.priority = "quality"` | full, LoRA, QLoRA |
    | otherwise | LoRA, QLoRA, full |

    IA3, prompt tuning, P-tuning, prefix tuning, bottleneck adapters and 8-bit LoRA are taken only where a recipe names
    them: the first four learn less, and bottleneck adapters do not merge. 8-bit LoRA takes more memory than QLoRA and
    is slower; the QLoRA paper (table 3) measures no difference between adapters on 16, 8 and 4 bits. A recipe that sets
    `train.adaptation` or `train.quantization` keeps what agrees with it; one with `train.lora` gets LoRA or QLoRA.

    Rule book 001 decides a first training by memory alone: QLoRA under 16 GB, LoRA up to 48 GB, full fine-tuning above.
    A threshold in GB says nothing without the size of the model, so recipec uses the thresholds only to order the
    adaptations, and the planner computes what fits.

    Rule book 003 takes LoRA by default and calls starting with full fine-tuning an anti-pattern, so LoRA comes first
    where rule book 001 would take full fine-tuning from 48 GB on. Rule book 003 takes full fine-tuning where memory is
    4 times the size of the model (in 16 bits) and the most quality is needed; recipec follows from the 10,000 rows on
    with which rule book 001 considers it. Rule book 003 takes QLoRA on GPUs of 8 to 24 GB. recipec tries LoRA first
    there too, because the steps of LoRA need no dequantization and its adapter merges exactly.

    The data sizes follow rule book 001: LoRA under 10,000 rows, LoRA or full fine-tuning up to 100,000, full
    fine-tuning preferred above. Its other question sends a task under 100,000 rows to LoRA and a domain shift above to
    full fine-tuning. It has no answer for a task above and for a domain shift below; the data sizes answer both.

    No rule book says which weights continued pretraining trains. Full fine-tuning first is recipec's choice, because it
    adds knowledge. LoRA first for DPO and KTO is recipec's choice too: without its adapter the model is the reference.
    A student is small, so distillation trains all of its weights first, as the published runs do.
    """
    size, memory, method = data_size(examples), gpu_memory(total_vram_gb, gpu_is_cpu), method_of(stage)
    times = 0.0 if gpu_is_cpu else total_vram_gb * 1e9 / (2 * params)
    order, why = _order(_Case(method, priority, new_domain, first_time, size, memory, times))
    return Choice(tuple(name for name in order if name in method.adaptations), why)


def _order(case: _Case) -> tuple[_Order, str]:
    """The order that applies; a method with a single adaptation has its own at once."""
    own = case.method.preferred, case.method.preferred_because
    if len(case.method.adaptations) == 1:
        return own
    order, why = next((order, why) for applies, order, why in _BRANCHES if applies(case))
    return (order, why) if order else own


def wished(preferences: Sequence[str], able: Sequence[str], family: str | None, base: str | None) -> tuple[str, ...]:
    """Keep the preferences that agree with what the recipe fixes; None fixes nothing, an empty answer is a conflict.

    Of what the method is `able` to run with, what no plan takes by itself is there where the recipe names it: a
    quantized one by its base, which its family does not tell.
    """
    found = [ADAPTATIONS[name] for name in able if not ADAPTATIONS[name].unasked]
    named = [row.name for row in found if (base == row.base if row.quantized else family == row.family)]
    rows = [ADAPTATIONS[name] for name in (*preferences, *named)]
    return tuple(row.name for row in rows if family in (None, row.family) and base in (None, row.base))


@rule(
    "ADPT-003",
    decides="ia3_scales",
    watch='loss: falls; if it stays flat, set `train.adaptation = "lora"`, which can learn more',
    source="IA3 (arXiv 2205.05638, 2022, section 3.3); PEFT 0.21.2 tuners/ia3; recipec's choice (experts, fused "
    "projections)",
)
def scaled_modules(moe: bool) -> Choice:
    """What IA3 scales: keys, values and the inner activations of the feed-forward block, by one number per feature.

    These three are those of the paper. PEFT's own defaults differ between model families: Llama and Mistral get them,
    Qwen and Gemma queries and values in place of keys, Phi-3 and Qwen3-MoE have none. So every bundle names its
    modules. Where one projection makes queries, keys and values, all three are scaled.

    The inner activations of experts are inside of fused weights that PEFT's IA3 cannot reach: in a mixture of experts
    keys and values are scaled alone.
    """
    if moe:
        return Choice(KEYS_VALUES, "keys and values; PEFT's IA3 cannot reach into fused experts")
    return Choice(KEYS_VALUES_MLP, "keys, values and the inner activations, as in the paper")


@rule(
    "ADPT-004",
    decides="virtual_tokens",
    key="train.prompt.virtual_tokens",
    watch="eval_loss: falls; if it stays flat, raise `train.prompt.virtual_tokens`, then set `train.adaptation = "
    '"lora"`',
    source="Prompt tuning (arXiv 2104.08691, 2021, section 3.2); "
    "huggingface.co/docs/peft/task_guides/prompt_based_methods (20)",
)
def virtual_tokens() -> Choice:
    """Virtual tokens: how many trained embeddings stand before every row.

    The paper finds most of the gain up to 20 and little beyond 100. They begin as embeddings of words drawn from the
    vocabulary, which its section 3.2 finds better than random numbers. Each of them is a token in all that the model
    computes, in training and when it is served; `data.max_length` does not count them.
    """
    return Choice(20, "more add little (the paper's section 3.2)", accepts=(1, 100))


@rule(
    "ADPT-005",
    decides="encoder_hidden_size",
    key="train.prompt.encoder_hidden_size",
    watch="loss: falls from the first steps on; if it jumps, lower `train.learning_rate`",
    source="P-tuning (arXiv 2103.10385, 2021, section 3.2); "
    "huggingface.co/docs/peft/task_guides/prompt_based_methods (128)",
)
def encoder_hidden_size() -> Choice:
    """Width of P-tuning's encoder: the network that makes the embeddings before every row while they are trained.

    It has three linear layers, PEFT's default, and is not needed afterwards: the embeddings that it makes are saved.
    The width of the two inner layers is that of PEFT's guide. PEFT's comparison on MetaMathQA makes them as wide as the
    model, which trains far more numbers.
    """
    return Choice(128, "the width of PEFT's guide", accepts=(64, 4096))


@rule(
    "ADPT-006",
    decides="prefix_tokens",
    key="train.prefix.virtual_tokens",
    watch="eval_loss: falls; if it stays flat, raise `train.prefix.virtual_tokens`, then set `train.adaptation = "
    '"lora"`',
    source="Prefix-tuning (arXiv 2101.00190, 2021, section 7.2); "
    "huggingface.co/docs/peft/task_guides/prompt_based_methods (20)",
)
def prefix_tokens() -> Choice:
    """Virtual tokens of a prefix: how many trained keys and values every layer finds before a row.

    The paper's results rise up to 10 tokens for tables and up to 200 for summaries. They begin near 0, where they
    change little: PEFT's comparison on MetaMathQA answers 36% from 0 (rate 5e-3), and 15% from random ones (1e-3). At 0
    exactly all tokens would get the same gradient and stay alike (measured on a small model), so recipec draws them
    from a normal distribution of 0.02. Behind an encoder they begin at 0, since it is the encoder's inputs that differ.

    Each takes a place in the attention of every layer and a position of the model, but is no token that layers
    compute; `data.max_length` does not count them.
    """
    return Choice(20, "the number of PEFT's guide", accepts=(1, 200))


@rule(
    "ADPT-007",
    decides="prefix_encoder_size",
    key="train.prefix.encoder_hidden_size",
    watch="loss: falls from the first steps on; if it jumps, lower `train.learning_rate`",
    source="Prefix-tuning (arXiv 2101.00190, 2021, section 4.3); PEFT 0.21.2 tuners/prefix_tuning (prefix_projection)",
)
def prefix_encoder_size() -> Choice:
    """Width of a prefix's encoder: a network that makes its keys and values while they are trained; 0 for none.

    The paper trains GPT-2 through such a network, because its prefixes were unstable when trained themselves. PEFT has
    none unless asked (`prefix_projection`). It trains two numbers for each layer, feature of a key and unit of its
    width; only what it makes is saved.
    """
    return Choice(0, "PEFT trains keys and values themselves unless asked")


@rule(
    "ADPT-008",
    decides="reduction_factor",
    key="train.bottleneck.reduction_factor",
    watch="eval_loss: falls; if it stays flat, lower `train.bottleneck.reduction_factor`, then set "
    '`train.adaptation = "lora"`',
    source="docs/rule-books/001.md, Step 1; AdapterFusion (arXiv 2005.00247, 2021); docs.adapterhub.ml/methods.html "
    "and the adapters published there (`reduction_factor: 16`)",
)
def reduction_factor() -> Choice:
    """Reduction factor: the width of the model divided by that of its bottleneck adapters.

    An adapter takes the output of a module down to its own width, through a ReLU, and up again, and adds the result.
    With a width of h / 16 it trains about h * h / 8 numbers, 0.6% of a model of 7B parameters in all layers, as many as
    LoRA of rank 16 on all linear layers. Large models do with a larger factor.
    """
    return Choice(16, "the usual factor of published adapters", accepts=(2, 64))


@rule(
    "ADPT-009",
    decides="adapters_after",
    key="train.bottleneck.after",
    watch="eval_loss: falls; if it stays flat, lower `train.bottleneck.reduction_factor`, then set "
    '`train.bottleneck.after = "attention-and-mlp"`',
    source="Houlsby adapters (arXiv 1902.00751, 2019, section 2.1); AdapterFusion (arXiv 2005.00247, 2021); "
    "docs.adapterhub.ml/methods.html",
)
def adapters_after() -> Choice:
    """What bottleneck adapters stand behind: the feed-forward block of each layer, or attention too.

    Houlsby et al. put one behind attention and one behind the feed-forward block. Pfeiffer et al. keep the second
    alone, which trains half as many numbers and costs half as much time, at about the same quality.
    """
    return Choice(BEHIND_MLP, "one adapter in a layer reaches about the quality of two")


@rule(
    "ADPT-010",
    decides="identity_penalty",
    key="fusion.identity_penalty",
    watch="eval_loss: falls; if it rises while the loss falls, raise `fusion.identity_penalty`",
    source="AdapterFusion (arXiv 2005.00247, 2021, section 3.2, for the penalty); adapter-transformers 1.0, "
    "adapter_bert.py, get_fusion_regularization_loss (0.01)",
)
def identity_penalty() -> Choice:
    """Weight of the penalty on the squared distance of each value matrix of AdapterFusion from the identity.

    AdapterFusion is attention over the outputs of frozen adapters: the query is made of what the module gives, keys and
    values of what each adapter adds. The value matrices start as the identity, and the paper holds them near it, so
    that they add no capacity of their own. Its authors' code adds 0.01 times the sum of the squares to the loss.
    """
    return Choice(0.01, "the weight in the code of the paper", accepts=(0, 1))


def shaping(row: Adaptation) -> tuple[Rule, ...]:
    """The rules that shape what an adaptation puts before every row, or behind a module."""
    if row.trains in BEHIND:
        return (reduction_factor, adapters_after, *(identity_penalty,) * (row.trains == FUSIONS))
    if row.trains == PREFIXES:
        return prefix_tokens, prefix_encoder_size
    return (virtual_tokens,) * (row.trains == PROMPTS) + (encoder_hidden_size,) * row.encodes


@rule(
    "ADPT-002",
    decides="double_quantization",
    watch="peak_memory_gib, loss: memory matches the plan, and the first loss is close to that of the unquantized "
    "model",
    source="docs/rule-books/001.md, Decision tree: available compute; Step 1; Rules; QLoRA (arXiv 2305.14314, 2023, "
    "section 3)",
)
def double_quantization(quantization: str) -> Choice:
    """Double quantization: whether the scales of a 4-bit base model are quantized too.

    Rule book 001 says so three times: QLoRA is 4-bit NF4 with double quantization. It takes the scales from 0.5 to
    about 0.127 bits per parameter (section 3 of the QLoRA paper): 0.37 bits less, 0.3 GB on a 7B model.
    """
    if BASES[quantization].bits is None:
        return Choice(False, "the base model is not quantized")
    if BASES[quantization].scaled_by == ROW:
        return Choice(False, "an 8-bit base model has one scale for each row, too few to be worth quantizing")
    return Choice(True, "it saves 0.37 bits per parameter of the 4-bit base model")
