"""Whether models find room on the GPUs of a node with whole layers on each, as transformers spreads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recipec.catalog.architecture import Architecture

# transformers 5.23, integrations/accelerate.py `get_balanced_memory`: a GPU takes its share and so many times the
# largest module, so that whole layers find room; the last one takes all that is left.
ABOVE_SHARE = 1.25
# Of each GPU's room, where bitsandbytes packs the weights: quantizers/quantizer_bnb_4bit.py, `adjust_max_memory`.
ROOM_TO_PACK = 0.9


def modules_of(architecture: Architecture, held_bytes: int, bytes_each: int) -> list[float]:
    """The bytes of what stays whole, in order: the embeddings with all that is small beside them, layers, the head.

    Outside the layers every parameter has `bytes_each`; the layers have the rest of `held_bytes`, packed or not.
    """
    layers = [architecture.layer_params(architecture.kind(layer)) for layer in range(architecture.num_layers)]
    head = 0 if architecture.tie_embeddings else architecture.vocab_size * architecture.hidden_size
    first = architecture.params - sum(layers) - head
    each = (held_bytes - bytes_each * (first + head)) / sum(layers)
    return [bytes_each * float(first), *(each * layer for layer in layers), bytes_each * float(head)]


def find_room(models: Sequence[Sequence[float]], rooms: Sequence[float], usable: float = 1.0) -> bool:
    """Whether the modules of one model after the other fit the GPUs' rooms in bytes; the first model fills only the
    share `usable` of each."""
    left = list(rooms)
    for model in models:
        limits = list(_limits(model, [max(0.0, usable * room) for room in left], usable))
        taken = _placed(model, limits)
        if taken is None:
            return False
        left, usable = [room - size for room, size in zip(left, taken, strict=True)], 1.0
    return True


def _limits(model: Sequence[float], rooms: Sequence[float], usable: float) -> Iterator[float]:
    """What each GPU may take: `get_balanced_memory`."""
    share = sum(model) / len(rooms) + ABOVE_SHARE * max(model)
    for room in rooms[:-1]:
        yield min(room, usable * share)
    yield rooms[-1]


def _placed(model: Sequence[float], limits: Sequence[float]) -> list[float] | None:
    """What each GPU takes, one module behind the other; None where they do not find room.

    `infer_auto_device_map` goes on to the next GPU with the first module that does not fit, and keeps room on the
    first for the largest of the modules behind, which could have to be put back from host memory.
    """
    taken, gpu = [0.0] * len(limits), 0
    for place, module in enumerate(model):
        while gpu < len(limits):
            kept = max(model[place + 1 :], default=0.0) if gpu == 0 else 0.0
            if taken[gpu] + module <= limits[gpu] - kept:
                break
            gpu += 1
        else:
            return None
        taken[gpu] += module
    return taken
