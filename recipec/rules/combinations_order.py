"""Orders of the rows that a trainer or another key does not leave."""

from __future__ import annotations

from recipec.axes.method import AS_STORED, RANDOM, SIMILAR
from recipec.rules.combination import BadCombination

_OPEN = "leave `train.sampling` out"
_LEAVE = "or leave `train.curriculum` out"

ORDERS = (
    BadCombination(
        "BAD-120",
        "a curriculum with packed examples",
        "packing puts examples together by their lengths, whatever the order in which they stand",
        "TRL 1.16 data_utils.py (pack_dataset, strategies bfd and bfd_split)",
        f'set `train.packing = false` and `train.attention = "sdpa"`, {_LEAVE}',
        lambda f: f.ordered and f.packs_examples,
    ),
    BadCombination(
        "BAD-121",
        "a curriculum for a method that draws its prompts itself",
        "its trainer takes prompts in a random order of its own",
        "TRL 1.16 trainer/grpo_trainer.py (RepeatSampler)",
        "order the prompts by training in several recipes, each from the result of the one before, "
        "with `model.init_from` or `model.name`",
        lambda f: f.ordered and "train_sampling_strategy" in f.method.unread_arguments,
    ),
    BadCombination(
        "BAD-122",
        "a curriculum in a loop of its own",
        "such a loop draws the batches of every epoch at random, out of rows of like length",
        "PyTorch 2.13 utils/data/sampler.py: the loop has a sampler of its own",
        f"leave `train.loop` out, {_LEAVE}",
        lambda f: f.ordered and f.loop.own,
    ),
    BadCombination(
        "BAD-123",
        "a curriculum with another order of the rows",
        "the curriculum puts the rows from easy to hard, and the trainer keeps that order",
        "transformers 5.23 trainer.py (_get_train_sampler, one order for all rows)",
        f"{_OPEN}, {_LEAVE}",
        lambda f: f.ordered and f.asked_sampling != "",
    ),
    BadCombination(
        "BAD-124",
        "rows of similar length where nothing groups them",
        "packed sequences all have the same length, and the trainers of other methods than supervised fine-tuning and "
        "distillation order their rows themselves",
        "TRL 1.16 trainer/grpo_trainer.py (RepeatSampler)",
        _OPEN,
        lambda f: f.asked_sampling == SIMILAR and (f.packing or f.method.sampling != SIMILAR),
    ),
    BadCombination(
        "BAD-125",
        "a random order where the rows of a batch belong together",
        "the trainer relates the rows of a batch to each other before training, and reads them as they stand",
        "TRL 1.16 trainer/kto_trainer.py (_get_train_sampler)",
        f"{_OPEN}: prepare_data.py shuffles the rows once",
        lambda f: f.asked_sampling == RANDOM and f.method.sampling == AS_STORED,
    ),
)
