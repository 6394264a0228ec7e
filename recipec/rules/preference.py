"""What is special about some methods: their own hyperparameters, and what the policy is compared with."""

from __future__ import annotations

from fractions import Fraction
from types import FunctionType

from recipec.axes import ADAPTATIONS, METHODS, STRATEGIES, Method, Own
from recipec.axes.generators import SERVER_SHARE
from recipec.axes.method import PRECOMPUTE
from recipec.axes.strategies import DEEPSPEED, TORCH_FSDP
from recipec.axes.variants import VARIANTS, Variant
from recipec.rules.core import Choice, Rule, rule
from recipec.units import GIB, counted


@rule(
    "DPO-003",
    decides="reference",
    watch="rewards/margins, logps/chosen: margins start at 0; another start means a wrong reference",
    source="docs/rule-books/001.md, Anti-pattern 7; DPO (arXiv 2305.18290, 2023); TRL 1.16 trainer/dpo_trainer.py",
)
def reference(adaptation: str, starts_from_adapter: bool) -> Choice:
    """DPO reference model: the model as it was at the start of the stage.

    Rule book 001 uses a reference model against overfitting of DPO. After supervised fine-tuning the reference is the
    fine-tuned model, never the base model.

    | stage | reference |
    |---|---|
    | LoRA, first stage | the model without the new adapter ("base"); no second model is needed |
    | LoRA, after a stage with an adapter | the earlier adapter is merged first, then the same ("merged") |
    | full fine-tuning | a second copy of the starting weights ("copy") |
    """
    if ADAPTATIONS[adaptation].copies_reference:
        changed = ADAPTATIONS[adaptation].title
        return Choice("copy", f"{changed} changes the weights, so a frozen copy of the start is loaded beside them")
    if starts_from_adapter:
        return Choice("merged", "the earlier adapter is merged, so the model without the new adapter is the reference")
    return Choice("base", "the model without the new adapter is the reference, so no second model is loaded")


@rule(
    "DPO-004",
    decides="precomputed_reference",
    key=f"alignment.{PRECOMPUTE}",
    watch="rewards/margins, peak_memory_gib: margins start at 0, and memory is near the plan",
    source="TRL 1.16 trainer/dpo_trainer.py and trainer/kto_trainer.py (_precompute_ref_logps; read, and run on two "
    "ranks), trainer/utils.py (hash_module)",
)
def precomputed_reference(adaptation: str, strategy: str, world_size: int, gpus_per_node: int, passes: float) -> Choice:
    """Precomputed reference: whether the reference scores all rows once, before training, or in every pass again.

    The reference never changes, so its log-probabilities of a row never do. TRL computes them before step 1, keeps
    them in the cache of the data set, where a second launch finds them, and reads them from there.

    | case | precomputed |
    |---|---|
    | full fine-tuning, one pass or more | yes: no copy of the model is kept beside it |
    | adapters, more than one pass | yes: the later passes are shorter |
    | adapters under FSDP | no: TRL computes before FSDP shards the model |
    | ZeRO-3 | no: TRL might read the log-probabilities of another model |
    | several nodes | no: TRL writes to the disk of the first node, and every node reads it |
    | fewer passes | no: scoring all rows would take longer |

    TRL names what it keeps by a hash of rows and weights. Under ZeRO-3 each process sees empty weights, so every model
    gets the same name. Under FSDP, TRL loads the copy of full fine-tuning, shards it, and drops it before step 1. The
    plan counts the scoring in its time. `alignment.precompute_reference` decides otherwise: on several nodes set it
    where all of them share the cache of Hugging Face Datasets.
    """
    full, spreads = ADAPTATIONS[adaptation].copies_reference, STRATEGIES[strategy]
    if spreads.engine == DEEPSPEED and spreads.shards_weights:
        return Choice(False, "TRL would keep it under a name that does not depend on weights which ZeRO-3 has sharded")
    if not full and spreads.engine == TORCH_FSDP:
        return Choice(False, "TRL would compute it before FSDP shards the model below the adapter")
    if world_size > gpus_per_node:
        return Choice(False, "TRL would write it to the disk of the first node alone, and every node reads it")
    if full and passes >= 1:
        return Choice(True, "the reference scores every row once, and no copy of the weights is kept while training")
    if passes > 1:
        return Choice(True, "the reference scores every row once, and not in each pass again")
    return Choice(False, "the steps see no row twice, so scoring all rows before training saves nothing")


