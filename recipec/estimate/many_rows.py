"""Host memory that grows with the rows: their order in every rank of a training, and prepare_data.py."""

from __future__ import annotations

from msgspec import Struct

from recipec.axes.method import AS_STORED, RANDOM, SIMILAR
from recipec.estimate.device import GIB

# Bytes of a sequence in each rank while the list of an epoch's order is made. torch 2.13's RandomSampler makes a list
# of `torch.randperm`: 40 bytes stay. similar_lengths.py of the bundle: groups of 8 rows or more (195 in groups of one).
# A loop of the bundle's own has the lengths of all rows beside. Measured with 2,000,000 rows and more (2026-11).
_ORDER_BYTES = {RANDOM: 48, SIMILAR: 120, AS_STORED: 0}
_LENGTH_BYTES = 40
# prepare_data.py: digests and marks of all rows, and what `select` of datasets 5.2 makes a list of, at most
# (benchmarks/results/rows_in_memory.md).
PREPARED_ROW_BYTES = 160
_FEW = GIB // 20  # bytes that are within what a process takes anyway; our decision


class RowOrder(Struct, frozen=True):
    """The order of an epoch, which every rank has whole in host memory."""

    sequences: int = 0
    sampling: str = AS_STORED
    own_loop: bool = False  # train.py has the steps itself

    @property
    def rank_bytes(self) -> int:
        """Host memory of one rank."""
        lengths = _LENGTH_BYTES if self.own_loop and self.sampling == RANDOM else 0
        return _beside_a_process(self.sequences * (_ORDER_BYTES[self.sampling] + lengths))

    def because(self, ranks: int) -> str:
        """What it takes of a node, in words."""
        each = f"{ranks} x {self.rank_bytes / GIB:.1f} GiB" if ranks > 1 else f"{self.rank_bytes / GIB:.1f} GiB"
        return f"{each} for the order of {self.sequences:,} sequences"


def prepared_row_bytes(rows: int) -> int:
    """Host memory that so many rows take in prepare_data.py, which is one process while it takes most."""
    return _beside_a_process(rows * PREPARED_ROW_BYTES)


def _beside_a_process(size: int) -> int:
    return size if size > _FEW else 0
