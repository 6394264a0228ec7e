"""Rates of a measured machine in the laws of time: interpolated, corrected by micro steps, shared by processes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from msgspec.structs import replace

from recipec.catalog.gpus import Gpu, gpu
from recipec.catalog.measured import Measured, MicroStep, Rate, measured_from, rate_at
from recipec.estimate.calibration import Calibration, calibration_of
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

    assert calibration_of(card(plain), "fp32") == Calibration(LAUNCH_SECONDS, 1.0)
    parts = [calibration._point(row, card(plain)) for row in rows]
    timed = [
        replace(row, passes_seconds=launch * part.launches + factor * part.kernels)
        for row, part in zip(rows, parts, strict=True)
    ]
    found = calibration_of(card(replace(measured, micro_steps=tuple(timed))), "fp32")
    assert (found.launch_seconds, found.kernel_factor) == (pytest.approx(launch), pytest.approx(factor))


def test_on_a_gpu_the_smallest_step_is_all_launches() -> None:
    measured = measured_from("x", SAMPLE)
    launches = 45 * 4 * 2
    found = calibration_of(card(measured), "bf16")
    assert found.launch_seconds == pytest.approx(measured.micro_steps[0].passes_seconds / launches)
    doubled = [replace(row, passes_seconds=2 * row.passes_seconds) for row in measured.micro_steps]
    slower = calibration_of(card(replace(measured, micro_steps=tuple(doubled))), "bf16")
    assert slower.kernel_factor == pytest.approx(2 * found.kernel_factor)


def on_cpu(*seconds: float) -> Gpu:
    """A CPU whose micro steps of growing size took so long."""
    steps = zip(((1, 16), (16, 64), (4, 512)), seconds, strict=False)
    rows = tuple(MicroStep("fp32", *batch, took) for batch, took in steps)
    return card(replace(measured_from("x", SAMPLE), device="cpu", micro_steps=rows))


@pytest.mark.parametrize("seconds", [(0.37,), (0.10, 0.09, 0.08), (1e-9, 2e-9, 3e-9), (1.0, 1e3, 1e5)])
def test_micro_steps_that_cannot_be_leave_the_law_as_assumed(seconds: tuple[float, ...]) -> None:
    """One size, less time for more work, and kernels far from the law's."""
    assert calibration_of(on_cpu(*seconds), "fp32") == Calibration()


def test_steps_of_one_size_do_not_tell_launches_from_kernels() -> None:
    rows = tuple(MicroStep("bf16", 2, 1024, took) for took in (0.0150, 0.0151, 0.0152))
    assert calibration_of(card(replace(measured_from("x", SAMPLE), micro_steps=rows)), "bf16") == Calibration()


def test_steps_in_one_precision_say_nothing_of_another() -> None:
    assert calibration_of(card(measured_from("x", SAMPLE)), "fp16") == Calibration()


def test_steps_that_are_all_launches_tell_nothing_of_kernels() -> None:
    measured = measured_from("x", SAMPLE)
    short = tuple(replace(row, passes_seconds=0.0071) for row in measured.micro_steps)
    found = calibration_of(card(replace(measured, micro_steps=short)), "bf16")
    assert found.launches_learned and not found.kernels_learned and found.kernel_factor == 1.0


def test_rings_run_at_the_slowest_measured_collective() -> None:
    measured = measured_from("x", SAMPLE)
    assert measured.bus_gb_s == 305
    link = link_of(card(measured), gpus_per_node=2)
    waits = 8.2e-5 * (1 - 12.79 / 305)  # of the small all-reduce what its transfer does not take
    assert transfer_seconds(61e9, Group(2), link) == pytest.approx(0.1)
    assert transfer_seconds(61e9, Group(2), link, collectives=1000) == pytest.approx(0.1 + 1000 * waits)
    assumed = link_of(card(), gpus_per_node=2)
    assert transfer_seconds(1, Group(2), assumed, collectives=1) == pytest.approx(COLLECTIVE_SECONDS + 3.4e-6, rel=1e-3)


def test_processes_of_a_cpu_share_its_rates() -> None:
    one, two = (measured_from("x", SAMPLE, shares) for shares in (1, 2))
    assert memory_rate(card(one)) == 2 * memory_rate(card(two))
    assert product_rate(card(one), "bf16", 512) == 2 * product_rate(card(two), "bf16", 512)


def test_a_collective_that_is_all_transfer_does_not_wait() -> None:
    rows = [{"mib": mib, "seconds": mib * 1e-3, "bus_gb_s": 0.5} for mib in (1, 256)]
    measured = measured_from("x", SAMPLE | {"collective": rows})
    assert measured.collective_seconds == 0.0
    link = link_of(card(measured), gpus_per_node=2)
    assert transfer_seconds(1e9, Group(2), link, collectives=1000) == pytest.approx(1.0)


def test_collectives_of_one_size_do_not_tell_how_long_one_waits() -> None:
    rows = [{"mib": 1, "seconds": 1e-3, "bus_gb_s": 0.5}]
    assert measured_from("x", SAMPLE | {"collective": rows}).collective_seconds is None


def test_the_disk_is_read_as_fast_as_it_was_measured() -> None:
    assert measured_from("x", SAMPLE).disk_read_gb_s == 2.8
