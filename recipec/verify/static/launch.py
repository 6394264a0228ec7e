"""The launch script, read as a shell reads it: every stage starts on its nodes with its processes and devices.

Bash evaluates the script with functions in place of the programs (reader.sh): they note how they were called. Nothing
of the bundle is started; the recipe's own `launch.setup` lines are evaluated too, without any program on the path.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from recipec.verify.bundle import Bundle, BundleStage
from recipec.verify.process import run_command
from recipec.verify.report import VerifyReport
from recipec.verify.static.configurations import UnreadableConfiguration, deepspeed_file, read_keys

READER = Path(__file__).with_name("reader.sh")
_LIMIT_SECONDS = 30
_PROGRAMS = "python", "accelerate"


class ProcessStart(Struct, frozen=True):
    """One call of a program: a Python script, by itself or through accelerate."""

    program: str  # python | accelerate
    devices: tuple[str, ...]  # that it is limited to; empty: it sees all
    options: Mapping[str, str]  # of accelerate launch, without their dashes
    script: str  # relative to the bundle, as are the options that name its files
    own: bool  # the script lies in the bundle, or should


def check_launch(bundle: Bundle, report: VerifyReport) -> None:
    """Hold the script to every stage of the plan; a bundle without one is launched some other way."""
    script = bundle.launcher
    if not script or not (bundle.root / script).is_file():
        return
    if report.add(f"{script} starts every stage as planned", _told_by(launch_problems, bundle)):
        report.add(f"{script} stops where a part of it fails", _told_by(failure_problems, bundle))


def _told_by(check: Callable[[Bundle], list[str]], bundle: Bundle) -> list[str]:
    """The problems that a check finds, or what it could not read."""
    try:
        return check(bundle)
    except UnreadableConfiguration as error:
        return [str(error)]
    except (OSError, ValueError) as error:
        return [f"{bundle.launcher} cannot be read: {error}"]


def launch_problems(bundle: Bundle) -> list[str]:
    """Every difference between what the script starts on each node and the plan."""
    return [problem for node in range(bundle.machines) for problem in _problems_on(bundle, node)]


def failure_problems(bundle: Bundle) -> list[str]:
    """Programs of the first node whose failure the script passes over: it would go on, or end as if all were well.

    A line of the recipe's own setup that ends the script on this machine, before the program, proves nothing.
    """
    problems = []
    for count, start in enumerate(starts(bundle, 0, {}), start=1):
        code, found, _ = _evaluated(bundle, 0, {"RECIPEC_FAILS": str(count)})
        name = f"{start.program} {start.script}".strip()
        if len(found) > count:
            problems.append(f"it goes on with {found[count].script} when {name} has failed")
        elif len(found) == count and code == 0:
            problems.append(f"it ends without an error when {name} has failed")
    return problems


def starts(bundle: Bundle, node: int, told: Mapping[str, str]) -> list[ProcessStart]:
    """What the script starts on a node, in order; `told` are variables that a user sets."""
    return _evaluated(bundle, node, told)[1]


def _evaluated(bundle: Bundle, node: int, told: Mapping[str, str]) -> tuple[int, list[ProcessStart], str]:
    """The exit code of the script as bash evaluates it, what it starts, and the last line that it says."""
    bash, root = shutil.which("bash") or "bash", os.path.abspath(bundle.root)
    place = {"NODE_RANK": str(node), "MASTER_ADDR": "first"} if bundle.machines > 1 else {}
    with TemporaryDirectory(prefix="recipec-launch-") as folder:
        notes = Path(folder, "notes")
        notes.touch()
        environment = {"PATH": folder, "HOME": folder, "BASH_ENV": str(READER), "RECIPEC_NOTES": str(notes)}
        environment |= {"HF_TOKEN": "none", "WANDB_MODE": "offline"}
        done = run_command(
            [bash, f"{root}/{bundle.launcher}"],
            environment=environment | place | dict(told),
            folder=Path(folder),
            log=Path(os.devnull),
            errors=Path(folder, "errors"),
            limit_seconds=_LIMIT_SECONDS,
        )
        words = notes.read_text(encoding="utf-8", errors="replace").split("\0")[:-1]
        said = Path(folder, "errors").read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[-1]
    if done.code is None:
        raise ValueError(f"bash has not come to its end within {_LIMIT_SECONDS} s")
    return done.code, list(_noted(words, f"{root}/")), said.replace(f"{root}/", "")


def _noted(words: list[str], root: str) -> Iterator[ProcessStart]:
    """The calls in the notes: a count, the visible devices, then so many words."""
    while words:
        count, devices, *rest = words
        (program, *arguments), words = rest[: int(count)], rest[int(count) :]
        seen = tuple(filter(None, devices.split(",")))
        if found := _beside(arguments):
            (program, *arguments), seen = found
        options, script = _told([word.removeprefix(root) for word in arguments])
        own = f"{root}{script}" in arguments
        yield ProcessStart(program, seen, options, script, own)


def _beside(arguments: list[str]) -> tuple[list[str], tuple[str, ...]] | None:
    """The command that a script runs beside a server, and the devices that it lets it see; None for any other."""
    script, *rest = arguments or [""]
    command = next((place for place, word in enumerate(rest) if word in _PROGRAMS), None)
    if not script.endswith(".py") or command is None:
        return None
    planned = re.search(r"^TRAINING_GPUS = (\d+)$", Path(script).read_text(encoding="utf-8"), re.MULTILINE)
    told, _ = _told(rest[:command])
    count = int(told.get("training-gpus") or (planned[1] if planned else 0))
    return rest[command:], tuple(map(str, range(count)))


def _told(arguments: list[str]) -> tuple[dict[str, str], str]:
    """The options up to the script, and the script; an option without a value is empty."""
    options: dict[str, str] = {}
    name = ""
    for word in arguments:
        if word.startswith("--"):
            name, _, value = word.removeprefix("--").partition("=")
            options[name] = value
        elif word.endswith(".py"):
            return options, word
        else:
            options[name] = word
    return options, ""


def _problems_on(bundle: Bundle, node: int) -> Iterator[str]:
    code, found, said = _evaluated(bundle, node, {})
    if code:
        yield f"on node {node} it ends with exit code {code}{f': {said}' if said else ''}"
    absent = sorted({start.script for start in found if start.own and not (bundle.root / start.script).is_file()})
    yield from (f"node {node} starts {script}, which does not exist" for script in absent)
    scripts = {f"{stage.folder}train.py": stage for stage in bundle.stages}
    trained = [scripts[start.script].name for start in found if start.script in scripts]
    planned = [stage.name for stage in bundle.stages if node < _nodes(stage)]
    if trained != planned:
        yield f"node {node} trains {', '.join(trained) or 'nothing'}, planned: {', '.join(planned) or 'nothing'}"
        return
    for start in found:
        if stage := scripts.get(start.script):
            yield from (
                f"{stage.name} on node {node}: {problem}" for problem in _differences(bundle, stage, node, start)
            )


def _nodes(stage: BundleStage) -> int:
    return -(-stage.choice["world_size"] // stage.decisions["gpus_per_node"])


def _differences(bundle: Bundle, stage: BundleStage, node: int, start: ProcessStart) -> Iterator[str]:
    row = stage.spreads
    program = "accelerate" if row.distributed else "python"
    if start.program != program:
        yield f"it is started by {start.program}, planned: {program}"
    elif row.distributed:
        yield from _option_problems(stage, node, start)
        yield from _config_problems(bundle, stage, start)
    yield from _device_problems(stage, start)


def _option_problems(stage: BundleStage, node: int, start: ProcessStart) -> Iterator[str]:
    planned = {"num_machines": _nodes(stage), "machine_rank": node, "num_processes": stage.choice["world_size"]}
    if stage.spreads.groups:
        mesh = stage.choice["mesh"]
        planned |= {f"parallelism_config_dp_{name}_size": mesh[name] for name in ("shard", "replicate")}
    for name, value in planned.items():
        if start.options.get(name) != str(value):
            yield f"--{name} is {start.options.get(name)}, planned: {value}"


def _config_problems(bundle: Bundle, stage: BundleStage, start: ProcessStart) -> Iterator[str]:
    """The configuration of another stage could be for other numbers."""
    name = start.options.get("config_file", "")
    if not (bundle.root / name).is_file():
        yield f"--config_file {name} does not exist"
        return
    found = read_keys(bundle, bundle.root / name)
    planned = {"num_machines": _nodes(stage), "num_processes": stage.choice["world_size"]}
    for key, value in planned.items():
        if found.get(key) != value:
            yield f"{name} has {key} {found.get(key)}, planned: {value}"
    named = deepspeed_file(name, found)
    passed = start.options.get("deepspeed_config_file", "")
    if passed != named:
        yield f"--deepspeed_config_file is {passed or 'not given'}, {name} names {named or 'none'}"


def _device_problems(stage: BundleStage, start: ProcessStart) -> Iterator[str]:
    """One process must see one GPU: of more, the trainer would make one wrapped model."""
    needed = -(-stage.choice["world_size"] // _nodes(stage))
    alone = not stage.spreads.distributed
    if alone and stage.decisions["gpu"] != "cpu" and len(start.devices) != 1:
        yield f"it sees {len(start.devices) or 'all'} devices, planned: 1"
    elif start.devices and len(start.devices) < needed:
        yield f"it sees {len(start.devices)} devices of a node, planned: {needed}"
