"""Combinations that variants of LoRA are known not to work in."""

from __future__ import annotations

from recipec.axes import Method
from recipec.axes.strategies import Strategy
from recipec.rules.combination import BadCombination


def goes_on(method: Method) -> bool:
    """Whether the method can go on from an adapter (BAD-080)."""
    return method.single_pass and method.writes and not method.generates


def loads_adapter(strategy: Strategy) -> bool:
    """Whether a model with its adapter can be given to the trainer (BAD-081)."""
    return strategy.one_rank or strategy.replicates


VARIANTS = (
    BadCombination(
        "BAD-060",
        "a variant of LoRA that moves the base, beside a reference",
        "PiSSA takes its start out of the base's weights, so that the model without the adapter is not the one that "
        "training began with: the reference would be another model, and the loss would not start at ln 2",
        "PEFT 0.21.2 and TRL 1.16 (run: the first loss of DPO is 0.807 for 0.693)",
        'set `train.lora.variant = "standard"`, or use the variant in the stage of supervised fine-tuning alone: '
        "`[train.sft.lora]`",
        lambda f: not f.variant.serves(f.method.has_reference),
    ),
    BadCombination(
        "BAD-061",
        "a variant of LoRA on a base that it cannot be made from",
        "PiSSA decomposes the weights of the base, and PEFT refuses to decompose quantized ones; DoRA reads them when "
        "it is made, and 8-bit layers that were read once lose their scales when the trainer places the model",
        "PEFT 0.21.2 lora/layer.py (pissa_init: `Please initialize PiSSA under float32, float16, or bfloat16`; run); "
        "bitsandbytes 0.50.2 nn/modules.py (Int8Params.to; run: 'NoneType' object has no attribute 'unsqueeze')",
        'set `train.quantization = "none"`, or leave `train.lora.variant` out',
        lambda f: f.adaptation.base not in f.variant.bases,
    ),
    BadCombination(
        "BAD-062",
        "a variant of LoRA on fused experts",
        "PEFT refuses DoRA on the fused weights of experts, and the other variants have not been run there",
        "PEFT 0.21.2 lora.ParamWrapper (ValueError at construction for DoRA)",
        'set `train.lora.targets = "attention"`, or leave `train.lora.variant` out',
        lambda f: bool(f.lora_experts) and not f.variant.on_experts,
    ),
    BadCombination(
        "BAD-063",
        "dropout with DoRA or PiSSA",
        "with dropout DoRA computes the product with the base twice, which the plan does not count, and PiSSA would "
        "drop parts of what it has taken out of the weights",
        "PEFT 0.21.2 lora/dora.py and examples/pissa_finetuning (dropout 0)",
        "set `train.lora.dropout = 0`",
        lambda f: f.lora_dropout > 0 and not f.variant.drops,
    ),
    BadCombination(
        "BAD-064",
        "PiSSA with weights that are sharded or loaded on one rank alone",
        "PiSSA decomposes whole weights when the adapter is made, and its start is saved before training: FSDP and "
        "ZeRO-3 have no whole weights on every rank by then, and recipec has not run it there",
        "accelerate 1.15 utils/fsdp_utils.py (weights of other ranks on meta); DeepSpeed 0.19.8 "
        "partition_parameters.py",
        'set `train.strategy = "ddp"` or `"zero2"`, or leave `train.lora.variant` out',
        lambda f: f.variant.whole_weights and f.strategy.shards_weights,
    ),
    BadCombination(
        "BAD-065",
        "LoRA+ with states on the host",
        "accelerate replaces the optimizer with DeepSpeed's CPU Adam, and the two learning rates would be lost",
        "accelerate 1.15 utils/deepspeed.py (map_pytorch_optim_to_deepspeed)",
        'set `train.offload = "none"`, or leave `train.lora.variant` out',
        lambda f: f.variant.own_optimizer and f.offloads,
    ),
    BadCombination(
        "BAD-066",
        "DoRA on a quantized base",
        "sizes are measured on the quantized weights and products rounded otherwise, so that the untrained adapter is "
        "not quite the base: the first loss differs in the fourth digit",
        "PEFT 0.21.2 lora/dora.py (run on NF4: 6.1848 for 6.1843, DPO 0.6938 for 0.6931)",
        'set `train.quantization = "none"` where the start must be the base exactly',
        lambda f: f.variant.magnitudes and f.adaptation.quantized,
        refused=False,
    ),
    BadCombination(
        "BAD-067",
        "DoRA under FSDP",
        "FSDP casts what it gathers to the compute type, the trained sizes of the weights too: in 16 bits each output "
        "of a module is off by up to 0.4%, while the saved sizes are exact. Loaded elsewhere, the adapter gives "
        "slightly other logits than in training",
        "run with PEFT 0.21.2 on six small models: rounded sizes move logits by 2% to 4% of the largest, and those of "
        "plain LoRA by nothing",
        'hold the result to `evaluate.py after`; set `train.strategy = "ddp"` where the model fits on a GPU',
        lambda f: f.variant.magnitudes and f.fsdp and f.precision != "fp32",
        refused=False,
    ),
    BadCombination(
        "BAD-080",
        "going on from an adapter with a method that compares, scores or writes",
        "the reference would be the model without the adapter, or a second adapter, and recipec has run neither; only "
        "supervised fine-tuning and continued pretraining go on from one",
        "TRL 1.16 trainer/dpo_trainer.py (a PeftModel gets a second adapter, `ref`)",
        "merge the adapter with PEFT's `merge_and_unload`, and name the folder of the merged model in `model.name`",
        lambda f: f.continues and not goes_on(f.method),
    ),
    BadCombination(
        "BAD-081",
        "going on from an adapter with sharded weights or DeepSpeed",
        "the model with its adapter is loaded before the trainer is made, and recipec has run that on one device and "
        "with DDP",
        "TRL 1.16 trainer/sft_trainer.py; not run",
        'set `train.strategy = "ddp"` or `"single"`',
        lambda f: f.continues and not loads_adapter(f.strategy),
    ),
    BadCombination(
        "BAD-216",
        "a base model that bitsandbytes quantizes, of a checkpoint whose experts are in MXFP4",
        "transformers loads such a checkpoint with its own quantization alone, and refuses another one",
        "transformers 5.23 quantizers/auto.py (run: `ValueError: The model is quantized with Mxfp4Config but you are "
        "passing a BitsAndBytesConfig config`)",
        'set `train.adaptation = "lora"` without `train.quantization`: the base model is then dequantized to bf16',
        lambda f: f.in_mxfp4 and f.begins and not f.new_tokens and f.adaptation.quantized,
    ),
)
