"""What does not go with a value head, whose policy is its own critic (PPO)."""

from __future__ import annotations

from recipec.axes.strategies import ONE_PROCESS, TORCH_DDP
from recipec.rules.combination import BadCombination

VALUE_HEADS = (
    BadCombination(
        "BAD-070",
        "a policy with a value head that is sharded",
        "the head is joined to the model after it is loaded, its state is saved beside the model, and sharding of "
        "either was not run",
        "our own trainer (critic.py, ppo_trainer.py) on transformers 5.23: run with one process and with DDP",
        'set `train.strategy = "single"` or `"ddp"`, or `alignment.method = "grpo"`, which shards',
        lambda f: f.method.has_value_head and f.strategy.engine not in (ONE_PROCESS, TORCH_DDP),
    ),
    BadCombination(
        "BAD-071",
        "fp16 with a value head",
        "squared errors of the value head leave the range of fp16, and a skipped step would still count as one of the "
        "steps that learn from a generation",
        "our own trainer (ppo_trainer.py) on transformers 5.23: a skipped step ends no generation",
        'set `train.precision = "bf16"`, or `"fp32"` on a GPU without bf16',
        lambda f: f.method.has_value_head and f.precision == "fp16",
        then=lambda f: f'set `train.precision = "{"bf16" if f.gpu_bf16 else "fp32"}"`',
    ),
    BadCombination(
        "BAD-072",
        "dropout of adapters with a value head",
        "answers are written and scored without dropout; with it the ratio of probabilities would not begin at 1, and "
        "tokens would be clipped that nothing has changed, so that the trainer switches all dropout off",
        "PPO (arXiv 1707.06347, 2017); The N+ Implementation Details of RLHF with PPO (arXiv 2403.17031, 2024: dropout "
        "is off)",
        "set `train.lora = { dropout = 0.0 }`",
        lambda f: f.method.has_value_head and f.lora_dropout > 0,
    ),
    BadCombination(
        "BAD-073",
        "experts under a value head",
        "the loss has no part that keeps the load of the experts balanced, and answers of a policy that learns from "
        "rewards unbalance it",
        "our own trainer (ppo_trainer.py) on transformers 5.23: its loss is that of the paper",
        'choose a dense model, or write a recipe of its own for GRPO (`method = "grpo"`), whose loss has that part',
        lambda f: f.method.has_value_head and f.moe,
    ),
)
