"""What a stage takes beside its training steps: data, weights, evaluations, saves, and scoring before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from recipec.axes.models import TEACHER
from recipec.catalog.architecture import Architecture
from recipec.catalog.measured import Measured
from recipec.estimate.step import step_of
from recipec.estimate.storage import TEXT_BYTES
from recipec.estimate.workload import Workload
from recipec.layout import Layout
from recipec.units import counted, duration, gib


class RunPart(Struct, frozen=True):
    """One line of the bill of a stage."""

    name: str
    seconds: float
    because: str

    @property
    def told_seconds(self) -> float:
        """Seconds as the plan and README.md tell them: with four significant digits, the same on every machine."""
        return float(f"{self.seconds:.4g}")


class Rates(Struct, frozen=True):
    """What the machine around the GPUs does; where nobody measured it, what is usual."""

    # Published: 0.1 (text-generation-webui #6143), 0.13 (swift-huggingface PR 4), 0.36 (torchforge PR 164) and 0.7 GB/s
    # (transformers PR 37902); read 2026-11.
    hub_bytes_per_second: float = 0.3e9
    # Checkpoints, published: 0.13 (NeMo Automodel PR 3125), 0.2 (pytorch #104081), 0.24 (torchtitan #1301), 3.5 (NeMo
    # Automodel PR 635) and 6.4 GB/s (awsome-distributed-ai PR 1225); weights are read at 0.45 (ServerlessLLM #193) to
    # 5 GB/s (transformers PR 37902); read 2026-11.
    written_bytes_per_second: float = 1e9
    read_bytes_per_second: float = 1e9
    # CPU seconds of prepare_data.py: 1,176 for 1,000,000 rows of 2.1 kB, 96 and 54 for 30,000 rows of 6.3 and 2.0 kB,
    # of which 12 are its start (`python -m benchmarks.preparation`, 2026-11; a token is 4.2 bytes).
    seconds_per_row: float = 0.5e-3
    seconds_per_token: float = 1.4e-6
    # of these in one process, however many there are: splits, what is held out, writing (60,000 rows of 4.6 kB;
    # 1,000,000 of 2.1 kB in two processes leave room for 1.9e-4; 2026-11)
    alone_seconds_per_row: float = 1.2e-4
    # `load_dataset("json")` of the prepared rows, in one process (datasets 5.2, 2026-11)
    json_bytes_per_second: float = 0.32e9
    # Imports of torch, transformers and TRL: 7 CPU seconds from a warm local disk (measured 2026-11), and the first
    # touch of a device. From a network disk torch alone takes 20 (stas00/ml-engineering, storage).
    start_seconds: float = 15.0
    measured: frozenset[str] = frozenset()  # which of them somebody measured

    def told(self, name: str) -> str:
        """A rate for people: "an assumed 1 GB/s"."""
        found = f"{getattr(self, name) / 1e9:.3g} GB/s"
        return f"a measured {found}" if name in self.measured else f"an assumed {found}"


def rates_of(measured: Measured | None) -> Rates:
    """What is usual, with what was measured in its place."""
    if measured is None:
        return Rates()
    found = {
        "written_bytes_per_second": (measured.disk_write_gb_s, 1e9),
        "read_bytes_per_second": (measured.disk_read_gb_s, 1e9),
        "start_seconds": (measured.start_seconds, 1.0),
    }
    known = {name: unit * value for name, (value, unit) in found.items() if value is not None}
    return Rates(**known, measured=frozenset(known))


class Rows(Struct, frozen=True):
    """The rows of a stage."""

    count: int
    tokens_each: float
    evaluated: int  # that an evaluation during training reads at most
    tested: int  # that evaluate.py reads at most
    read: int  # that prepare_data.py looks at, to keep `count` of them or fewer
    apart: int = 0  # that many more than the data have rows: answers of conversations, which become rows


PREPARATION, DOWNLOAD, TOKENIZATION = "data preparation", "download", "tokenization"
EVALUATIONS, SCORING = "evaluations", "scoring"
GENERATION, TRAINING = "generation", "training steps"  # what optimizer steps consist of
WORTH_A_WORD = 60.0  # seconds
ROWS_PER_PROCESS = 5_000  # of prepare_data.py: fewer are not worth another process


def preparation(rows: Rows, cores: int, rates: Rates, *, starts: bool = True, of_hub: bool = False) -> RunPart:
    """prepare_data.py: its processes read, convert and count tokens; it starts once for all stages.

    How large the files of the Hub are is not known here: Parquet takes a third of its text, or all of it.
    """
    processes = max(1, min(cores, rows.read // ROWS_PER_PROCESS))
    alone = rows.read * rates.alone_seconds_per_row
    busy = rows.read * (rates.seconds_per_row + rows.tokens_each * rates.seconds_per_token) - alone
    in_one = f", {duration(alone)} of it in one" * (alone >= WORTH_A_WORD)
    several = f" in {processes} processes{in_one}" * (processes > 1)
    there = f"{rows.read - rows.apart:,}"
    told = f"makes {rows.read:,} rows of {there}" if rows.apart else f"reads {there} rows"
    because = f"prepare_data.py {told}{several}" + "; their download from the Hub is not counted" * of_hub
    return RunPart(PREPARATION, rates.start_seconds * starts + alone + busy / processes, because)


def download(size_bytes: int, rates: Rates) -> RunPart:
    """The weights that come from the Hub."""
    because = f"{gib(size_bytes)} from the Hub at {rates.told('hub_bytes_per_second')}, once"
    return RunPart(DOWNLOAD, size_bytes / rates.hub_bytes_per_second, because)


def text_part(stored_bytes: int, weights_bytes: int, rates: Rates) -> RunPart:
    """text_part.py reads a checkpoint with a vision tower and writes its language model."""
    seconds = rates.start_seconds + _read(stored_bytes, rates) + written_seconds(weights_bytes, rates)
    return RunPart("text part", seconds, f"{gib(weights_bytes)} taken out of a checkpoint of {gib(stored_bytes)}, once")


def extended(weights_bytes: int, rates: Rates) -> RunPart:
    """vocabulary.py reads the model and writes it with rows for new tokens."""
    seconds = rates.start_seconds + _read(weights_bytes, rates) + written_seconds(weights_bytes, rates)
    return RunPart("new tokens", seconds, f"{gib(weights_bytes)} read and written with rows for new tokens, once")


def packed(weights_bytes: int, packed_bytes: int, rates: Rates) -> RunPart:
    """quantize.py reads the model and writes it in few bits; its products with a table take less than reading."""
    seconds = rates.start_seconds + _read(weights_bytes, rates) + written_seconds(packed_bytes, rates)
    return RunPart("quantization", seconds, f"{gib(weights_bytes)} read and written as {gib(packed_bytes)}, once")


def loading(weights_bytes: int, saved_bytes: int, rates: Rates, made: bool = False) -> RunPart:
    """train.py until its first step: imports, weights that the ranks of a node share, and a save that is tried.

    Random weights are `made`: taken to last as long as reading as many.
    """
    how = f"makes {gib(weights_bytes)} of random weights" if made else f"reads {gib(weights_bytes)} of weights"
    because = f"train.py starts, {how} and tries a save"
    seconds = rates.start_seconds + _read(weights_bytes, rates) + written_seconds(saved_bytes, rates)
    return RunPart("loading", seconds, because)


def tokenization(rows: Rows, processes: int, rates: Rates, token_bytes: int) -> RunPart:
    """The trainer's own pass over the rows before its first step; other ranks wait for the first.

    One process reads them first. Then `token_bytes` of a token are written into the cache of `datasets`, which takes
    longer than computing them where many processes share one disk.
    """
    because = f"the trainer, in {processes} processes" if processes > 1 else "the trainer, in one process"
    tokens = rows.count * rows.tokens_each
    reading = tokens * TEXT_BYTES / rates.json_bytes_per_second
    because += f", after {duration(reading)} in which one reads them" * (reading >= WORTH_A_WORD)
    written = round(tokens * token_bytes)
    computing, writing = tokens * rates.seconds_per_token / processes, written_seconds(written, rates)
    if writing > computing:
        because += f", which writes {gib(written)} at {rates.told('written_bytes_per_second')}"
    return RunPart(TOKENIZATION, reading + max(computing, writing), because)


def reference(seconds: float) -> RunPart:
    """The reference of DPO and KTO, where it scores all rows once."""
    return RunPart("reference", seconds, "it scores all rows once, before the first step")


def fisher(rows: int, row_seconds: float) -> RunPart:
    """Which weights matter, before the first step: rows one at a time, at the pace that training has for a row."""
    because = f"{rows:,} general rows, forward and backward, one at a time, at least as long as in training"
    return RunPart("Fisher information", rows * row_seconds, because)


def generation(seconds: float, answers: int, steps: int, tokens: int, unknown: Sequence[str], writer: str) -> RunPart:
    """Answers that the model writes itself: `answers` of them, from which `steps` learn, until all steps have learned.

    How long they get is open, as is the time of what is `unknown`.
    `writer` says what writes them in place of the model that learns; "" where nothing does.
    """
    every = f"every {steps:,} steps" if steps > 1 else "each step"
    because = f"{answers:,} answers for {every}, as long as they may be, {tokens:,} tokens"
    because += f"; {writer}" * bool(writer)
    because += f"; the time of your {' and '.join(unknown)} is not known and not counted" * bool(unknown)
    return RunPart(GENERATION, seconds, because)


def training(steps: int, seconds: float, seconds_per_step: float) -> RunPart:
    """The optimizer steps."""
    return RunPart(TRAINING, seconds, f"{counted(steps, 'step')} of {duration(seconds_per_step)}")


def evaluations(times: int, rows: Rows, seconds_each: float) -> RunPart:
    """The evaluations during training; one of them is before the first step."""
    because = f"{counted(times, 'evaluation')} of {counted(rows.evaluated, 'row')}, {duration(seconds_each)} each"
    return RunPart(EVALUATIONS, times * seconds_each, because)


def checkpoints(times: int, each_bytes: int, rates: Rates) -> RunPart:
    """Checkpoints are written while the devices wait."""
    each = written_seconds(each_bytes, rates)
    at = rates.told("written_bytes_per_second")
    because = f"{counted(times, 'checkpoint')} of {gib(each_bytes)}, {duration(each)} each at {at}"
    return RunPart("checkpoints", times * each, because)


def failures(expected: float, interval_seconds: float, gpus: int, weights_bytes: int, rates: Rates) -> RunPart:
    """What failures repeat: each half of the steps between two checkpoints, and a start from the last one, or anew."""
    each = interval_seconds / 2 + rates.start_seconds + _read(weights_bytes, rates)
    because = f"{expected:.2g} expected on {gpus:,} GPUs (Llama 3: one in 50,700 GPU hours), each repeats"
    return RunPart("failures", expected * each, f"{because} {duration(each)}")


def result(export_bytes: int, reloaded_bytes: int, merged_bytes: int, rates: Rates) -> RunPart:
    """The best checkpoint is read, the result saved; an adapter that is merged reads and writes the base."""
    merging = rates.start_seconds + _moved(merged_bytes, rates) if merged_bytes else 0.0
    merged = f", and merged into {gib(merged_bytes)}" if merged_bytes else ""
    at = rates.told("written_bytes_per_second")
    because = f"{gib(export_bytes)} saved at {at}{merged}; no checkpoint is written: a run that is cut off begins anew"
    if reloaded_bytes:
        read = f"{gib(reloaded_bytes)} of the best checkpoint loaded, unless it is the last"
        because = f"{read}, {gib(export_bytes)} saved{merged}"
    seconds = _read(reloaded_bytes, rates) + written_seconds(export_bytes, rates) + merging
    return RunPart("the result", seconds, because)


def scoring(times: int, rows: Rows, seconds_each: float, weights_bytes: int, rates: Rates) -> RunPart:
    """evaluate.py before and after training, and of the merged model where there is one."""
    each = rates.start_seconds + _read(weights_bytes, rates) + seconds_each
    return RunPart(
        SCORING, times * each, f"evaluate.py, {counted(times, 'time')}: {counted(rows.tested, 'row')} each time"
    )


def forward_share(architecture: Architecture, layout: Layout, work: Workload, terms: Mapping[str, float]) -> float:
    """The part of a training step that an evaluation repeats: its forward passes, without backward or recomputation.

    A teacher has no other: of the `terms` of a step, what it takes is repeated as it is.
    """
    scored, taught = step_of(architecture, layout, work).fixed.scored, terms.get(TEACHER, 0.0)
    backward = 2.0 if layout.adapts.trains_all else 1.0
    again = layout.recomputed_share(architecture.num_layers)
    share = (1 + scored) / (1 + scored + backward + again)
    return (share * terms["compute"] + taught) / (terms["compute"] + taught)


def written_seconds(size_bytes: int, rates: Rates) -> float:
    """How long so much takes to be written: training waits for a checkpoint."""
    return size_bytes / rates.written_bytes_per_second


def _read(size_bytes: int, rates: Rates) -> float:
    return size_bytes / rates.read_bytes_per_second


def _moved(size_bytes: int, rates: Rates) -> float:
    """Read and written."""
    return _read(size_bytes, rates) + written_seconds(size_bytes, rates)
