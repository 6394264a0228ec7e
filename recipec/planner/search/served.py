"""GPUs that share a copy of the weights which writes answers: each computes whole heads of attention."""

from __future__ import annotations

from recipec.axes.answering import ENGINE, SERVER_GPUS
from recipec.catalog.architecture import Architecture
from recipec.facts.fact import known
from recipec.planner.search.global_batch import beside_server
from recipec.planner.search.sequences import settled_method
from recipec.rules import preference
from recipec.rules.core import Decision, Ledger


def serve_answers(ledger: Ledger, shape: Architecture) -> None:
    """Decide how many GPUs write answers and do not train, where a server has some of its own."""
    for rule in preference.serving_rules(settled_method(ledger.decisions)):
        ledger.record(_head_splits(shape))
        ledger.decide(rule, *(ledger.decisions[name] for name in rule.inputs))
    beside_server(ledger)


def whole_heads(shape: Architecture, gpus: int) -> bool:
    """Whether every GPU that shares a copy gets whole heads; heads of keys are repeated where there are fewer."""
    if gpus == 0:
        return True
    kv_heads = [each.num_kv_heads for _, each in shape.attentions]
    return shape.num_heads % gpus == 0 and all(heads % gpus == 0 or gpus % heads == 0 for heads in kv_heads)


def _head_splits(shape: Architecture) -> Decision:
    """The powers of two, up to the most GPUs that a server takes, that share the heads of attention equally."""
    powers = (1 << power for power in range(int(SERVER_GPUS.most or 1).bit_length()))
    because = f"vLLM gives each GPU of a server whole heads, of {shape.num_heads} per layer"
    whole = tuple(gpus for gpus in powers if whole_heads(shape, gpus))
    return known("head_splits", whole, because, "model", ENGINE.name)
