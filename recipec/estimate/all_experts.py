"""What experts keep that all compute every token (Llama 4), in bytes per token.

Source: transformers 5.23 `Llama4TextMoe`: the tokens are repeated for every expert, weighted by the router (by 0 for
the experts that it does not take), and multiplied in batched products, which autocast casts as it does linear modules.
"""

from __future__ import annotations

from recipec.catalog.architecture import Architecture, Experts
from recipec.estimate.codepath import CodePath
from recipec.estimate.experts import adapted_experts
from recipec.estimate.workload import LoraShape


def all_experts(architecture: Architecture, lora: LoraShape | None, path: CodePath) -> tuple[int, int, int]:
    """(saved, transient of the backward, transient of a forward) of the experts of a layer."""
    experts = architecture.moe
    assert experts is not None
    repeated, weighted, inner = _widths(architecture, experts, lora, path)
    adapted = {name for name, *_ in adapted_experts(architecture, lora)}
    product = inner if lora is None or experts.down in adapted else 0  # what the down projection takes
    saved = repeated + 3 * inner + product  # gate and up, activation
    saved += weighted if lora is None or experts.gate_up in adapted else 0
    saved += (4 + path.compute) * experts.count + 8 * experts.per_token  # scores, and their places
    backward = max(weighted + inner, 3 * inner - product)  # of both products' gradients nothing else is left
    return saved, backward, max(repeated + 4 * inner, repeated + weighted + 3 * inner)


def _widths(
    architecture: Architecture, experts: Experts, lora: LoraShape | None, path: CodePath
) -> tuple[int, int, int]:
    """Bytes of a token repeated for all experts, the same weighted, and between their two products."""
    held = path.residual if lora is None else path.compute
    repeated = experts.count * architecture.hidden_size
    return held * repeated, path.compute * repeated, path.compute * experts.count * experts.intermediate_size
