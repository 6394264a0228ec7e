"""Combinations that new tokens are known not to work in."""

from __future__ import annotations

from recipec.axes.adaptations import MATRICES
from recipec.rules.combination import BadCombination, Combination

_FULL = 'set `train.adaptation = "full"`'


def _trains_rows(combination: Combination) -> bool:
    """Whether rows of the embedding train beside adapters."""
    return combination.new_tokens and combination.method.learns_tokens and not combination.adaptation.trains_all


NEW_TOKENS = (
    BadCombination(
        "BAD-130",
        "new tokens in a run that begins with another method than continued pretraining or supervised fine-tuning",
        "a method that compares, scores or writes answers does not learn each token of the rows: the new tokens would "
        "stay the means that they begin as",
        "transformers 5.23 modeling_utils.py (resize_token_embeddings); not run",
        "train the tokens in a recipe of continued pretraining or supervised fine-tuning, and name the folder of its "
        "result in `model.name`",
        lambda f: f.new_tokens and f.begins and not f.method.learns_tokens,
    ),
    BadCombination(
        "BAD-131",
        "new tokens with adapters other than LoRA",
        "PEFT trains rows of the embedding beside LoRA; IA3, soft prompts, prefixes and bottleneck adapters have no "
        "such option, and the new tokens would stay the means that they begin as",
        "PEFT 0.21.2 tuners/lora/config.py (trainable_token_indices)",
        f'set `train.adaptation = "lora"`, or {_FULL}',
        lambda f: _trains_rows(f) and f.adaptation.trains != MATRICES,
    ),
    BadCombination(
        "BAD-132",
        "new tokens beside adapters under FSDP, ZeRO-3 or model parallelism",
        "TRL multiplies by the weight of the head outside of its forward pass, so that under FSDP each rank keeps its "
        "own gradient of the new rows; under ZeRO-3 the rows that PEFT reads are not there",
        "TRL 1.16 trainer/utils.py (add_fused_lm_head: `weight.full_tensor()`; run for a trained head: weights off by "
        "0.07 after four steps); PEFT 0.21.2 utils/other.py (TrainableTokensWrapper.update: `does not support "
        "deepspeed/fsdp`)",
        f'set `train.strategy = "ddp"` or `"zero2"`, or {_FULL}',
        lambda f: _trains_rows(f) and (f.strategy.shards_weights or max(f.tensor, f.context, f.expert) > 1),
    ),
    BadCombination(
        "BAD-133",
        "new tokens beside an adapter that training goes on with",
        "the adapter was trained on the vocabulary without them, and its file has no rows for them",
        "PEFT 0.21.2 peft_model.py (from_pretrained): not run",
        "merge the adapter with PEFT's `merge_and_unload`, name the folder of the merged model in `model.name`, and "
        "leave `model.init_from` out",
        lambda f: f.new_tokens and f.continues,
    ),
    BadCombination(
        "BAD-134",
        "new tokens with a variant of LoRA that has code of its own",
        "PiSSA converts the saved adapter into another one, and LoRA+ sorts what trains by the names of its matrices: "
        "neither was run with rows of the embedding",
        "PEFT 0.21.2 utils/save_and_load.py and optimizers/loraplus.py: not run",
        f'set `train.lora.variant = "standard"`, or {_FULL}',
        lambda f: _trains_rows(f) and f.variant.own_code,
    ),
    BadCombination(
        "BAD-135",
        "new tokens in a loop of its own",
        "the loops do not look for the new tokens in the rows, and no run of one was made with rows of the embedding",
        "PEFT 0.21.2 utils/other.py (TrainableTokensWrapper): not run in a loop",
        "leave `train.loop` out",
        lambda f: f.new_tokens and f.loop.own,
    ),
)
