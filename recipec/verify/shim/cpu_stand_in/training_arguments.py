"""transformers.TrainingArguments: the device, and arguments that this machine needs changed."""

from __future__ import annotations

import sys
from pathlib import Path


def number_formats(module, value):
    """bf16 and TF32 are accepted without a GPU: bf16 is then computed on the CPU, TF32 is not used at all."""
    module.is_torch_bf16_gpu_available = lambda: True
    module.is_torch_tf32_available = lambda: True
    module.enable_tf32 = lambda on: None


def arguments(module, values):
    """Set arguments to these values before they are checked.

    use_cpu is set here and never through ACCELERATE_USE_CPU, which silently turns a DeepSpeed run into DDP.
    """
    _before_checks(module, lambda given: {name: value for name, value in values.items() if hasattr(given, name)})


def script_arguments(module, scripts):
    """Set arguments to values of one script's own: {its path in the bundle: {argument: value}}."""

    def own(given):
        running = Path(sys.argv[0]).resolve().as_posix()
        return next((values for path, values in scripts.items() if running.endswith(f"/{path}")), {})

    _before_checks(module, own)


def limits(module, values):
    """Lower arguments that are above these values."""

    def lowered(given):
        return {name: most for name, most in values.items() if (getattr(given, name, None) or 0) > most}

    _before_checks(module, lowered)


def _before_checks(module, changes):
    """Apply what `changes` returns for the given arguments before they are checked."""
    check = module.TrainingArguments.__post_init__

    def __post_init__(self):
        for name, value in changes(self).items():
            setattr(self, name, value)
        check(self)

    module.TrainingArguments.__post_init__ = __post_init__


_MODULE = "transformers.training_args"
PATCHES = {
    "number-formats": (_MODULE, number_formats),
    "arguments": (_MODULE, arguments),
    "script-arguments": (_MODULE, script_arguments),
    "limits": (_MODULE, limits),
}
