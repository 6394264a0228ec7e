"""evaluate.py merged of methods whose gain no loss shows: a merge that throws it back stops the launch."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from compiling import BASES, good, texts, with_key

pytestmark = pytest.mark.executes
GAINS: dict[str, tuple[str, float | None, float, float]] = {  # base -> metric; before and after training, after a loss
    "dpo-full": ("reward_margin", None, 2.4, 0.02),
    "kto": ("gain_auc", None, 0.81, 0.5),
    "simpo": ("preference_accuracy", 0.5, 0.8, 0.52),
    "grpo": ("mean_reward", 0.2, 0.6, 0.22),
    "tools": ("mean_reward", 0.2, 0.9, 0.22),
    "ppo": ("mean_reward", 0.2, 0.6, 0.22),
    "on-policy-distill": ("divergence", 0.9, 0.3, 0.88),
}
NAMES = ("WHENS", "MERGE_MAY_COST")  # what the function reads
LOSSES = dict.fromkeys(("prompt_loss", "chosen_loss", "desirable_loss"), 2.0)  # which stay as they are


def comparing(folder: Path, base: str) -> Callable[[dict[str, Any], str], None]:
    """The emitted function; the rest of the file is not run."""
    bundle = texts(good(folder, with_key(BASES[base], "train", {"adaptation": "lora"})))
    tree = ast.parse(bundle["evaluate.py"])
    wanted = [part for part in tree.body if getattr(part, "name", "") == "compare"]
    wanted += [part for part in tree.body if isinstance(part, ast.Assign) and part.targets[0].id in NAMES]
    names: dict[str, Any] = {"PartialState": lambda: SimpleNamespace(print=print)}
    exec(compile(ast.Module(wanted, []), "evaluate.py", "exec"), names)
    return names["compare"]


@pytest.mark.parametrize("base", GAINS)
def test_a_merge_that_loses_the_gain_of_a_method_stops_the_launch(tmp_path: Path, base: str) -> None:
    compare, (name, before, after, lost) = comparing(tmp_path, base), GAINS[base]

    def metrics(value: float | None) -> dict[str, float]:
        return LOSSES | {"mean_reward_error": 0.05} | ({} if value is None else {name: value})

    known = {"before": metrics(before), "after": metrics(after)}
    compare(known | {"merged": metrics(after)}, "merged")
    compare(known | {"merged": metrics(after + 0.1 * (lost - after))}, "merged")
    with pytest.raises(SystemExit, match=f"Of what training gained in {name}"):
        compare(known | {"merged": metrics(lost)}, "merged")


@pytest.mark.parametrize("base", GAINS)
def test_what_chance_may_change_stops_nothing(tmp_path: Path, base: str) -> None:
    """After a first look of few steps, that is all there is; and without a baseline nothing is known of a gain."""
    compare, (name, before, _, _) = comparing(tmp_path, base), GAINS[base]
    start = before if before is not None else {"reward_margin": 0.0, "gain_auc": 0.5}[name]
    more = LOSSES | {"mean_reward_error": 0.05}
    known = {"after": more | {name: start + 0.02}, "merged": more | {name: start - 0.02}}
    compare(known, "merged")
    compare({"before": more | ({name: start} if before is not None else {}), **known}, "merged")
