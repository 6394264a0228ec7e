"""Which rows a step learns from, and how they become tensors. Only seed and epoch decide the order of the rows."""

import random
from collections.abc import Iterator
from itertools import islice

import torch
from datasets import Dataset
from torch.utils.data import DataLoader

from settings import Settings

UNTRAINED = -100  # the label of a token that is not learned; cross_entropy passes over it


class MicroBatches:
    """The micro batches of one rank, one for each item of a DataLoader: all of one size, whatever rows are left.

    Ranks exchange tokens in each layer with experts, as many as their neighbors. What is missing is text of the longest
    row, which the router sees as any other text, and which is not learned.
    """

    def __init__(self, rows: Dataset, places: list[list[int]], size: int) -> None:
        self.rows, self.places, self.size = rows, places, size
        lengths = rows["length"][:]  # a list: the column finds each value anew
        self.filler = rows[max(range(len(lengths)), key=lengths.__getitem__)]["input_ids"]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        rows = self.rows[self.places[index]] if self.places[index] else {"input_ids": [], "labels": []}
        missing, length = [[]] * (self.size - len(rows["input_ids"])), len(self.filler)
        tokens, labels = rows["input_ids"] + missing, rows["labels"] + missing
        return {
            "input_ids": completed(tokens, self.filler),
            "attention_mask": completed([[1] * max(1, len(row)) for row in tokens], [0] * length),
            "labels": completed(labels, [UNTRAINED] * length),
        }


def completed(rows: list[list[int]], filler: list[int]) -> torch.Tensor:
    return torch.tensor([row + filler[len(row) :] for row in rows])


def trained_tokens(batches: list[dict[str, torch.Tensor]]) -> torch.Tensor:
    """How many tokens of the micro batches are learned; the first of a row is predicted by none."""
    return torch.stack([(batch["labels"][:, 1:] != UNTRAINED).sum() for batch in batches]).sum()


def global_batch_size(settings: Settings, ranks: int) -> int:
    return settings.per_device_train_batch_size * settings.gradient_accumulation_steps * ranks


def steps_per_epoch(rows: Dataset, settings: Settings, ranks: int) -> int:
    """The last step of an epoch has the rows that are left, however few."""
    return -(-len(rows) // global_batch_size(settings, ranks))


def steps(
    rows: Dataset, settings: Settings, rank: int, ranks: int, done: int
) -> Iterator[list[dict[str, torch.Tensor]]]:
    """The micro batches of one rank for each step behind `done` steps, epoch after epoch without end."""
    size, lengths = settings.per_device_train_batch_size, rows["length"][:]
    epoch, passed = divmod(done, steps_per_epoch(rows, settings, ranks))
    while True:
        order = epoch_order(lengths, settings, ranks, epoch)[passed:]
        shares = [share(of_step, size, rank, ranks) for of_step in order]
        loaded = iter(loader(rows, [places for of_step in shares for places in of_step], size, settings))
        for of_step in shares:
            yield list(islice(loaded, len(of_step)))
        epoch, passed = epoch + 1, 0


def share(rows: list[int], size: int, rank: int, ranks: int) -> list[list[int]]:
    """A rank's micro batches of some rows; every rank has as many, because they reduce gradients together."""
    places = cut(rows, size)
    places += [[]] * (-len(places) % ranks)
    return places[rank::ranks]


def cut(rows: list[int], size: int) -> list[list[int]]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def loader(rows: Dataset, places: list[list[int]], size: int, settings: Settings) -> DataLoader:
    return DataLoader(
        MicroBatches(rows, places, size),
        batch_size=None,  # every item is a micro batch already
        num_workers=settings.dataloader_num_workers,
        pin_memory=settings.dataloader_pin_memory,
        prefetch_factor=settings.dataloader_prefetch_factor,
    )


def epoch_order(lengths: list[int], settings: Settings, ranks: int, epoch: int) -> list[list[int]]:
    """The rows of each step in random order; in the first epoch the longest row is in the first step."""
    rows = list(range(len(lengths)))
    random.Random(f"{settings.seed} {epoch}").shuffle(rows)
    if epoch == 0:  # memory that is too small shows in step 1
        longest = rows.index(max(rows, key=lengths.__getitem__))
        rows[0], rows[longest] = rows[longest], rows[0]
    return cut(rows, global_batch_size(settings, ranks))


def evaluation_batches(rows: Dataset, settings: Settings, rank: int, ranks: int) -> Iterator[dict[str, torch.Tensor]]:
    """The rows that are evaluated, the longest first: memory that is too small shows at the baseline."""
    lengths = rows["length"][:]
    order = sorted(range(len(rows)), key=lengths.__getitem__, reverse=True)
    size = settings.per_device_eval_batch_size
    yield from loader(rows, share(order, size, rank, ranks), size, settings)
