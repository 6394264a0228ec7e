"""What a mixture of experts adds to the decisions of a stage."""

from __future__ import annotations

from recipec.axes import ADAPTATIONS
from recipec.axes.adapted import targeted
from recipec.catalog.architecture import Architecture
from recipec.rules.core import Decision

ROUTER_LOSS = 0.001  # transformers 5.23: the default of the configurations of Mixtral, Qwen3-MoE and gpt-oss


def adapted_experts(targets: Decision, architecture: Architecture) -> Decision:
    """The fused parameters of the experts that get adapters."""
    has = architecture.attention_modules, architecture.expert_parameters, architecture.named_linear
    _, found = targeted(targets.value, *has)
    none = "`train.lora.targets` names none" if architecture.moe else "a dense model has no experts"
    because = "the fused parameters of the experts, which are no linear modules" if found else none
    if found and architecture.moe and architecture.moe.shared_intermediate_size:
        because += "; the MLP beside them, which every token passes, stays frozen"
    return Decision("lora_experts", found, because, inputs=(targets.id, "moe"), origin="planner")


def router_loss(adaptation: Decision) -> Decision:
    """The weight of the loss that rises where few experts get most tokens."""
    trained = "keeps the load of the experts balanced while their router trains"
    frozen = "the router is frozen; adapters learn to keep the load of its experts balanced"
    because = trained if ADAPTATIONS[adaptation.value].trains_all else frozen
    source = "transformers 5.23 configuration_mixtral.py and configuration_qwen3_moe.py (router_aux_loss_coef)"
    inputs = ("model", adaptation.id, "stage")
    return Decision("router_loss", ROUTER_LOSS, because, inputs=inputs, origin="planner", source=source)
