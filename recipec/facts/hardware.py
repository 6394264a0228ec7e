"""The hardware that a recipe names: a GPU of the catalog, any GPU with so much memory, or the CPU."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from recipec.catalog.gpus import Gpu, gpu, gpu_from_vram, nearest_gpus, others_meant, several
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.facts.fact import known, short_name, stated
from recipec.facts.node import node_facts
from recipec.layout import Machines
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision
from recipec.units import counted

DEFAULT_CPU_MEMORY_GIB = 16.0  # a common laptop or CI machine; hardware.host_memory_gib states the real one


def look_up_gpu(loaded: LoadedRecipe, report: Report) -> Gpu | None:
    """The device; None with a diagnostic when it is not known."""
    hardware = loaded.recipe.hardware
    if hardware.vram_gib is not None:
        return gpu_from_vram(hardware.vram_gib)
    if hardware.gpu == "cpu":
        return _cpu(hardware.host_memory_gib, hardware.gpus_per_node or 1)
    found = gpu(hardware.gpu)
    if found is None and (refused := _no_gpu(hardware.gpu or "")):
        title, said, *help = refused
        label = Label(loaded.place("hardware", "gpu", part="value"), said)
        report.add(Diagnostic("E0302", title, (label,), tuple(help)))
    elif found is None:
        label = Label(loaded.place("hardware", "gpu", part="value"), "not in the catalog")
        report.add(Diagnostic("E0302", f"unknown GPU `{hardware.gpu}`", (label,), _known_gpus(hardware.gpu)))
    elif others := others_meant(hardware.gpu, found):
        report.add(short_name(loaded, ("hardware", "gpu"), found.name, others))
    return found


_OTHERS = {
    "tpu": "TPUs",
    "xla": "TPUs",
    "trn": "Trainium chips",
    "trainium": "Trainium chips",
    "gaudi": "Gaudi accelerators",
    "hpu": "Gaudi accelerators",
    "npu": "NPUs",
    "ascend": "Ascend NPUs",
    "xpu": "GPUs of Intel",
    "mps": "GPUs of Apple",
    "metal": "GPUs of Apple",
    "apple": "GPUs of Apple",
}
_DEVICES = ("cuda", "gpu", "nvidia", "rocm", "hip", "amd", "auto")  # names that say what kind of device, not which
_NAME_ONE = (
    'name the GPU of the machine that trains, for example `gpu = "rtx-4090"`: `nvidia-smi -L` or `rocm-smi` shows its '
    "name there, `recipec list gpus` has the names of the catalog"
)


def _no_gpu(name: str) -> tuple[str, ...]:
    """The title, label and help for a name that is a kind of device or no GPU; () for another name."""
    device, _, number = name.lower().partition(":")
    if device in _DEVICES or (device == "cpu" and number):
        title = (
            f'`hardware.gpu = "{name:.40}"` does not say which GPU' if device != "cpu" else f"unknown GPU `{name:.40}`"
        )
        help = (_NAME_ONE, 'or the CPU: `gpu = "cpu"`') if device != "cpu" else ('set `gpu = "cpu"`',)
        return (title, "a kind of device", *help)
    others = next((others for start, others in _OTHERS.items() if name.lower().startswith(start)), "")
    cpu = 'or the CPU: `gpu = "cpu"`'
    return (f"{others} are not supported", "no GPU", _NAME_ONE, cpu) if others else ()


_BY_MEMORY = (
    "any other GPU: remove `gpu` and write the memory of one card in GiB, for example `vram_gib = 24`; recipec then "
    "plans with low rates"
)


def _known_gpus(name: str) -> tuple[str, ...]:
    """What to write for a GPU that the catalog does not have, or that is named with its number."""
    if counted_gpu := several(name):
        number, one = counted_gpu
        return (f'set `gpu = "{one.name}"` and `gpus_per_node = {number}`',)
    near = nearest_gpus(name)
    similar = (f"similar names in the catalog: {', '.join(near)}",) if near else ()
    return *similar, _BY_MEMORY


def _cpu(host_memory_gib: float | None, processes: int) -> Gpu:
    """The CPU as a device, for demos and small models: each process has its part of the memory."""
    memory_gib = (host_memory_gib or DEFAULT_CPU_MEMORY_GIB) / processes
    return Gpu(
        name="cpu",
        vendor="cpu",
        kind="cpu",
        memory_gib=memory_gib,
        memory_gb=memory_gib * 2**30 / 1e9,
        memory_note="as stated in the recipe, or a common machine",
        bandwidth_gb_s=20.0,
        fp16_tflops=0.8,
        link="pcie",
        link_gb_s=16.0,
        bf16=False,
        flash_attention=False,
        source="assumption: 2 to 4 cores with AVX, 0.1 TFLOP/s in fp32 (the estimates take an eighth of the fp16 rate)",
    )


def without_effect(loaded: LoadedRecipe) -> Iterator[Diagnostic]:
    """Yield the keys about what connects GPUs, or nodes, where there is one (W0513)."""
    hardware = loaded.recipe.hardware
    nodes, gpus = hardware.nodes or 1, hardware.gpus_per_node or 1
    for key, count, counter, noun in (
        ("network_gbps", nodes, "nodes", "node"),
        ("gpu_link", gpus, "gpus_per_node", "GPU"),
    ):
        if loaded.is_set("hardware", key) and count == 1:
            stated_one = loaded.is_set("hardware", counter)
            counted_at = loaded.place("hardware", counter) if stated_one else loaded.place("hardware", part="key")
            one = Label(counted_at, f"one {noun}" + " (default)" * (not stated_one))
            label = Label(loaded.place("hardware", key, part="key"), f"used with two {noun}s or more")
            help = (f"remove `{key}`, or set `{counter} = N`",)
            yield Diagnostic("W0513", f"`hardware.{key}` has no effect with one {noun}", (label, one), help)


def on_machines_of(loaded: LoadedRecipe, gpu: Gpu, per_node: int) -> Gpu:
    """The device where a node has so many: processes on a CPU share its memory."""
    return _cpu(loaded.recipe.hardware.host_memory_gib, per_node) if gpu.kind == "cpu" and not gpu.measured else gpu


def hardware_facts(loaded: LoadedRecipe, gpu: Gpu, machines: Machines) -> list[Decision]:
    """The facts about the hardware that rules use: that of the recipe, or what an advice would have instead."""
    hardware, per_node, nodes, gpus = loaded.recipe.hardware, machines.gpus_per_node, machines.nodes, machines.gpus
    source = f"{gpu.source} (checked {gpu.checked})" if gpu.checked else gpu.source
    key = "gpu" if hardware.gpu is not None else "vram_gib"
    return [
        stated(loaded, "gpu", gpu.name, "hardware", key),
        stated(loaded, "gpus_per_node", per_node, "hardware", "gpus_per_node", absent="one GPU"),
        stated(loaded, "nodes", nodes, "hardware", "nodes", absent="one node"),
        known("gpus", gpus, _gpus(nodes, per_node), "nodes", "gpus_per_node"),
        *node_facts(loaded, gpu, machines),
        _device_memory(loaded, gpu, source),
        known("total_vram_gb", gpu.memory_gb * gpus, _memory(gpu, gpus), "gpu", "vram_gib", "gpus"),
        known("gpu_bf16", gpu.bf16, f"{gpu.name} {'has' if gpu.bf16 else 'has no'} bf16 units", "gpu", source=source),
        known("gpu_int8", gpu.int8, f"{gpu.name} {_INT8[gpu.int8]}", "gpu", source=source),
        known("gpu_varlen", gpu.varlen, f"{gpu.name} {_VARLEN[gpu.varlen]}", "gpu", source=source),
        *_fp8(loaded, gpu, source),
        known("gpu_cuda", gpu.pypi_kernels, _cuda(gpu), "gpu"),
        known("gpu_is_cpu", gpu.kind == "cpu", f"the device is a {gpu.name}", "gpu"),
        _cores(loaded, gpu, per_node),
        *_measured(loaded, gpu),
    ]


_INT8 = {True: "is not known to lack 8-bit matrix units", False: "has no 8-bit matrix units"}
_VARLEN = {True: "has PyTorch's variable-length kernel", False: "is not known to have PyTorch's variable-length kernel"}


def _fp8(loaded: LoadedRecipe, gpu: Gpu, source: str) -> list[Decision]:
    """Whether it trains with FP8, where the recipe asks for that."""
    if not loaded.is_set("train", "fp8"):
        return []
    has = "has" if gpu.fp8 else "is not known to have"
    return [known("gpu_fp8", gpu.fp8, f"{gpu.name} {has} the FP8 units that torchao trains with", "gpu", source=source)]


def _cores(loaded: LoadedRecipe, gpu: Gpu, per_node: int) -> Decision:
    """Cores of the CPU for each GPU, as the recipe says or as they were counted."""
    stated_ones, counted_ones = loaded.recipe.hardware.cpu_cores, gpu.measured.cores if gpu.measured else None
    cores = stated_ones or counted_ones
    absent, origin = ("", "default") if gpu.measured is None else (gpu.measured.label, "measured")
    share = cores and cores // per_node
    fact = stated(loaded, "cores_per_gpu", share, "hardware", "cpu_cores", absent=absent, origin=origin)
    return replace(fact, inputs=("gpus_per_node",))


def _measured(loaded: LoadedRecipe, gpu: Gpu) -> list[Decision]:
    """Which machine was measured, and when; nothing where rates are assumed."""
    return [stated(loaded, "measured", gpu.measured.label, "hardware", "measured")] if gpu.measured else []


def _device_memory(loaded: LoadedRecipe, gpu: Gpu, source: str) -> Decision:
    """Memory of one device; that of a CPU is the host's, which its processes share."""
    if gpu.kind != "cpu":
        return known("vram_gib", gpu.memory_gib, _memory_of(gpu), "gpu", source=source)
    found = stated(loaded, "vram_gib", gpu.memory_gib, "hardware", "host_memory_gib", absent=_memory_of(gpu))
    return replace(found, inputs=("gpu", "gpus_per_node"), source=source)


def _memory_of(gpu: Gpu) -> str:
    """Whose memory it is, and whether it was measured."""
    label = gpu.measured.label if gpu.measured else ""
    return f"memory of a {gpu.name}" + (f", {label}" if gpu.memory_note == label else "")


def _gpus(nodes: int, per_node: int) -> str:
    """How many GPUs the nodes have together, in words where there is one node."""
    each = counted(per_node, "GPU")
    return f"{each} in each of {nodes} nodes" if nodes > 1 else f"{each} in one node"


def _memory(gpu: Gpu, gpus: int) -> str:
    """What all GPUs have together, as their makers count it."""
    each = f"{gpu.memory_gb:.4g} GB"
    return f"{gpus} GPUs of {each}" if gpus > 1 else f"one GPU has {each}"


def _cuda(gpu: Gpu) -> str:
    """Whose packages are for it."""
    if gpu.vendor == "nvidia" and not gpu.pypi_kernels:
        return f"{gpu.name} has compute capability {gpu.capability}, and packages on PyPI have kernels from 7.5 on"
    return f"{gpu.name} is a device of {gpu.vendor}"
