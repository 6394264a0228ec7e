"""A model outside the catalog whose config.json lies in the local cache of the Hugging Face Hub."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec.structs import replace

from recipec.catalog.local import local_model
from recipec.catalog.models import Model


def cached_model(name: str, revision: str | None) -> Model | None:
    """The model `name` of the Hub as the cache has it; None where it has none. Raises UnsupportedConfig.

    The layout of the cache is that of huggingface_hub: models--ORG--NAME/refs/REVISION names a folder of snapshots.
    """
    commit = cached_folder(name, revision)
    if commit is None or not (commit / "config.json").is_file():
        return None
    source = f"config.json of commit {commit.name[:12]} in the cache of the Hugging Face Hub"
    return replace(local_model(commit), name=name, source=source)


def cached_folder(name: str, revision: str | None) -> Path | None:
    """Where the cache has the files of a model; None where it has none."""
    return _commit(_cache() / f"models--{name.replace('/', '--')}", revision or "main")


def _commit(entry: Path, revision: str) -> Path | None:
    """The folder of a revision: a commit by its hash, or what a branch or tag was when it was downloaded."""
    reference = entry / "refs" / revision
    commit = reference.read_text(encoding="utf-8").strip() if reference.is_file() else revision
    folder = entry / "snapshots" / commit
    return folder if folder.is_dir() else None


def _cache() -> Path:
    """Where the Hub's library keeps models: HF_HUB_CACHE, else `hub` in HF_HOME, else in ~/.cache/huggingface."""
    home = Path(os.environ.get("HF_HOME") or "~/.cache/huggingface").expanduser()
    return Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
