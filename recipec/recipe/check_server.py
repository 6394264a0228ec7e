"""A copy of the weights that writes answers: where a server has GPUs for it, and keys that say something of none."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.axes import METHODS, methods_of
from recipec.axes.answering import ENGINE
from recipec.axes.generators import GENERATORS, TRANSFORMERS, VLLM, VLLM_SERVER, Generator
from recipec.diagnostics.model import Diagnostic
from recipec.recipe.clashes import TASK
from recipec.recipe.document import Written
from recipec.rules.combinations_online import ONE_NODE

_ENGINE = ("alignment", *ENGINE.key.split("."))
_OF_SERVERS = tuple(dict.fromkeys(own.key for method in METHODS.values() for own in method.serves))
_OF_COPIES = tuple(dict.fromkeys(own.key for method in METHODS.values() for own in method.splits))


def said_of_no_server(written: Written) -> Iterator[Diagnostic]:
    """GPUs of a server mean nothing where the answers are written on the GPUs that train."""
    if not _serves(written):
        label = "the answers are written on the GPUs that train"
        yield from _said_of_another(written, _OF_SERVERS, VLLM_SERVER, "without a server", label)


def said_of_no_copy(written: Written) -> Iterator[Diagnostic]:
    """GPUs that share a copy of the weights beside the training mean nothing where no copy is there."""
    row = GENERATORS.get(str(written.get(*_ENGINE)), TRANSFORMERS)
    if len(row.splits) == 1:
        named = f'without `engine = "{VLLM.name}"`'
        yield from _said_of_another(written, _OF_COPIES, VLLM, named, "no copy of the weights on the GPUs that train")


def _said_of_another(
    written: Written, keys: tuple[str, ...], engine: Generator, without: str, label: str
) -> Iterator[Diagnostic]:
    """Keys of one engine where another writes. That what runs has no such key is told of the key itself."""
    rows = methods_of(written.get(*TASK), written.method)
    able = [row for row in rows if written.has("data", row.section)] or rows
    known = {own.key for row in able for own in row.keys}
    for path in (("alignment", *key.split(".")) for key in keys if key in known):
        if written.has(*path):
            named = f"`{'.'.join(path)}`"
            help = (f'add `{".".join(_ENGINE)} = "{engine.name}"`', f"or remove {named}")
            yield Diagnostic("E0401", f"{named} {without}", (written.label(path, label),), help)


def no_gpus_to_serve(written: Written) -> Iterator[Diagnostic]:
    """A server takes GPUs of the one node that trains, and leaves one at least."""
    if not _serves(written):
        return
    nodes, gpus = (written.get("hardware", key) or 1 for key in ("nodes", "gpus_per_node"))
    wanted = max(written.get("alignment", *key.split(".")) or 1 for key in _OF_SERVERS)
    label, instead = written.label(_ENGINE, "runs on GPUs of its own"), f'or use `engine = "{VLLM.name}"`'
    if isinstance(nodes, int) and nodes > 1:
        where = written.label(("hardware", "nodes"), "of these nodes")
        shared = f'use `engine = "{VLLM.name}"`: the GPUs of a node that train can share one copy of its weights'
        alone = "or use `hardware.nodes = 1`, the node on which the launch script starts the server"
        help = (shared, f"{alone}; `recipec plan` tells the time and cost of either")
        title = "a server of answers beside a training on several nodes"
        yield Diagnostic("E0401", title, (where, label), help, (ONE_NODE,))
    elif isinstance(gpus, int) and isinstance(wanted, int) and gpus <= wanted:
        path = ("hardware", "gpus_per_node" if written.has("hardware", "gpus_per_node") else "gpu")
        where = written.label(path, f"{gpus} in all" if gpus > 1 else "one GPU")
        help = (f"set `hardware.gpus_per_node = {wanted + 1}` or more", f"{instead}, which shares the GPUs that train")
        title = f"a server of answers takes {wanted} of {gpus} GPUs, and none is left to train"
        yield Diagnostic("E0401", title, (where, label), help)


def _serves(written: Written) -> bool:
    row = GENERATORS.get(str(written.get(*_ENGINE)))
    return row is not None and row.beside
