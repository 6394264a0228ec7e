"""Models and data sets: kernels that a CPU lacks, and data that is not at hand."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace


def attention(module, replacement):
    """A model that is asked for a flash kernel, by its loader or its configuration, uses `replacement`."""
    network = module.PreTrainedModel
    check = network._check_and_adjust_attn_implementation

    def _check_and_adjust_attn_implementation(self, asked, *args, **kwargs):
        return check(self, replacement if "flash" in str(asked) else asked, *args, **kwargs)

    network._check_and_adjust_attn_implementation = _check_and_adjust_attn_implementation


def hub_data(module, files):
    """A split of a data set of the Hub is read from a local file: {"name subset split": path of a .jsonl file}."""
    load, build = module.load_dataset, module.load_dataset_builder

    def load_dataset(path, name=None, *args, split=None, **kwargs):
        if (key := f"{path} {name} {split}") in files:
            return load("json", data_files=files[key], split="train", streaming=kwargs.get("streaming", False))
        return load(path, name, *args, split=split, **kwargs)

    def load_dataset_builder(path, name=None, **kwargs):
        if any(key.startswith(f"{path} {name} ") for key in files):
            return SimpleNamespace(hash="that of a stand-in")
        return build(path, name, **kwargs)

    module.load_dataset = sys.modules["datasets"].load_dataset = load_dataset
    module.load_dataset_builder = sys.modules["datasets"].load_dataset_builder = load_dataset_builder


def four_bit_kernel(module, value):
    """4-bit layers keep one weight format.

    Where the CPU has AVX512-BF16, bitsandbytes 0.50 packs them at the first evaluation and leaves them so: the
    training that follows is cut from the graph, and a layer with a bias raises.
    """
    module.has_avx512bf16 = lambda: False


def rounded_products(module, value):
    """8-bit layers multiply integers in training too.

    bitsandbytes 0.50 dequantizes the weights there on a CPU, because that is faster, and rounds no input.
    """
    module.MatMul8bitFp = module.MatMul8bitLt


def unpinned_activations(module, value):
    """Activations that wait on the host do so in plain memory: pinning needs an accelerator."""
    save = module.save_on_cpu
    module.save_on_cpu = lambda pin_memory, device_type: save(pin_memory=False, device_type=device_type)


def planned_parameters(module, scripts):
    """How many parameters train, of the stand-in's size: {path of a script in the bundle: how many}."""
    folder = Path(sys.argv[0]).resolve().parent.as_posix()
    for path, count in scripts.items():
        if f"{folder}/".endswith(f"/{path}".removesuffix("train.py")):
            module.PLANNED["trainable_parameters"] = count


def planned_shape(module, value):
    """The sizes that a stand-in has are not compared with those of the plan, where preflight.py does that."""
    module.PLANNED.pop("shape", None)


PATCHES = {
    "planned-shape": ("preflight", planned_shape),
    "planned-parameters": ("preflight", planned_parameters),
    "unpinned-activations": ("transformers.modeling_utils", unpinned_activations),
    "four-bit-kernel": ("bitsandbytes.nn.modules", four_bit_kernel),
    "rounded-products": ("bitsandbytes.autograd._functions", rounded_products),
    "attention": ("transformers.modeling_utils", attention),
    "hub-data": ("datasets.load", hub_data),
}
