"""What layers of DeepSpeed-MoE do not go with."""

from __future__ import annotations

from recipec.axes.loops import ENGINE
from recipec.axes.strategies import ONE_PROCESS
from recipec.rules.combination import BadCombination, Combination

_TRAINER = "or leave `train.loop` out: TRL's trainer trains mixtures under FSDP2 and ZeRO-3, and drops no token"


def _room_otherwise(found: Combination) -> str:
    """To remove the capacity, or the loop that has one, where the recipe pretrains a mixture."""
    removed = "remove `train.experts`"
    if not found.moe or found.method.name not in ENGINE.dispatches:
        return removed
    alone = " on 2 GPUs or more, such as `hardware.gpus_per_node = 2`" if found.strategy.engine == ONE_PROCESS else ""
    return f'{removed}, or set `train.loop = "deepspeed"`{alone}'


DISPATCH = (
    BadCombination(
        "BAD-210",
        "a capacity of experts without DeepSpeed-MoE",
        "only the layers of DeepSpeed-MoE have room for a limited number of tokens; they are used in pretraining of a "
        "mixture with a loop on DeepSpeed's engine. Elsewhere experts compute all tokens that they get",
        "transformers 5.23 integrations/moe.py (no capacity); DeepSpeed 0.19 moe/layer.py",
        'remove `train.experts`, or pretrain a mixture of experts with `train.loop = "deepspeed"`',
        lambda f: f.has_capacity and not f.dispatches,
        then=_room_otherwise,
    ),
    BadCombination(
        "BAD-211",
        "DeepSpeed-MoE with ZeRO-3",
        "DeepSpeed refuses to shard the weights of its layers for mixtures",
        "DeepSpeed 0.19 runtime/engine.py (_validate_zero3_moe_compatibility: AssertionError)",
        f'set `train.strategy = "zero2"` and spread the experts with `train.expert_parallel`, {_TRAINER}',
        lambda f: f.dispatches and f.strategy.shards_weights,
    ),
    BadCombination(
        "BAD-212",
        "DeepSpeed-MoE for experts of another kind",
        "the layers stand in for the experts of Mixtral and Qwen3-MoE, whose router weighs the experts of a token by a "
        "softmax; others have an MLP beside them, biases, or another router, and no run of them was verified",
        "DeepSpeed 0.19 moe/sharded_moe.py (TopKGate); transformers 5.23 modeling_mixtral.py, modeling_qwen3_moe.py",
        f"set a `model.name` of one of these families, {_TRAINER}",
        lambda f: f.dispatches and not f.dispatched,
    ),
    BadCombination(
        "BAD-213",
        "DeepSpeed-MoE with a router that weighs otherwise",
        "DeepSpeed weighs one expert of a token by its probability, and several so that their weights sum to 1. A "
        "model that does it the other way would be another one when transformers loads it",
        "DeepSpeed 0.19 moe/sharded_moe.py (top1gating, top2gating, topkgating)",
        "set `norm_topk_prob` of the model's config.json to false for one expert per token and to true for more, "
        f"{_TRAINER}",
        lambda f: f.dispatches and f.dispatched and f.normalizes != (f.per_token > 1),
    ),
    BadCombination(
        "BAD-214",
        "DeepSpeed-MoE on several nodes",
        "no run was made in which tokens travel to experts on other nodes, and DeepSpeed's groups for it are not those "
        "of the plan",
        "DeepSpeed 0.19 utils/groups.py (_create_expert_and_data_parallel): not run",
        f"set `hardware.nodes = 1`, {_TRAINER}",
        lambda f: f.dispatches and f.several_nodes,
    ),
    BadCombination(
        "BAD-215",
        "DeepSpeed-MoE in fp16",
        "the scaled loss has not been run with the norm of gradients that the experts' ranks share",
        "DeepSpeed 0.19 runtime/zero/stage_1_and_2.py (_average_expert_grad_norms): not run",
        'set `train.precision = "bf16"`, or `"fp32"` on a GPU without bf16',
        lambda f: f.dispatches and f.precision == "fp16",
    ),
)
