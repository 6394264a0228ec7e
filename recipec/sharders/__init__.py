"""One row per strategy: its whole footprint in a bundle."""

from recipec.sharders.ddp import DDP
from recipec.sharders.fsdp import FSDP, HSDP
from recipec.sharders.sharder import Run, Sharder
from recipec.sharders.single import SINGLE
from recipec.sharders.zero import ZERO1, ZERO2, ZERO3

SHARDERS = {sharder.name: sharder for sharder in (SINGLE, DDP, FSDP, HSDP, ZERO1, ZERO2, ZERO3)}

__all__ = ["SHARDERS", "Run", "Sharder"]
