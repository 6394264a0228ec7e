"""What `recipec init` proposes and why, and what it refuses: from the data, the machine and the catalog."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_DRIVER = Path("/proc/driver/nvidia/gpus")  # one folder per GPU while the NVIDIA driver is loaded
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")

Given = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Proposal:
    """An answer and the reason for it, "" when the user gave it."""

    value: str
    because: str


def data(folder: Path, given: Given) -> Proposal | None:
    """Nobody can guess where the data is."""
    return None


def refused_data(answer: str) -> str:
    """Why the files cannot be used: not there, unreadable, or of no known format."""
    from recipec.dataset import UnknownFormat, Unreadable

    try:
        answer.encode()
        look(answer)
    except UnicodeEncodeError:
        return "a recipe can only name files whose names are UTF-8"
    except (Unreadable, UnknownFormat, OSError, ValueError) as error:
        return str(error)
    return ""


def look(pattern: str) -> tuple[str, str]:
    """The format of the data and the evidence for it; "" when its kind of file cannot be looked at."""
    from recipec.dataset import files_of, read_sample, recognise

    files = files_of(pattern, Path())
    if not files:
        raise ValueError(f"no file `{pattern}`")
    sample = read_sample(files, pattern)
    if sample is None:
        return "", "a .parquet file is not looked at"
    where = [f"{sample.file}:{line}" for line in sample.lines]
    shape = recognise(sample.rows, None, {}, where)
    return shape.format, shape.evidence


def task(folder: Path, given: Given) -> Proposal:
    """The task that the format of the data is for."""
    format, evidence = look(given["data"]) if "data" in given else ("", "most recipes teach to answer")
    tasks = {"preference": "align", "text": "continue-pretrain"}
    return Proposal(tasks.get(format, "instruct"), f"{format or 'unknown'} data: {evidence}")


def gpu(folder: Path, given: Given) -> Proposal | None:
    """The GPU of this machine, where the catalog has it."""
    from recipec.catalog.gpus import gpu as catalog_gpu

    found = [catalog_gpu(model) for model in _devices()]
    return Proposal(found[0].name, "found in this machine") if found and found[0] else None


def _devices() -> list[str]:
    """The names of the NVIDIA GPUs in this machine, as the driver tells them."""
    texts = [path.read_text(errors="replace") for path in sorted(_DRIVER.glob("*/information"))]
    models = [re.search(r"^Model:\s*(.+?)\s*$", text, re.MULTILINE) for text in texts]
    return [model[1] for model in models if model]


def refused_gpu(answer: str) -> str:
    """A name that the catalog does not have."""
    from recipec.catalog.gpus import gpu as catalog_gpu
    from recipec.catalog.gpus import nearest_gpus

    if answer == "cpu" or catalog_gpu(answer):
        return ""
    near = ", ".join(nearest_gpus(answer))
    return f"no GPU `{answer}` in the catalog; near it: {near}" if near else f"no GPU `{answer}` in the catalog"


def gpus(folder: Path, given: Given) -> Proposal:
    """As many as this machine has of the GPU in question, else one."""
    here = gpu(folder, given)
    if here and here.value == given.get("gpu"):
        return Proposal(str(min(8, len(_devices()))), "as many as this machine has")
    return Proposal("1", "one is enough to begin with")


def refused_gpus(answer: str) -> str:
    """Anything but 1 to 8."""
    return "" if re.fullmatch("[1-8]", answer) else "a machine has 1 to 8 GPUs"


def model(folder: Path, given: Given) -> Proposal:
    """The compiler's own choice."""
    return Proposal("auto", "chosen for the task, the data and the GPU; `recipec plan` says which, and why")


def refused_line(answer: str) -> str:
    """What cannot stand in one line of a recipe."""
    return "" if answer.strip() and answer.isprintable() else "this is not a line of text"


def name(folder: Path, given: Given) -> Proposal:
    """The folder's own name, in the letters that a recipe's name may have."""
    cleaned = re.sub(r"[^a-z0-9._-]+", "-", folder.absolute().name.lower()).strip("-._")[:63]
    if _NAME.fullmatch(cleaned):
        return Proposal(cleaned, "the name of the folder")
    return Proposal("my-model", "any name will do")


def refused_name(answer: str) -> str:
    """What the recipe language does not take as a name."""
    fine = _NAME.fullmatch(answer)
    return (
        "" if fine else "a name has up to 63 of a-z, 0-9, dot, dash and underscore, and begins with a letter or digit"
    )
