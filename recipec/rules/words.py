"""Phrases that several places share, and the names of the steps of data size and GPU memory."""

from __future__ import annotations

from collections.abc import Sequence

from recipec.units import gib


def run_of(label: str, method: str, stages: Sequence[str]) -> str:
    """Of what the seconds and the cost of a stage are: of the whole run where it is the only one."""
    return f"stage {label}" if len(stages) > 1 or label != method else "the whole run"


def device(gpu_is_cpu: bool) -> str:
    """What one of a recipe's devices is called: "device" on a CPU, else "GPU"."""
    return "device" if gpu_is_cpu else "GPU"


def waiting(share: float, ways_out: Sequence[str]) -> str:
    """The share of a step in exposed communication, and what would shorten it; "" where it would read 0%."""
    if share < 0.005:
        return ""
    waits = f"{100 * share:.0f}% of a step is exposed communication (not hidden by computation)"
    return "; ".join([waits, *ways_out])


def evaluation(where: str, weights_bytes: int, batch_bytes: int, of_reserve_bytes: int, gpus: int, noun: str) -> str:
    """What evaluate.py needs of the GPUs of a node, by where the weights are (recipec.estimate.evaluation)."""
    if where == "whole":
        shared = f"; each of the {gpus} {noun}s of a node scores a share of the rows" if gpus > 1 else ""
        reserve = f", {gib(of_reserve_bytes)} of it from what training leaves free" * (of_reserve_bytes > 0)
        return f"{gib(weights_bytes + batch_bytes)} per {noun}{reserve}{shared}"
    held, node = gib(weights_bytes), f"{gpus} {noun}s" if gpus > 1 else noun
    if where == "spread":
        return f"{held} of weights, spread over the {node} of a node, and {gib(batch_bytes)} on each for a batch"
    needed = f"{held} of weights, and {gib(batch_bytes)} on each for a batch"
    return f"{needed}, more than the {node} of a node can hold: layers wait in host memory, slowly"


def data_size(examples: int) -> str:
    """Name the row of rule book 001, "Decision tree: data size for instruction tuning", for a number of training rows.

    The book leaves the edges open. A row holds its lower edge, except that "> 100K" is strict: 1,000 is "1K-10K",
    10,000 and 100,000 are "10K-100K".
    """
    if examples < 1_000:
        return "<1K"
    if examples < 10_000:
        return "1K-10K"
    return "10K-100K" if examples <= 100_000 else ">100K"


def gpu_memory(total_vram_gb: float, gpu_is_cpu: bool) -> str:
    """Name the branch of rule book 001, "Decision tree: available compute", for the memory of all GPUs.

    The memory is in GB as makers name it: a T4 has 16, of which a driver reports 14.6 GiB. A branch holds its lower
    edge, except that "> 160 GB" is strict: 16 is "16-48", 48 and 160 are "48-160".
    """
    if gpu_is_cpu:
        return "cpu"
    if total_vram_gb < 16:
        return "<16"
    if total_vram_gb < 48:
        return "16-48"
    return "48-160" if total_vram_gb <= 160 else ">160"
