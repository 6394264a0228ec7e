"""The stand-in for a recipe's model: tiny and random, of the same class, where the loaders look for the real one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from recipec.catalog.configs import UnsupportedConfig
from recipec.catalog.local import local_model
from recipec.catalog.models import Model, model
from recipec.verify.bundle import Bundle
from recipec.verify.stand_in_config import EXPRESSIVE_RANGE, stand_in_config
from recipec.verify.stand_in_tokenizer import stand_in_tokenizer

SEED = 0
WEIGHTS = "model.safetensors"
_COMMIT = "0" * 40


class NoStandIn(Exception):
    """Nothing says which architecture the recipe's model has."""


def write_stand_in(
    known: Model, texts: Iterable[str], folder: Path, template: str | None, spread: float = EXPRESSIVE_RANGE
) -> str:
    """Save a stand-in of `known` with a tokenizer trained on `texts` into `folder`; returns what it is.

    `spread` is the standard deviation of its random weights.
    """
    with silence():
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM
    tokenizer = stand_in_tokenizer(known, texts, template)
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")}
    config = stand_in_config(known.architecture, len(tokenizer), spread, **ids)
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        network = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config), dtype=torch.bfloat16)
    with silence():
        network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    shape = known.architecture
    count = f"{network.num_parameters():,}"
    return f"a random {shape.model_type} of {count} parameters with the same {shape.decoder_layer} structure"


@contextmanager
def silence() -> Iterator[None]:
    """Keep what the libraries print while they load and save out of the answers of a command."""
    with StringIO() as unread, redirect_stdout(unread), redirect_stderr(unread):
        yield


def hub_folder(cache: Path, name: str, revision: str | None) -> Path:
    """The folder in a hub cache where loaders find model `name`; a full commit hash as revision is kept as such."""
    entry = cache / f"models--{name.replace('/', '--')}"
    commit = revision if revision and len(revision) == len(_COMMIT) else _COMMIT
    for reference in {"main", revision or "main"} - {commit}:
        path = entry / "refs" / reference
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(commit, encoding="utf-8")
    folder = entry / "snapshots" / commit
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def known_model(bundle: Bundle, folder: Path | None) -> Model:
    """What is known about the recipe's model: the catalog, or config.json in `folder`; raises NoStandIn."""
    facts = bundle.stages[0].decisions
    if folder is not None:
        try:
            return local_model(folder)
        except UnsupportedConfig as error:
            raise NoStandIn(f"{folder / 'config.json'}: {error}") from error
    for name in (facts["model"], facts.get("like")):
        if name and (found := model(name)):
            return found
    raise NoStandIn(f"`{facts['model']}` is not in the catalog, and the plan does not say what it is like")
