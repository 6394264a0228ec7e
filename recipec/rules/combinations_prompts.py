"""Combinations that soft prompts and prefixes are known not to work in."""

from __future__ import annotations

from recipec.axes.adaptations import PREFIXES, PROMPTS, VIRTUAL
from recipec.axes.attention import BOUNDARIES
from recipec.rules.combination import BadCombination

_OTHERS = 'or set `train.adaptation = "lora"`'

VIRTUAL_TOKENS = (
    BadCombination(
        "BAD-110",
        "a soft prompt or a prefix before packed rows, or with attention that is told where rows begin",
        "PEFT leaves out the positions that say where an example begins, or only shifts them, so that packed examples "
        "would read each other",
        "PEFT 0.21.2 peft_model.py (`Position ids are not supported for parameter efficient tuning. Ignoring`; run: "
        "other tokens in one example change the logits of the next)",
        f'set `train.packing = false` and `train.attention = "sdpa"`, {_OTHERS}',
        lambda f: f.adaptation.trains in VIRTUAL and (f.packing or f.attends.apart == BOUNDARIES),
    ),
    BadCombination(
        "BAD-111",
        "a soft prompt or a prefix with sharded weights",
        "PEFT looks the prompt up when it saves, outside of the forward that gathers it: FSDP fails at the first "
        "checkpoint, and ZeRO-3 waits forever there",
        "PEFT 0.21.2 with accelerate 1.15 and DeepSpeed 0.19.8 (run on two ranks); TRL #1164",
        f'set `train.strategy = "ddp"` or `"zero2"`, {_OTHERS}',
        lambda f: f.adaptation.trains in VIRTUAL and f.strategy.shards_weights,
    ),
    BadCombination(
        "BAD-112",
        "a soft prompt or a prefix in a stage that another one starts from",
        "neither can be merged, and PEFT does not train one again: the next stage would start without it",
        "PEFT 0.21.2 peft_model.py (`Cannot set a prompt learning adapter to trainable when loading pretrained "
        "adapter`)",
        "train it in the last stage, or set `train.adaptation` of the stages to another",
        lambda f: f.adaptation.trains in VIRTUAL and f.followed,
    ),
    BadCombination(
        "BAD-113",
        "virtual tokens and rows that are together longer than the model's context",
        "the virtual tokens stand before every row and take positions of the model, which `data.max_length` does not "
        "count",
        "PEFT 0.21.2 peft_model.py (inputs_embeds behind the prompts; positions behind the cache of a prefix)",
        "lower `data.max_length` by the number of virtual tokens",
        lambda f: f.adaptation.trains in VIRTUAL and f.beyond_positions,
    ),
    BadCombination(
        "BAD-114",
        "a soft prompt on a model with layers that have no attention",
        "whether a state that begins with virtual tokens trains and resumes as it should has not been run",
        "transformers 5.23 (gated delta nets): not run",
        'set `train.adaptation = "lora"`',
        lambda f: f.adaptation.trains == PROMPTS and f.hybrid,
    ),
    BadCombination(
        "BAD-115",
        "a prefix on a model with layers that have no attention",
        "PEFT hands the prefix over as a cache of keys and values for every layer, and a layer without attention finds "
        "no state of its own in it: the first step fails",
        "run with PEFT 0.21.2 and transformers 5.23 on Qwen 3.5 and LFM2 (`Cannot get conv state for non linear "
        "attention layer 0`)",
        'set `train.adaptation = "lora"`',
        lambda f: f.adaptation.trains == PREFIXES and f.hybrid,
    ),
    BadCombination(
        "BAD-116",
        "a prefix with gradient checkpointing",
        "a recomputed layer finds its own keys and values in the cache that holds the prefix, and adds them again: "
        "the first backward pass fails",
        "PEFT 0.21.2 peft_model.py (`PREFIX_TUNING does not work with gradient checkpointing`); run: `The size of "
        "tensor a (40) must match the size of tensor b (46)`",
        "set `train.activation_checkpointing = false`, with a smaller `train.micro_batch_size` or `data.max_length` "
        f"where memory is short, {_OTHERS}",
        lambda f: f.recomputes and not f.adaptation.recomputes,
    ),
    BadCombination(
        "BAD-117",
        "a prefix on a mixture of experts whose load is balanced",
        "the loss that balances the experts weighs tokens by the attention mask, which covers the prefix too and is "
        "longer than they are: the first step fails",
        "run with PEFT 0.21.2 and transformers 5.23 on Mixtral, Qwen3-MoE and gpt-oss (load_balancing_loss_func: `The "
        "size of tensor a (80) must match the size of tensor b (90)`)",
        'set `train.adaptation = "lora"`',
        lambda f: f.adaptation.trains == PREFIXES and f.moe and f.balanced,
    ),
    BadCombination(
        "BAD-118",
        "a prefix on a model whose layers attend in heads of two sizes",
        "PEFT makes the prefix as large as the largest heads, cuts it for smaller ones and leaves out layers with more "
        "heads than it has, with a warning",
        "PEFT 0.21.2 peft_model.py (`Prefix tuning injected into layers ...; skipped ...`)",
        'set `train.adaptation = "lora"`',
        lambda f: f.adaptation.trains == PREFIXES and f.two_heads,
    ),
)
