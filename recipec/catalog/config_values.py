"""Values of a transformers config.json, each as it must be, or a clear refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recipec.catalog.type_row import Key


class UnsupportedConfig(Exception):
    """A configuration that does not give an exact architecture: the reason, and the keys that would be needed."""

    def __init__(self, reason: str, missing: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.missing = missing


class UnbuiltType(UnsupportedConfig):
    """A configuration of a type that is known and not built: the shape of no other model stands for it."""

    def __init__(self, model_type: str, why: str) -> None:
        super().__init__(f"model_type '{model_type}' is not built: {why}")
        self.model_type = model_type


def flag(config: Mapping[str, Any], wanted: bool | Key) -> bool:
    """A switch; what is no key is given by the class."""
    return wanted if isinstance(wanted, bool) else bool(config.get(wanted.name, wanted.default))


def count(config: Mapping[str, Any], key: str) -> int:
    """A number that may be 0."""
    return 0 if config[key] == 0 and config[key] is not False else integer(config, key)


def share(config: Mapping[str, Any], key: str) -> float:
    """A number from 0 to below 1; 0 where there is none."""
    value = config.get(key) or 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise UnsupportedConfig(f"{key} is {value!r}, not a number from 0 to below 1")
    return float(value)


def integer(config: Mapping[str, Any], key: str) -> int:
    """A positive whole number."""
    value = config[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UnsupportedConfig(f"{key} is {value!r}, not a positive whole number")
    return value