# wanted over unwanted answers, weight times rows: arXiv 2402.01306, TRL 1.16 kto_trainer.py
BALANCE = (Fraction(1), Fraction(4, 3))
MIDDLE = sum(BALANCE) / 2  # leaves room on both sides for the error of a sampled share
_NOT_KNOWN = (
    "how many answers are desirable is not known; where they are few or many, the trainer logs the range to use"
)


def _weight_of_unwanted(true_share: float | None) -> Choice:
    """More than 1 where the unwanted answers are the rarer ones; any is accepted, as the other weight balances it."""
    if true_share is None:
        return Choice(1.0, _NOT_KNOWN)
    ratio = true_share / (1 - true_share)
    if ratio <= BALANCE[1]:
        return Choice(1.0, f"undesirable answers, {1 - true_share:.0%} of all, are not the rarer kind")
    because = f"undesirable answers are rare, {1 - true_share:.0%} of all, and so weighted they balance the others"
    return Choice(_sampled(ratio / MIDDLE), because)


def _weight_of_wanted(true_share: float | None, undesirable_weight: float) -> Choice:
    """What balances the two, given the weight of the unwanted ones."""
    if true_share is None:
        return Choice(1.0, _NOT_KNOWN)
    ratio = true_share / (1 - true_share) / undesirable_weight
    accepts = _sampled(BALANCE[0] / ratio), _sampled(BALANCE[1] / ratio)
    balanced = BALANCE[0] <= ratio <= BALANCE[1]
    shares = f"desirable answers, {true_share:.0%} of all, balance undesirable ones of weight {undesirable_weight:g}"
    return Choice(1.0 if balanced else _sampled(MIDDLE / ratio), f"so weighted, {shares}", accepts)


def _sampled(weight: float) -> float:
    """No more digits than the share of a sample has."""
    return float(f"{weight:.2g}")


def _kl_of_variant(variant: str) -> Choice:
    """The weight of the KL in its paper."""
    value = VARIANTS[variant].beta
    why = "keeps the policy near its reference, which a small KL does" if value else "leaves the KL out"
    return Choice(value, f"{variant} {why}", accepts=(0.0, 0.1), source=VARIANTS[variant].source)


def _answers_of_variant(variant: str) -> Choice:
    """The size of a group in its paper."""
    row = VARIANTS[variant]
    return Choice(row.per_prompt, f"usual number of answers for {variant}", accepts=(4, 64), source=row.source)


def _updates_of_variant(variant: str) -> Choice:
    """The optimizer steps from one generation: as in its paper where its clipping needs older answers, else 1."""
    row = VARIANTS[variant]
    if row.updates > 1:
        because = f"{variant} clips what moved since, so it needs older answers"
    else:
        because = "every step learns from answers that the present weights wrote, whose ratio of probabilities is 1; "
        because += f"clipping acts from 2 updates on{_of_paper(row)}"
    return Choice(row.updates, because, accepts=(1, 16), source=row.source)


def _of_paper(row: Variant) -> str:
    """What the paper does otherwise, which saves time and costs newness."""
    if row.paper_updates in (None, row.updates):
        return ""
    return f"; the paper of {row.name} takes {row.paper_updates} updates, which write answers less often"


LONG_ANSWER = 500  # tokens: 0.95 ** 100 is 0.6 %, so at most a fifth of the answer would be credited; our decision


def _lambda_of_answers(max_new_tokens: int) -> Choice:
    """1 where most tokens of an answer would learn from the value head's estimates alone."""
    if max_new_tokens < LONG_ANSWER:
        return Choice(0.95, "usual for answers of some hundred tokens", accepts=(0.9, 1.0))
    because = "answers may be long, and below 1 their early tokens would learn from the value head alone"
    return Choice(1.0, because, accepts=(0.9, 1.0))


MOST_ROUNDS = 4  # turns with a call that the scripts of Search-R1 (arXiv 2503.09516, 2025) allow an answer at most


