"""Rows of methods that recipec does not build yet, so that the memory law is held to the simulation before it does.

A row that recipec has itself comes first. What does not matter to a step's memory is taken from a neighbour's row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from recipec.axes import METHODS, Method, Pass
from recipec.axes.method import POLICY, TEACHER
from recipec.axes.methods.sft import SFT

DISTILL = replace(
    SFT,
    name="distill",
    trainer="GKDTrainer",
    config="GKDConfig",
    passes=(
        Pass(model=POLICY, sequences=1, gradient=True, gives="tokens"),
        Pass(model=TEACHER, sequences=1, gradient=False, gives="tokens"),
    ),
    head="divergence",
    loss="divergence",
    loss_outputs=(),
    packs="never",
    drops_dropout=True,
)
COMING = {row.name: row for row in (DISTILL,)}


@contextmanager
def known() -> Iterator[None]:
    """The rows are among recipec's own in the block."""
    added: dict[str, Method] = {name: row for name, row in COMING.items() if name not in METHODS}
    METHODS.update(added)
    try:
        yield
    finally:
        for name in added:
            del METHODS[name]
