"""What elastic weight consolidation does not go with."""

from __future__ import annotations

from recipec.axes.strategies import ONE_PROCESS, TORCH_DDP
from recipec.rules.combination import BadCombination

_LEAVE = "or leave `train.ewc` out: the rows of `data.general` are then replayed (REPLAY-001)"

ELASTIC = (
    BadCombination(
        "BAD-180",
        "elastic weight consolidation of an adapter",
        "an adapter leaves the weights of the model as they are, so there is nothing to hold: a lower "
        "`train.lora.rank` limits what it changes",
        "arXiv 1612.00796, equation 3: the penalty is over the weights that learned the old task",
        f'set `train.adaptation = "full"`, {_LEAVE}',
        lambda f: f.elastic and not f.adaptation.trains_all,
    ),
    BadCombination(
        "BAD-181",
        "elastic weight consolidation of sharded weights or optimizer states",
        "the Fisher information and the starting weights are whole tensors beside whole weights and gradients, which "
        "only one device and DDP have",
        "accelerate 1.15 accelerator.py (prepare_model)",
        f'set `train.strategy = "ddp"` where the model fits, {_LEAVE}',
        lambda f: f.elastic and f.strategy.engine not in (ONE_PROCESS, TORCH_DDP),
    ),
    BadCombination(
        "BAD-182",
        "elastic weight consolidation for a method without supervised rows, or from random weights",
        "the penalty is in a trainer made from SFTTrainer: general rows are scored as training rows are, and weights "
        "have learned something before",
        "TRL 1.16 trainer/sft_trainer.py",
        "use `train.STAGE.ewc` with the stage of supervised fine-tuning or continued pretraining, or leave it out",
        lambda f: f.elastic and not f.method.learns_tokens,
    ),
    BadCombination(
        "BAD-183",
        "elastic weight consolidation in a loop of its own",
        "the penalty is in a trainer, and such a loop has none",
        "TRL 1.16 trainer/sft_trainer.py",
        "leave `train.loop` or `train.ewc` out",
        lambda f: f.elastic and f.loop.own,
    ),
    BadCombination(
        "BAD-184",
        "elastic weight consolidation in fp16",
        "gradients are scaled with the loss in fp16, and those of the penalty, which are added to them, are not",
        "torch 2.13 amp/grad_scaler.py (unscale_)",
        'set `train.precision = "bf16"`, or `"fp32"` on a GPU without bf16, or leave `train.ewc` out',
        lambda f: f.elastic and f.precision == "fp16",
    ),
    BadCombination(
        "BAD-185",
        "elastic weight consolidation with general rows of another stage",
        "the rows of `data.general` are not in a format that this stage reads, so no weight would be known to matter",
        "TRL 1.16 trainer/sft_trainer.py (_prepare_dataset)",
        "write `data.general` in the format of the stage's rows, or move the table to the stage that reads its rows",
        lambda f: f.elastic and not f.has_general,
    ),
    BadCombination(
        "BAD-186",
        "elastic weight consolidation with new tokens",
        "embeddings of new tokens are in no general row, and the matrices that hold them change their size",
        "arXiv 1612.00796, equation 3",
        "leave `model.new_tokens` or `train.ewc` out",
        lambda f: f.elastic and f.new_tokens,
    ),
)