def _rounds_of_results(max_new_tokens: int, result_tokens: int) -> Choice:
    """As many as leave the model half of its tokens; more than fit at all are warned about."""
    half = max_new_tokens // (2 * result_tokens)
    most = max(1, (max_new_tokens - 1) // result_tokens)
    if half >= MOST_ROUNDS:
        because = f"their results leave more than half of {max_new_tokens} tokens to what the model writes"
        return Choice(MOST_ROUNDS, because, accepts=(1, max(most, MOST_ROUNDS)))
    because = f"more results of {result_tokens} tokens would fill over half of an answer of {max_new_tokens}"
    return Choice(max(1, half), because, accepts=(1, most))


_COPY_SHARE = 0.5  # of that, at most, for the weights; the rest is for keys and values: our decision


def _gpus_of_copy(
    params: int,
    precision: str,
    vram_gib: float,
    gpus_per_node: int,
    global_batch_size: int,
    head_splits: tuple[int, ...],
) -> Choice:
    """The smallest power of two whose GPUs share the heads equally, hold the weights in half of their memory, and leave
    as many GPUs to train as divide the global batch, where one does."""
    weights = (4 if precision == "fp32" else 2) * params / GIB
    counts = [gpus for gpus in head_splits if gpus < gpus_per_node] or [1]
    roomy = [gpus for gpus in counts if gpus * SERVER_SHARE * _COPY_SHARE * vram_gib >= weights]
    if not roomy:
        return Choice(counts[-1], f"its weights are {weights:.1f} GiB, and {_no_more(counts[-1], head_splits)}")
    even = [gpus for gpus in roomy if global_batch_size % max(1, gpus_per_node - gpus) == 0]
    gpus = (even or roomy)[0]
    room = f"its weights of {weights:.1f} GiB leave room for keys and values on {counted(roomy[0], 'GPU')}"
    if gpus == roomy[0]:
        return Choice(gpus, room)
    return Choice(gpus, f"{room}, and the other {gpus_per_node - gpus} share the {global_batch_size} answers equally")


def _no_more(gpus: int, head_splits: tuple[int, ...]) -> str:
    """Why a copy that finds little room on so many GPUs is not shared by more."""
    return "more of the node's GPUs would not train" if gpus < head_splits[-1] else "more GPUs do not share its heads"


FORMULAS = {  # Own.formula
    "weight of unwanted": _weight_of_unwanted,
    "weight of wanted": _weight_of_wanted,
    "KL of variant": _kl_of_variant,
    "answers of variant": _answers_of_variant,
    "updates of variant": _updates_of_variant,
    "lambda of answers": _lambda_of_answers,
    "rounds of results": _rounds_of_results,
    "GPUs of copy": _gpus_of_copy,
}


def own_rules(stage: str, *, acts: bool) -> list[Rule]:
    """The rules of a method's own hyperparameters, in the order of its row; `acts` with those of tools."""
    row = METHODS[stage]
    return [_OWN[own.id] for own in (*row.own, *(row.acts if acts else ()))]


def serving_rules(method: Method) -> list[Rule]:
    """Those of answers that are written on GPUs of their own, by a method as its own hyperparameters have it."""
    return [_OWN[own.id] for own in method.serves] if method.generates and method.written_by.beside else []


def splitting_rules(method: Method) -> list[Rule]:
    """Those of a copy of the weights that GPUs which train may share: what they decide is part of the layout."""
    several = method.generates and len(method.written_by.splits) > 1
    return [_OWN[own.id] for own in method.splits] if several else []


def _own_rule(own: Own) -> Rule:
    """A rule whose answer, or the formula behind it, and whose page are a row's."""

    def default() -> Choice:
        return Choice(own.value, own.because, own.accepts)

    shared = FORMULAS[own.formula] if own.formula else default
    answer = FunctionType(shared.__code__, shared.__globals__, own.name, None, shared.__closure__)  # with its own page
    answer.__doc__ = own.page
    sources = {value: VARIANTS[value].source for value in own.values or () if value in VARIANTS}
    shared_by = {"decides": own.name, "key": f"alignment.{own.key}", "watch": own.watch, "source": own.source}
    return rule(own.id, **shared_by, sources=sources)(answer)


# A formula that READ_BY_FORMULAS does not have is refused with its row before any rule is asked (E0801).
_OWN = {
    own.id: _own_rule(own)
    for own in {own.id: own for method in METHODS.values() for own in method.keys}.values()
    if not own.formula or own.formula in FORMULAS
}
