"""The run level: execute the bundle through its own launch script and look at what really happened."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recipec.axes import STRATEGIES
from recipec.verify.bundle import Bundle
from recipec.verify.extensions import drop_stale_locks
from recipec.verify.outcome_checks import check_outcome
from recipec.verify.process import Outcome
from recipec.verify.report import VerifyReport
from recipec.verify.sandbox import Sandbox, extensions_folder
from recipec.verify.substitutions import Situation, merged, substitutions

LAUNCHER = "launch/local.sh"
LIMIT_SECONDS = 300.0
COMPILING_SECONDS = 600.0  # the first DeepSpeed run compiles operators: up to 150 s each on two cores
ROWS = 160


@dataclass(frozen=True, slots=True)
class Launch:
    """One way of starting the bundle: the shim's patches, and how many processes."""

    sandbox: Sandbox
    patches: Mapping[str, Any]
    ranks: int
    steps: int

    def start(self, name: str, script: str, *arguments: str, **patches: Any) -> Outcome:
        """Run a launch script of the copy with further patches; `_` in their names stands for `-`."""
        extra = {patch.replace("_", "-"): value for patch, value in patches.items()}
        environment = self.sandbox.environment(merged([self.patches, extra]), self.ranks // self.machines)
        command = ["bash", script, *arguments]
        if self.machines == 1:
            return self.sandbox.run(name, command, environment, self.limit_seconds)
        return self._on_all(name, command, environment)

    def _on_all(self, name: str, command: list[str], environment: Mapping[str, str]) -> Outcome:
        """Every machine of the bundle is a process here; the outcome is the first one's, or of one that failed."""

        def on(machine: int) -> Outcome:
            place = {"NODE_RANK": str(machine), "MASTER_ADDR": "127.0.0.1", "NNODES": str(self.machines)}
            own = f"{name}-{machine}" if machine else name
            return self.sandbox.run(own, command, environment | place, self.limit_seconds)

        with ThreadPoolExecutor() as pool:
            outcomes = list(pool.map(on, range(self.machines)))
        return next((outcome for outcome in outcomes if not outcome.ok), outcomes[0])

    @property
    def machines(self) -> int:
        """Two where the bundle is for several."""
        return min(2, self.sandbox.bundle.machines)

    @property
    def limit_seconds(self) -> float:
        """Far above what a run takes on two cores."""
        deepspeed = any(stage.choice["strategy"].startswith("zero") for stage in self.sandbox.bundle.stages)
        return LIMIT_SECONDS + (COMPILING_SECONDS if deepspeed else 0.0)


def ranks_for(bundle: Bundle, asked: int | None) -> int:
    """Processes of a run here: the plan's, but at most `asked` (2; 4 for two groups of shards)."""
    planned = max(stage.choice["world_size"] for stage in bundle.stages)
    copies = any(STRATEGIES[stage.choice["strategy"]].groups for stage in bundle.stages)
    return max(1, min(planned, asked or (4 if copies else 2)))


def prepare_launch(sandbox: Sandbox, ranks: int, learns: bool, report: VerifyReport) -> Launch:
    """Decide the substitutions of a run and list them in the report."""
    situation = Situation(sandbox.bundle, ranks, learns, sandbox.model, sandbox.data, sandbox.hub_data)
    listed, patches = substitutions(situation)
    report.substitutions.extend(listed)
    return Launch(sandbox, patches, ranks, situation.steps)


def run_bundle(launch: Launch, report: VerifyReport, **patches: Any) -> bool:
    """Execute the whole bundle and check what it left; whether it ran to its end."""
    drop_stale_locks(extensions_folder())
    started = time.monotonic()
    outcome = launch.start("run", LAUNCHER, "--max-steps", str(launch.steps), **patches)
    if not outcome.ok and _died_in_teardown(launch, outcome):
        shutil.rmtree(launch.sandbox.outputs, ignore_errors=True)
        outcome = launch.start("run-again", LAUNCHER, "--max-steps", str(launch.steps), **patches)
        report.skip("a second launch was needed", "the first had saved its result and died while its processes ended")
    report.metrics["run_seconds"] = round(time.monotonic() - started, 1)
    script = "prepare, evaluate, train, evaluate"
    if report.add("launch/local.sh runs to its end", "" if outcome.ok else outcome.tail(), script):
        check_outcome(launch.sandbox, launch.ranks, outcome, report)
    return outcome.ok


def _died_in_teardown(launch: Launch, outcome: Outcome) -> bool:
    """Whether a training of several processes had finished its work: facts told, peak printed, weights saved."""
    text = outcome.text()
    finished = "facts:" in text and "GiB allocated" in text and _saved(launch.sandbox)
    return launch.ranks > 1 and outcome.code is not None and finished


def _saved(sandbox: Sandbox) -> bool:
    folder: Path = sandbox.outputs / sandbox.bundle.last.name
    return any(folder.glob("*.safetensors"))
