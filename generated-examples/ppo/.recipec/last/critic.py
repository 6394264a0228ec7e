"""A policy that is its own critic: of every token of an answer its log-probability, entropy and value."""

from types import MethodType
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedModel
from trl.trainer.utils import add_fused_lm_head, disable_dropout_in_model

OUTPUTS = "log_probs", "entropy", "estimates"  # the last of a policy alone


def load(model: str, options: dict[str, Any], temperature: float) -> PreTrainedModel:
    """A causal model that also gives the log-probabilities of labels, by tiles: no logits of whole rows exist."""
    found = AutoModelForCausalLM.from_pretrained(model, **options)
    drop_nothing(found)
    add_fused_lm_head(found, temperature, outputs=("log_probs", "entropy"))
    return found


def drop_nothing(model: PreTrainedModel) -> None:
    """Switch dropout off: answers are written and scored without it, so that it would count as a changed policy."""
    disable_dropout_in_model(model)
    for module in model.modules():
        if hasattr(module, "attention_dropout"):  # a number, which no module of dropout applies
            module.attention_dropout = 0.0


def add_value_head(policy: PreTrainedModel) -> nn.Linear:
    """Let the forward pass also estimate, from its last hidden states, what is still to be earned; 0 at first."""
    policy.value_head = head = nn.Linear(policy.config.hidden_size, 1, dtype=torch.float32)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    forward, states = policy.forward, []
    policy.base_model.register_forward_hook(lambda decoder, given, found: states.append(found.last_hidden_state))

    def estimating(policy: PreTrainedModel, *args: Any, **kwargs: Any) -> Any:
        found, last = forward(*args, **kwargs), states.pop()
        if kwargs.get("fused_lm_head"):
            with torch.autocast(last.device.type, enabled=False):
                found["estimates"] = head(last[:, :-1].float()).squeeze(-1)
        return found

    policy.forward = MethodType(estimating, policy)
    return head


def estimated(
    model: nn.Module, tokens: torch.Tensor, attended: torch.Tensor, mask: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Of every token of the answers its log-probability, the entropy, and what the state in front of it estimates."""
    labels = tokens.masked_fill(attended == 0, -100)
    labels[:, : -mask.shape[1]] = -100
    places = (attended.cumsum(1) - 1).clamp(min=0)
    found = model(input_ids=tokens, attention_mask=attended, position_ids=places, labels=labels, fused_lm_head=True)
    return {name: found[name][:, -mask.shape[1] :] for name in OUTPUTS if name in found}


@torch.no_grad()
def estimated_by_parts(
    model: nn.Module, size: int, tokens: torch.Tensor, attended: torch.Tensor, mask: torch.Tensor
) -> dict[str, torch.Tensor]:
    """The same of so many answers at a time."""
    parts = zip(tokens.split(size), attended.split(size), mask.split(size), strict=True)
    found = [estimated(model, *part) for part in parts]
    return {name: torch.cat([part[name] for part in found]) for name in found[0]}
