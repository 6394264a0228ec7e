"""Keys that say the same thing in two ways, of which a recipe writes one."""

from __future__ import annotations

from typing import Any

AUTO = "auto"  # model.name: chosen from the catalog
STEERING = (("model", "family"), ("model", "licences"), ("model", "max_params_billion"))  # what only `auto` reads
NAMED_ONLY = (("model", "like"), ("model", "revision"), ("model", "trust_remote_code"))  # what `auto` has no use for

ADAPTED = ("sft", "dpo", "continue-pretrain")  # stages that may train adapters instead of all weights
STAGES = (*ADAPTED, "pretrain")

EXCLUSIVE: tuple[tuple[tuple[str, ...], ...], ...] = (
    (("hardware", "gpu"), ("hardware", "vram_gib")),
    (("data", "eval"), ("data", "eval_fraction")),
    (("data", "test"), ("data", "test_fraction")),
    (("data", "split", "stratify"), ("data", "split", "group"), ("data", "split", "time")),
    (("train", "epochs"), ("train", "max_steps")),
    *((("train", stage, "epochs"), ("train", stage, "max_steps")) for stage in STAGES),
)


def rivals(path: tuple[str | int, ...], value: Any = None) -> list[tuple[str, ...]]:
    """Return the keys that the key at `path` excludes; what model.name excludes depends on its value."""
    if path == ("model", "name"):
        return list(NAMED_ONLY if value == AUTO else STEERING)
    return [key for group in EXCLUSIVE if path in group for key in group if key != path]
