"""The experts of the mixture in layers of DeepSpeed-MoE: spread over ranks, each with room for so many tokens.

With room for all tokens, a layer computes what the model's own block does. The result is saved as transformers loads
it.
"""

import torch
from deepspeed.moe.layer import MoE
from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer
from torch import distributed, nn
from torch.nn import functional
from transformers import PreTrainedModel

RANKS = 8  # that share the experts of a layer
CAPACITY_FACTOR = 1.25  # room of an expert in training: so many times its even share of the tokens
EVAL_CAPACITY_FACTOR = 2.0  # the same in evaluations on the way
MIN_CAPACITY = 4  # tokens that each expert has room for at least
BALANCE_LOSS = 0.01  # weight of each layer's loss that rises where few experts get most tokens


class Expert(nn.Module):
    """One expert; its weights have the names that they have in transformers, where those of all experts are one."""

    def __init__(self, gate_up: torch.Tensor, down: torch.Tensor, activation: nn.Module) -> None:
        super().__init__()
        self.gate_up_proj, self.down_proj = nn.Parameter(gate_up.clone()), nn.Parameter(down.clone())
        self.activation = activation

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        gate, up = functional.linear(tokens, self.gate_up_proj).chunk(2, dim=-1)
        return functional.linear(self.activation(gate) * up, self.down_proj)


class Mixture(MoE):
    """A layer of DeepSpeed-MoE with the weights of a block of the model, of which this rank keeps its experts."""

    def __init__(self, block: nn.Module, experts_per_token: int) -> None:
        fused = block.experts
        count, _, hidden = fused.gate_up_proj.shape
        super().__init__(
            hidden_size=hidden,
            expert=Expert(fused.gate_up_proj[0].detach(), fused.down_proj[0].detach(), fused.act_fn),
            num_experts=count,
            ep_size=RANKS,
            k=experts_per_token,
            capacity_factor=CAPACITY_FACTOR,
            eval_capacity_factor=EVAL_CAPACITY_FACTOR,
            min_capacity=MIN_CAPACITY,
            top2_2nd_expert_sampling=False,  # the second expert is the second best, as where the result is used
        )
        self.to(block.gate.weight.dtype)
        first = distributed.get_rank() % RANKS * self.num_local_experts
        with torch.no_grad():
            self.deepspeed_moe.gate.wg.weight.copy_(block.gate.weight)
            for place, expert in enumerate(self.experts, start=first):
                expert.gate_up_proj.copy_(fused.gate_up_proj[place])
                expert.down_proj.copy_(fused.down_proj[place])
        self.deepspeed_moe.gate.register_forward_hook(self.note)

    @property
    def experts(self) -> nn.ModuleList:
        """Those of this rank."""
        return self.deepspeed_moe.experts.deepspeed_experts

    def note(self, gate: nn.Module, given: tuple, routes: tuple) -> None:
        """The balance loss, how many tokens want each expert, and how many of these find no room."""
        self.loss, self.wanted = routes[0], routes[-1]
        self.dropped = (routes[3] < 0).sum()  # the expert of a token that has no room is -1

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return super().forward(hidden)[0]


def spread_experts(model: PreTrainedModel) -> PreTrainedModel:
    """Put a layer of DeepSpeed-MoE in the place of each block with experts."""
    names = [name for name, module in model.named_modules() if type(module).__name__ == "Qwen3MoeSparseMoeBlock"]
    for name in names:  # one after the other: the experts of other ranks are freed
        model.set_submodule(name, Mixture(model.get_submodule(name), model.config.num_experts_per_tok))
    return model


def mixtures(model: nn.Module) -> list[Mixture]:
    return [module for module in model.modules() if isinstance(module, Mixture)]


def expert_groups(groups: list[dict]) -> list[dict]:
    """Groups of the optimizer with experts apart: their states are shared by the ranks that have the same experts."""
    named = [group | {"name": f"group-{number}"} for number, group in enumerate(groups)]
    return [group for group in split_params_into_different_moe_groups_for_optimizer(named) if group["params"]]


def balance_loss(model: nn.Module) -> torch.Tensor:
    """Of the newest forward pass, summed over the layers."""
    return torch.stack([layer.loss for layer in mixtures(model)]).sum()


def unrouted(model: nn.Module) -> torch.Tensor:
    """What `routing` is added to."""
    layers = mixtures(model)
    return torch.zeros(len(layers), layers[0].num_experts + 3, dtype=torch.float64)


def routing(model: nn.Module) -> torch.Tensor:
    """Of the newest forward pass, a row per layer: the tokens that want each expert; those without room, the balance
    loss, and 1 for the pass.
    """
    layers = mixtures(model)
    others = [torch.stack([layer.dropped, layer.loss.detach(), torch.ones_like(layer.loss)]) for layer in layers]
    return torch.cat([torch.stack([layer.wanted for layer in layers]), torch.stack(others)], dim=1).double()


def load_metrics(routed: torch.Tensor) -> dict[str, float]:
    """How even the load of the experts is, from what `routing` told of some passes, summed over all ranks."""
    wanted, (dropped, losses, passes) = routed[:, :-3], routed[:, -3:].unbind(dim=1)
    return {
        "balance_loss": (losses / passes).mean().item(),  # of a layer; 1: even
        "expert_load": (wanted.max(dim=1).values / wanted.mean(dim=1)).max().item(),  # of the fullest expert; 1: even
        "dropped_tokens": (dropped.sum() / wanted.sum()).item(),  # share of the places that tokens want
    }


def whole_weights(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """All weights under their names in transformers, in the memory of rank 0's host; each rank brings its experts."""
    keeps, weights = distributed.get_rank() == 0, {}
    for name, weight in model.state_dict().items() if keeps else ():
        if ".deepspeed_experts." not in name:
            weights[name.replace("deepspeed_moe.gate.wg", "gate")] = weight.cpu()
    for name, layer in model.named_modules():
        for part in ("gate_up_proj", "down_proj") if isinstance(layer, Mixture) else ():
            own = torch.stack([getattr(expert, part).detach() for expert in layer.experts])
            parts = [torch.empty_like(own) for _ in range(RANKS)]
            distributed.all_gather(parts, own, group=layer.deepspeed_moe.ep_group)
            if keeps:
                weights[f"{name}.experts.{part}"] = torch.cat(parts).cpu()
    return weights
