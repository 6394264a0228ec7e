"""The configuration files that the checks look into: their keys, or what is wrong with a file, by its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recipec.bundle.state import MOST_BYTES
from recipec.files import read_regular
from recipec.verify.bundle import Bundle


class UnreadableConfiguration(ValueError):
    """A configuration file that holds no keys, or not where they are looked for: the message names it."""


def read_keys(bundle: Bundle, path: Path) -> dict[str, Any]:
    """The document in a JSON or YAML file; raises OSError and UnreadableConfiguration."""
    name = bundle.name_of(path)
    try:
        found = _parsed(read_regular(path, MOST_BYTES).decode("utf-8"), path.suffix)
    except UnicodeDecodeError as error:
        raise UnreadableConfiguration(f"{name}: it is not UTF-8 text") from error
    except RecursionError as error:
        raise UnreadableConfiguration(f"{name}: it nests too deeply") from error
    except ValueError as error:
        raise UnreadableConfiguration(f"{name}: {' '.join(str(error).split())}") from error
    if not isinstance(found, dict):
        raise UnreadableConfiguration(f"{name}: it holds no keys")
    return found


def section(name: str, found: dict[str, Any], key: str) -> dict[str, Any]:
    """The keys below `key` of the file `name`, none where it is absent; raises UnreadableConfiguration."""
    part = found.get(key)
    if part is not None and not isinstance(part, dict):
        raise UnreadableConfiguration(f"{name}: {key} holds no keys")
    return part or {}


def deepspeed_file(name: str, found: dict[str, Any]) -> str:
    """The DeepSpeed file that an accelerate configuration points to, "" for none; raises UnreadableConfiguration."""
    file = section(name, found, "deepspeed_config").get("deepspeed_config_file", "")
    if not isinstance(file, str):
        raise UnreadableConfiguration(f"{name}: deepspeed_config_file is {file}, not a path")
    return file


def _parsed(text: str, suffix: str) -> Any:
    import yaml

    try:
        return json.loads(text) if suffix == ".json" else yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"it is not YAML: {error}") from error
    except ValueError as error:
        raise ValueError(f"it is not {'JSON' if suffix == '.json' else 'YAML'}: {error}") from error
