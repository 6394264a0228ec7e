"""The order of the training rows: batches of similar length, in an order that a resumed run repeats."""

import random
from collections.abc import Iterator
from itertools import chain

from datasets import Dataset
from torch.utils.data import Sampler
from transformers import Trainer

POOL = 50  # batches whose rows are sorted by length together: more need less padding, fewer mix the rows better


class SimilarLengths(Sampler[int]):
    """Rows of similar length share a batch. The batches come in random order, in the first epoch the longest first.

    Only the seed and the epoch decide the order, so a resumed run goes on with the rows that are left. The order of
    transformers' LengthGroupedSampler depends on a random state that checkpoints do not have.
    """

    def __init__(self, trainer: Trainer, rows: Dataset) -> None:
        self.trainer = trainer
        self.lengths = [len(tokens) for tokens in rows["input_ids"]]
        self.longest = max(range(len(self.lengths)), key=self.lengths.__getitem__)
        args = trainer.args  # the rows of a step share a batch, whatever number of ranks takes them
        self.batch_size = args.train_batch_size * args.gradient_accumulation_steps * args.world_size

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        """The rows of the epoch that the trainer is in."""
        epoch = int(self.trainer.state.epoch or 0)
        chance = random.Random(f"{self.trainer.args.seed} {epoch}")
        batches = self.batches(chance)
        rest = [batches.pop()] if len(batches[-1]) < self.batch_size else []  # comes last, or others would be cut
        chance.shuffle(batches)
        if epoch == 0:
            batches.sort(key=lambda batch: self.longest not in batch)  # first: memory that is too small shows in step 1
        return chain.from_iterable(batches + rest)

    def batches(self, chance: random.Random) -> list[list[int]]:
        """Batches out of random pools of rows, each pool sorted by length; the longest row is in a full batch."""
        others = [row for row in range(len(self)) if row != self.longest]
        chance.shuffle(others)
        rows = [self.longest, *others]
        size = self.batch_size * max(1, min(POOL, len(rows) // (4 * self.batch_size)))
        pools = [rows[start : start + size] for start in range(0, len(rows), size)]
        ordered = [row for pool in pools for row in sorted(pool, key=self.lengths.__getitem__, reverse=True)]
        return [ordered[start : start + self.batch_size] for start in range(0, len(ordered), self.batch_size)]
