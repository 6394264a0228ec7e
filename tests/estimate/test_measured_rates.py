"""Rates of a measured machine in the laws of time: interpolated, corrected by micro steps, shared by processes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from msgspec.structs import replace

from recipec.catalog.gpus import Gpu, gpu
from recipec.catalog.measured import Measured, MicroStep, Rate, measured_from, rate_at
from recipec.estimate.calibration import calibration_of
from recipec.estimate.kernels import LAUNCH_SECONDS, memory_rate, product_rate
from recipec.estimate.links import COLLECTIVE_SECONDS, Group, link_of, transfer_seconds

SAMPLE = tomllib.loads((Path(__file__).parents[1] / "facts" / "h100-pair.toml").read_text())
RATES = (Rate("bf16", 64, 10.0), Rate("bf16", 1024, 50.0), Rate("fp32", 64, 1.0))


def card(measured: Measured | None = None) -> Gpu:
    found = gpu("h100")
    assert found is not None
    return replace(found, measured=measured)


@pytest.mark.parametrize(
    ("tokens", "tflops"), [(32, 5), (64, 10), (256, 30), (1024, 50), (10**6, 50)]
)  # 256 is half way between the logarithms of 64 and 1024
def test_rates_lie_between_the_measured_ones(tokens: int, tflops: float) -> None:
    assert rate_at(RATES, "bf16", tokens) == pytest.approx(tflops * 1e12)


def test_a_type_that_was_not_measured_keeps_its_assumed_rate() -> None:
    assert rate_at(RATES, "fp16", 64) is None
    only = replace(measured_from("x", SAMPLE), products=RATES)
    assert product_rate(card(only), "fp16", 512) == product_rate(card(), "fp16", 512)
    assert product_rate(card(only), "bf16", 1024) == 50e12 != product_rate(card(), "bf16", 1024)


@pytest.mark.parametrize(("launch", "factor"), [(30e-6, 0.8), (12e-6, 1.4)])
def test_micro_steps_give_back_what_they_were_made_of(launch: float, factor: float) -> None:
    """On a CPU, where launches and kernels add up."""
    measured = replace(measured_from("x", SAMPLE), device="cpu")
    plain = replace(measured, micro_steps=())
    rows = [MicroStep("fp32", 1, 16, 1.0), MicroStep("fp32", 16, 64, 1.0), MicroStep("fp32", 4, 512, 1.0)]
    from recipec.estimate import calibration

    assert calibration_of(card(plain)).kernel_factor == 1.0
    assert calibration_of(card(plain)).launch_seconds == LAUNCH_SECONDS
    parts = [calibration._point(row, card(plain)) for row in rows]
    timed = [
        replace(row, passes_seconds=launch * part.launches + factor * part.kernels)
        for row, part in zip(rows, parts, strict=True)
    ]
    found = calibration_of(card(replace(measured, micro_steps=tuple(timed))))
    assert (found.launch_seconds, found.kernel_factor) == (pytest.approx(launch), pytest.approx(factor))


def test_on_a_gpu_the_smallest_step_is_all_launches() -> None:
    measured = measured_from("x", SAMPLE)
    launches = 45 * 4 * 2
    found = calibration_of(card(measured))
    assert found.launch_seconds == pytest.approx(measured.micro_steps[0].passes_seconds / launches)
    doubled = [replace(row, passes_seconds=2 * row.passes_seconds) for row in measured.micro_steps]
    slower = calibration_of(card(replace(measured, micro_steps=tuple(doubled))))
    assert slower.kernel_factor == pytest.approx(2 * found.kernel_factor)


def test_rings_run_at_the_slowest_measured_collective() -> None:
    measured = measured_from("x", SAMPLE)
    assert measured.bus_gb_s == 305
    link = link_of(card(measured), gpus_per_node=2)
    assert transfer_seconds(61e9, Group(2), link) == pytest.approx(0.1)
    assert transfer_seconds(61e9, Group(2), link, collectives=1000) == pytest.approx(0.1 + 1000 * 8.2e-5)
    assumed = link_of(card(), gpus_per_node=2)
    assert transfer_seconds(1, Group(2), assumed, collectives=1) == pytest.approx(COLLECTIVE_SECONDS + 3.4e-6, rel=1e-3)


def test_processes_of_a_cpu_share_its_rates() -> None:
    one, two = (measured_from("x", SAMPLE, shares) for shares in (1, 2))
    assert memory_rate(card(one)) == 2 * memory_rate(card(two))
    assert product_rate(card(one), "bf16", 512) == 2 * product_rate(card(two), "bf16", 512)
