"""A server that writes answers: where there are GPUs for it, and keys that say something of none."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.axes import METHODS
from recipec.axes.answering import ENGINE
from recipec.axes.generators import GENERATORS, VLLM, VLLM_SERVER
from recipec.diagnostics.model import Diagnostic
from recipec.recipe.document import Written

_ENGINE = ("alignment", *ENGINE.key.split("."))
_OF_SERVERS = tuple(dict.fromkeys(own.key for method in METHODS.values() for own in method.serves))


def said_of_no_server(written: Written) -> Iterator[Diagnostic]:
    """GPUs of a server mean nothing where the answers are written on the GPUs that train.

    That a method has no server at all is told of the key itself.
    """
    method = METHODS.get(str(written.get("alignment", "method")))
    if _serves(written) or (method is not None and not method.serves):
        return
    for path in (("alignment", *key.split(".")) for key in _OF_SERVERS):
        if written.has(*path):
            named = f"`{'.'.join(path)}`"
            help = (f'add `{".".join(_ENGINE)} = "{VLLM_SERVER.name}"`', f"or remove {named}")
            label = written.label(path, "the answers are written on the GPUs that train")
            yield Diagnostic("E0401", f"{named} without a server", (label,), help)


def no_gpus_to_serve(written: Written) -> Iterator[Diagnostic]:
    """A server takes GPUs of the one node that trains, and leaves one at least."""
    if not _serves(written):
        return
    nodes, gpus = (written.get("hardware", key) or 1 for key in ("nodes", "gpus_per_node"))
    wanted = max(written.get("alignment", *key.split(".")) or 1 for key in _OF_SERVERS)
    label, instead = written.label(_ENGINE, "runs on GPUs of its own"), f'or use `engine = "{VLLM.name}"`'
    if isinstance(nodes, int) and nodes > 1:
        where = written.label(("hardware", "nodes"), "of these nodes")
        help = ("the launch script starts the server on the node of the training: use `hardware.nodes = 1`", instead)
        yield Diagnostic("E0401", "a server of answers beside a training on several nodes", (where, label), help)
    elif isinstance(gpus, int) and isinstance(wanted, int) and gpus <= wanted:
        path = ("hardware", "gpus_per_node" if written.has("hardware", "gpus_per_node") else "gpu")
        where = written.label(path, f"{gpus} in all" if gpus > 1 else "one GPU")
        help = (f"set `hardware.gpus_per_node = {wanted + 1}` or more", f"{instead}, which shares the GPUs that train")
        title = f"a server of answers takes {wanted} of {gpus} GPUs, and none is left to train"
        yield Diagnostic("E0401", title, (where, label), help)


def _serves(written: Written) -> bool:
    row = GENERATORS.get(str(written.get(*_ENGINE)))
    return row is not None and row.beside
