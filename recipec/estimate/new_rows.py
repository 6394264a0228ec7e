"""What rows of the embedding cost that train beside adapters, for tokens that are new to the model.

Source: PEFT 0.21.2 `trainable_tokens/layer.py`: in each forward the frozen matrix is copied and the trained rows are
put into the copy, whose gradient is whole too.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from recipec.catalog.architecture import Architecture
from recipec.estimate.codepath import CodePath
from recipec.estimate.head import Head, LossCode
from recipec.estimate.workload import LoraShape


def new_rows(architecture: Architecture, lora: LoraShape | None) -> Iterator[tuple[int, int, int]]:
    """How many trained matrices, and the rows and columns of each; a tied head has no rows of its own."""
    if lora is not None and lora.new_rows:
        yield 1 if architecture.tie_embeddings else 2, lora.new_rows, architecture.hidden_size


def copied_embedding(architecture: Architecture, lora: LoraShape | None, path: CodePath) -> int:
    """Bytes of the copy of the embedding, which its forward makes and frees, and of its gradient."""
    trains = lora is not None and lora.new_rows > 0
    return path.frozen * architecture.vocab_size * architecture.hidden_size if trains else 0


def copied_head(code: LossCode, tokens: int, architecture: Architecture, rows: int, path: CodePath) -> Head:
    """A head that trains as a whole, in the type of the frozen one: its copy waits for the gradient, and so do so many
    `rows` as they were put into both matrices."""
    whole = architecture.vocab_size * architecture.hidden_size
    head, copy = code.needs(tokens, architecture, whole, replace(path, trained=path.frozen)), path.frozen * whole
    kept = copy + 2 * path.frozen * rows * architecture.hidden_size
    return replace(
        head,
        forward=head.forward + kept,
        backward=head.backward + kept,
        evaluation=head.evaluation + copy,
        saved=head.saved + kept,
    )
