"""accelerate_yaml.py FILE: read an accelerate configuration as `accelerate launch` does; print problems as JSON.

accelerate checks top-level keys only and silently ignores what it does not know below them, so every nested key must
be an option of its launcher. The plugins are then built from the environment that the launcher would make.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from unittest import mock

import yaml
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_multi_gpu_env

PREFIXES = {"fsdp_config": "fsdp_", "dynamo_config": "dynamo_", "fp8_config": "fp8_"}
FSDP1_ONLY = ("sharding_strategy", "backward_prefetch", "forward_prefetch", "use_orig_params", "sync_module_states")
BESIDE_A_FILE = ("mixed_precision", "gradient_accumulation_steps", "gradient_clipping", "zero_stage")


def problems(path: str) -> list[str]:
    """What accelerate says against the file at `path`, or does not keep of it."""
    with open(path, encoding="utf-8") as file:
        raw = yaml.safe_load(file)
    try:
        load_config_from_file(path)
    except Exception as error:
        return [f"accelerate refuses it: {error}"]
    return [*nested(raw), *fsdp_version(raw), *deepspeed_file(raw), *launched(path)]


def nested(raw: dict) -> list[str]:
    """Keys in blocks that the launcher does not know, and values that it does not offer."""
    options = {action.dest: action for action in launch_command_parser()._actions}
    found = []
    for block, values in raw.items():
        for key, value in (values if isinstance(values, dict) else {}).items():
            prefix = PREFIXES.get(block, "")
            option = options.get(key if key.startswith(prefix) else prefix + key)
            if option is None:
                found.append(f"{block}.{key} is not an option of accelerate launch: it would be ignored")
            elif option.choices and str(value) not in map(str, option.choices):
                found.append(f"{block}.{key} is {value!r}, not one of {', '.join(map(str, option.choices))}")
    return found


def fsdp_version(raw: dict) -> list[str]:
    """The keys of an FSDP2 configuration that only FSDP1 reads."""
    block = raw.get("fsdp_config") or {}
    if block.get("fsdp_version") != 2:
        return []
    old = [f"fsdp_{name}" for name in FSDP1_ONLY if f"fsdp_{name}" in block]
    return [f"fsdp_config.{name} belongs to FSDP1 and is ignored with fsdp_version 2" for name in old]


def deepspeed_file(raw: dict) -> list[str]:
    """With a DeepSpeed file, its values must not be repeated in the YAML."""
    if "deepspeed_config_file" not in (raw.get("deepspeed_config") or {}):
        return []
    said = [name for name in BESIDE_A_FILE if name in raw or name in raw["deepspeed_config"]]
    return [f"{name} is refused beside deepspeed_config_file" for name in said]


def launched(path: str) -> list[str]:
    """Problems of the launcher's own merging, and of the plugins that a worker would build."""
    try:
        arguments, _, _ = _validate_launch_command(
            launch_command_parser().parse_args(["--config_file", path, "train.py"])
        )
        if arguments.use_fsdp:
            with mock.patch("accelerate.utils.launch.is_port_in_use", lambda *_: False):
                environment = prepare_multi_gpu_env(arguments)
            with mock.patch.dict(os.environ, environment, clear=True):
                from accelerate.utils import FullyShardedDataParallelPlugin

                FullyShardedDataParallelPlugin()
    except (Exception, SystemExit) as error:
        return [f"accelerate launch: {type(error).__name__}: {str(error)[:300]}"]
    return []


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        found = problems(sys.argv[1])
    print(json.dumps(found))
