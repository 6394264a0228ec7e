"""Combinations that leave nothing of a curriculum."""

from __future__ import annotations

from recipec.rules.combination import BadCombination

_LEAVE = "or leave `train.curriculum` out"

CURRICULA = (
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
)
