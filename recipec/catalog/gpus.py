"""GPUs by name: memory, dense matrix rates and links."""

from __future__ import annotations

import re
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import Struct

from recipec.catalog.lookup import entries_with, names_in, nearest
from recipec.catalog.measured import Measured

_FOLDER = Path(__file__).parent / "gpus"
_ANY = ""  # every file of the catalog
_MAKERS = re.compile(r"^((nvidia|amd|geforce|tesla|quadro|instinct)-)+")


class Gpu(Struct, frozen=True):
    """One device as the framework sees it (a half of an MI250X); what is not known is None."""

    name: str
    vendor: str  # nvidia | amd
    kind: str  # consumer | workstation | datacentre
    memory_gib: float  # what the driver reports in all, the lowest figure found
    memory_gb: float  # what the data sheet says
    memory_note: str  # where memory_gib comes from
    bandwidth_gb_s: float
    fp16_tflops: float  # dense matrix rate with fp32 accumulation, in 10^12 operations per second
    link: str  # pcie | nvlink | infinity-fabric: to the other devices of the node
    link_gb_s: float  # per device and direction, peak
    bf16: bool
    flash_attention: bool  # has FlashAttention-2 kernels
    bf16_tflops: float | None = None  # likewise; None without bf16 matrix units
    capability: float | None = None  # CUDA compute capability
    aliases: tuple[str, ...] = ()
    source: str = ""
    checked: date | None = None
    unverified: tuple[str, ...] = ()  # fields that were not looked up when the file was checked
    measured: Measured | None = None  # where the recipe names a file of `recipec probe`

    @property
    def int8(self) -> bool:
        """Whether it may have 8-bit matrix units: NVIDIA GPUs from 7.5 on (bitsandbytes 0.50, installation)."""
        return self.capability is None or self.capability >= 7.5

    @property
    def varlen(self) -> bool:
        """Whether it has PyTorch's variable-length kernel, which is shown for NVIDIA's from an A100 on."""
        return self.vendor == "nvidia" and self.flash_attention

    @property
    def fp8(self) -> bool:
        """Whether torchao trains with FP8 on it: NVIDIA GPUs from 9.0 on (torchao 0.18, float8 training)."""
        return self.vendor == "nvidia" and (self.capability or 0.0) >= 9.0


def gpu(name: str) -> Gpu | None:
    """The GPU called `name`, or by an alias; None if unknown.

    Case, blanks, hyphens and the maker's name do not matter: "RTX 4090", "rtx4090".
    """
    wanted = _plain(name)
    for entry in chain(entries_with(_FOLDER, wanted), entries_with(_FOLDER, _ANY)):
        if wanted.replace("-", "") in [called.replace("-", "") for called in _called(entry)]:
            lists = {key: tuple(entry.get(key, ())) for key in ("aliases", "unverified")}
            return Gpu(**{**entry, **lists})
    return None


def others_meant(name: str, taken: Gpu) -> tuple[str, ...]:
    """The other GPUs that a name could mean which leaves a part out, as "A100" does; none for a full name."""
    wanted = _plain(name)
    if wanted == taken.name:
        return ()
    entries = [entry for entry in entries_with(_FOLDER, _ANY) if entry["name"] != taken.name]
    return tuple(entry["name"] for entry in entries if any(part.startswith(f"{wanted}-") for part in _called(entry)))


_COUNTED = re.compile(r"\s*(?:(\d+)\s*x\s*(.+)|(.+?)\s*x\s*(\d+))\s*", re.IGNORECASE)  # "4x A100", "A100 x 4"


def several(name: str) -> tuple[int, Gpu] | None:
    """How many of which GPU a name such as "4x A100 80GB" means; None for other names."""
    found = _COUNTED.fullmatch(name)
    one = gpu(found[2] or found[3]) if found else None
    return (int(found[1] or found[4]), one) if found and one else None


def nearest_gpus(name: str) -> list[str]:
    """The names of up to three GPUs that are called something like `name`, aliases included; best first."""
    names = {called: entry["name"] for entry in entries_with(_FOLDER, _ANY) for called in _called(entry)}
    return list(dict.fromkeys(names[called] for called in nearest(_plain(name), names)))


def _plain(name: str) -> str:
    return _MAKERS.sub("", re.sub(r"[\s_-]+", "-", name.strip().lower()))


def _called(entry: dict[str, Any]) -> tuple[str, ...]:
    return (entry["name"], *entry["aliases"])


def gpu_names() -> tuple[str, ...]:
    """All GPU names of the catalog, sorted, without aliases."""
    return names_in(_FOLDER)


def gpu_from_vram(vram_gib: float) -> Gpu:
    """A generic card with `vram_gib` GiB, taken as stated, and rates that make times pessimistic rather than wrong.

    Assumed: the matrix rate of an A10G, the bandwidth of an L4, PCIe 3.0 x16, bf16 but no FlashAttention-2.
    """
    return Gpu(
        name=f"vram-{vram_gib:g}gib",
        vendor="nvidia",
        kind="consumer",
        memory_gib=float(vram_gib),
        memory_gb=vram_gib * 2**30 / 1e9,
        memory_note="as stated in the recipe",
        bandwidth_gb_s=300.0,
        bf16_tflops=70.0,
        fp16_tflops=70.0,
        link="pcie",
        link_gb_s=16.0,
        bf16=True,
        flash_attention=False,
        source="assumption: the matrix rate of an A10G, the bandwidth of an L4, PCIe 3.0 x16",
    )
