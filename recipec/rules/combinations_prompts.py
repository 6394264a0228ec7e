"""Combinations that soft prompts are known not to work in."""

from __future__ import annotations

from recipec.axes.adaptations import PROMPTS
from recipec.axes.attention import BOUNDARIES
from recipec.rules.combination import BadCombination

_OTHERS = 'or set `train.adaptation = "lora"`'

SOFT_PROMPTS = (
    BadCombination(
        "BAD-110",
        "a soft prompt before packed rows, or with attention that is told where rows begin",
        "PEFT leaves out the positions that say where an example begins, so that packed examples would read each other",
        "PEFT 0.21.2 peft_model.py (`Position ids are not supported for parameter efficient tuning. Ignoring`; run: "
        "other tokens in one example change the logits of the next)",
        f'set `train.packing = false` and `train.attention = "sdpa"`, {_OTHERS}',
        lambda f: f.adaptation.trains == PROMPTS and (f.packing or f.attends.apart == BOUNDARIES),
    ),
    BadCombination(
        "BAD-111",
        "a soft prompt with sharded weights",
        "PEFT looks the prompt up when it saves, outside of the forward that gathers it: FSDP fails at the first "
        "checkpoint, and ZeRO-3 waits forever there",
        "PEFT 0.21.2 with accelerate 1.15 and DeepSpeed 0.19.8 (run on two ranks); TRL #1164",
        f'set `train.strategy = "ddp"` or `"zero2"`, {_OTHERS}',
        lambda f: f.adaptation.trains == PROMPTS and f.strategy.shards_weights,
    ),
    BadCombination(
        "BAD-112",
        "a soft prompt in a stage that another one starts from",
        "a soft prompt cannot be merged, and PEFT does not train one again: the next stage would start without it",
        "PEFT 0.21.2 peft_model.py (`Cannot set a prompt learning adapter to trainable when loading pretrained "
        "adapter`)",
        "train the soft prompt in the last stage, or set `train.adaptation` of the stages to another",
        lambda f: f.adaptation.trains == PROMPTS and f.followed,
    ),
    BadCombination(
        "BAD-113",
        "a soft prompt and rows that are together longer than the model's context",
        "the virtual tokens stand before every row and take positions of the model, which `data.max_length` does not "
        "count",
        "PEFT 0.21.2 peft_model.py (inputs_embeds behind the prompts)",
        "lower `data.max_length` by `train.prompt.virtual_tokens`",
        lambda f: f.adaptation.trains == PROMPTS and f.beyond_positions,
    ),
    BadCombination(
        "BAD-114",
        "a soft prompt on a model with layers that have no attention",
        "whether a state that begins with virtual tokens trains and resumes as it should has not been run",
        "transformers 5.23 (gated delta nets): not run",
        'set `train.adaptation = "lora"`',
        lambda f: f.adaptation.trains == PROMPTS and f.hybrid,
    ),
)
