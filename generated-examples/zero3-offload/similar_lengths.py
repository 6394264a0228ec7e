"""The order of the training rows: micro batches of similar length, in an order that a resumed run repeats."""

import random
from collections.abc import Iterator
from itertools import chain

from datasets import Dataset
from torch.utils.data import Sampler
from transformers import Trainer

POOL = 50  # groups whose rows are sorted by length together: more need less padding, fewer mix the rows better


class SimilarLengths(Sampler[int]):
    """Rows of similar length go through the model together: a group is what the ranks take in one micro step.

    The groups come in random order, so that the micro steps of an optimizer step differ in length: where all rows of a
    step are short, each of their tokens has more weight than those of long rows. In the first epoch the longest row is
    in the first group.

    Only the seed and the epoch decide the order, so a resumed run goes on with the rows that are left. The order of
    transformers' LengthGroupedSampler depends on a random state that checkpoints do not have.
    """

    def __init__(self, trainer: Trainer, rows: Dataset) -> None:
        self.trainer = trainer
        self.lengths = [len(tokens) for tokens in rows["input_ids"]]
        self.longest = max(range(len(self.lengths)), key=self.lengths.__getitem__)
        self.group_size = trainer.args.train_batch_size * trainer.args.world_size

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        """The rows of the epoch that the trainer is in."""
        epoch = int(self.trainer.state.epoch or 0)
        chance = random.Random(f"{self.trainer.args.seed} {epoch}")
        groups = self.groups(chance)
        rest = [groups.pop()] if len(groups[-1]) < self.group_size else []  # comes last, or others would be cut
        chance.shuffle(groups)
        if epoch == 0:
            groups.sort(key=lambda group: self.longest not in group)  # first: memory that is too small shows in step 1
        return chain.from_iterable(groups + rest)

    def groups(self, chance: random.Random) -> list[list[int]]:
        """Groups out of random pools of rows, each pool sorted by length; the longest row is in a full group."""
        others = [row for row in range(len(self)) if row != self.longest]
        chance.shuffle(others)
        rows, size = [self.longest, *others], self.group_size
        pool = size * max(1, min(POOL, len(rows) // (4 * size)))
        pools = [rows[start : start + pool] for start in range(0, len(rows), pool)]
        ordered = [row for rows in pools for row in sorted(rows, key=self.lengths.__getitem__, reverse=True)]
        return [ordered[start : start + size] for start in range(0, len(ordered), size)]
