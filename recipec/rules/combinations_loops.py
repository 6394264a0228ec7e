"""What a loop that train.py has itself cannot run; the method's trainer can."""

from __future__ import annotations

from recipec.axes.loops import ACCELERATE, ENGINE
from recipec.axes.strategies import ONE_PROCESS
from recipec.rules.combination import BadCombination, Combination

_LEAVE = "leave `train.loop` out: the method's trainer does that"
_TWO_GPUS = "train on 2 GPUs or more, such as `hardware.gpus_per_node = 2`"


def _leave(found: Combination) -> str:
    """To leave out the loop, and what only that loop takes of a mixture."""
    return "leave `train.loop` and any `train.experts` out" if found.moe else "leave `train.loop` out"


def _spread_otherwise(found: Combination) -> str:
    """What a loop runs, where a strategy is none of it."""
    if found.loop is ENGINE and found.strategy.engine == ONE_PROCESS:
        return f"{_TWO_GPUS}, or {_leave(found)}"
    if found.loop is ENGINE:
        return f'set `train.strategy = "zero2"`, or {_leave(found)}'
    of_several = '`train.loop = "deepspeed"` with `train.strategy = "zero2"`'
    if found.loop is not ACCELERATE:
        of_several = f'`train.loop = "accelerate"` with `train.strategy = "ddp"`, {of_several}'
        return f"set `hardware.gpus_per_node = 1` and one node, {of_several}, or {_leave(found)}"
    return f'set `train.strategy = "ddp"` where the model fits on each device, {of_several}, or {_leave(found)}'


def _balanced_otherwise(found: Combination) -> str:
    """Who trains a mixture: the trainer, or in pretraining a loop on DeepSpeed's engine."""
    if found.method.name not in ENGINE.dispatches:
        return f"{_leave(found)}: the method's trainer does that"
    alone = f", and {_TWO_GPUS}" if found.strategy.engine == ONE_PROCESS else ""
    return f'{_leave(found)}: the method\'s trainer does that; or set `train.loop = "deepspeed"`{alone}'


LOOPS = (
    BadCombination(
        "BAD-090",
        "a loop of its own for another method",
        "the loops learn labeled tokens, which is supervised fine-tuning and pretraining; losses that compare, write "
        "or score answers are only in TRL's trainers",
        "TRL 1.16 trainer/",
        _LEAVE,
        lambda f: f.method.name not in f.loop.methods,
    ),
    BadCombination(
        "BAD-091",
        "a loop of its own under a strategy that it does not run",
        "the loop on Accelerate runs on one device and under DDP, the one on PyTorch on one device, and the one on "
        "DeepSpeed under ZeRO, which needs two devices or more; sharded checkpoints of FSDP are only in the trainer's "
        "bundles",
        "DeepSpeed 0.19 engine.py (step, save_checkpoint)",
        'set `train.loop = "deepspeed"` where several devices share the states, `train.loop = "accelerate"` with '
        '`train.strategy = "ddp"` where the model fits on each, or leave `train.loop` out',
        lambda f: not f.loop.spreads(f.strategy),
        then=_spread_otherwise,
    ),
    BadCombination(
        "BAD-092",
        "a loop of its own on a quantized base model",
        "no loop with quantized layers has been run",
        "bitsandbytes 0.50.2 nn/modules.py",
        'set `train.quantization = "none"` or `train.adaptation = "full"`, or leave `train.loop` out',
        lambda f: f.adaptation.quantized and f.adaptation.name not in f.loop.adaptations,
    ),
    BadCombination(
        "BAD-156",
        "a loop of its own with an adaptation that it does not train",
        "the loops train LoRA adapters or all weights, and no loop with another kind of adapter has been run",
        "PEFT 0.21.2 tuners/: not run in a loop",
        'set `train.adaptation = "lora"` or `train.adaptation = "full"`, or leave `train.loop` out',
        lambda f: not f.adaptation.quantized and f.adaptation.name not in f.loop.adaptations,
    ),
    BadCombination(
        "BAD-093",
        "a loop of its own with an optimizer that it does not make",
        "the loops make the optimizer with torch.optim, which has AdamW and SGD of those that recipec plans; DeepSpeed "
        "shards the states of AdamW, and lists no SGD among the optimizers that it was tried with",
        "torch 2.13 optim; DeepSpeed 0.19 runtime/zero/utils.py (ZERO_SUPPORTED_OPTIMIZERS)",
        'set `train.optimizer = "adamw"`, or leave `train.loop` out',
        lambda f: bool(f.loop.optimizers) and f.optimizer not in f.loop.optimizers,
    ),
    BadCombination(
        "BAD-094",
        "a loop of its own with packed examples",
        "the loops pad rows of similar length; only TRL's collator tells a kernel where packed examples begin",
        "TRL 1.16 trainer/sft_trainer.py (padding_free)",
        "set `train.packing = false` with another `train.attention`, or leave `train.loop` out",
        lambda f: f.loop.own and f.packs_examples,
    ),
    BadCombination(
        "BAD-095",
        "a loop of its own for a mixture of experts",
        "the loops have no loss that keeps the load of the experts balanced, but for pretraining on DeepSpeed, whose "
        "layers for mixtures have one",
        "transformers 5.23 (load_balancing_loss_func); TRL 1.16 trainer/sft_trainer.py; DeepSpeed 0.19 moe/layer.py",
        f'{_LEAVE}, or pretrain with `train.loop = "deepspeed"`',
        lambda f: f.loop.own and f.moe and not f.dispatches,
        then=_balanced_otherwise,
    ),
    BadCombination(
        "BAD-096",
        "a loop of its own with a variant of LoRA that has code of its own",
        "PiSSA converts its result and LoRA+ makes its own optimizer, and only the trainer's bundles do that",
        "PEFT 0.21.2 (path_initial_model_for_weight_conversion, create_loraplus_optimizer)",
        "leave `train.lora.variant` or `train.loop` out",
        lambda f: f.loop.own and f.variant.own_code,
    ),
    BadCombination(
        "BAD-097",
        "a loop of its own that recomputes some layers, or keeps activations in host memory",
        "the loops recompute every layer from its input on the device, or none",
        "transformers 5.23 modeling_utils.py (gradient_checkpointing_enable)",
        "leave `train.recompute_every` and `train.activation_offload`, or `train.loop` out",
        lambda f: f.loop.own and (f.recompute_every > 1 or f.activation_offload),
    ),
    BadCombination(
        "BAD-098",
        "a loop of its own with torch.compile",
        "the loops do not compile the model: batches change length at every step",
        "torch 2.13 (torch.compile, dynamic shapes)",
        "set `train.compile = false`, or leave `train.loop` out",
        lambda f: f.loop.own and f.compile,
    ),
    BadCombination(
        "BAD-099",
        "a loop of its own that goes on from an adapter",
        "the loops make their adapter, and no run of one that goes on with another was made",
        "PEFT 0.21.2 peft_model.py (from_pretrained with `is_trainable`): not run in a loop",
        "leave `model.init_from` or `train.loop` out",
        lambda f: f.loop.own and f.continues,
    ),
    BadCombination(
        "BAD-155",
        "a loop of its own with states on the host",
        "DeepSpeed then updates the weights with an optimizer of its own for the CPU, which accelerate puts in the "
        "place of PyTorch's; no loop does",
        "accelerate 1.15 utils/deepspeed.py (map_pytorch_optim_to_deepspeed); DeepSpeed 0.19 ops/adam/cpu_adam.py",
        'set `train.offload = "none"`, or leave `train.loop` out',
        lambda f: f.offload not in f.loop.offloads,
    ),
)
