"""GPUs by name: memory, dense matrix rates and links."""

from __future__ import annotations

import re
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import Struct

from recipec.catalog.lookup import entries_with, names_in, nearest
from recipec.catalog.machines import PCIE_GB_S, UNKNOWN_PCIE
from recipec.catalog.measured import Measured

_FOLDER = Path(__file__).parent / "gpus"
_ANY = ""  # every file of the catalog
PCIE, NVLINK, FABRIC = LINKS = "pcie", "nvlink", "infinity-fabric"
BRIDGED = 2  # GPUs that an NVLink bridge joins
_MAKERS = re.compile(r"^((nvidia|amd|geforce|tesla|quadro|instinct)-)+")


class Gpu(Struct, frozen=True):
    """One device as the framework sees it (a half of an MI250X); what is not known is None."""

    name: str
    vendor: str  # nvidia | amd | cpu
    kind: str  # consumer | workstation | datacentre | cpu
    memory_gib: float  # what the driver reports in all, the lowest figure found
    memory_gb: float  # what the data sheet says
    memory_note: str  # where memory_gib comes from
    bandwidth_gb_s: float
    fp16_tflops: float  # dense matrix rate with fp32 accumulation, in 10^12 operations per second
    link: str  # of LINKS: to the other devices of the node
    link_gb_s: float  # per device and direction, peak
    bf16: bool
    flash_attention: bool  # has FlashAttention-2 kernels
    bf16_tflops: float | None = None  # likewise; None without bf16 matrix units
    capability: float | None = None  # CUDA compute capability
    bridge_gb_s: float | None = None  # of an NVLink bridge, per direction; None: it takes none, or has NVLink anyway
    bridge_source: str = ""
    aliases: tuple[str, ...] = ()
    source: str = ""
    checked: date | None = None
    unverified: tuple[str, ...] = ()  # fields that were not looked up when the file was checked
    measured: Measured | None = None  # where the recipe names a file of `recipec probe`

    @property
    def links(self) -> tuple[str, ...]:
        """Of LINKS, what may lie between such devices: anything where only the memory of a card is known."""
        if self.vendor != "cpu" and not self.checked:
            return LINKS
        return tuple({self.link: 0, PCIE: 0} | ({NVLINK: 0} if self.bridge_gb_s else {}))

    @property
    def pypi_kernels(self) -> bool:
        """Whether the CUDA packages on PyPI have kernels for it, as far as is known: NVIDIA GPUs from 7.5 on (torch
        2.13 cuda/__init__.py, PYTORCH_RELEASES_CODE_CC: of its builds only that for CUDA 12.6 has older ones)."""
        return self.vendor == "nvidia" and (self.capability is None or self.capability >= 7.5)

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

    Case, blanks, hyphens and the maker's name do not matter, nor words that the catalog has once for the GPU:
    "RTX 4090", "rtx4090", "NVIDIA L40S-48GB PCIe", "RTX PRO 6000 Blackwell Workstation Edition".
    """
    wanted = _plain(name)
    return _named(wanted) or _without_details(wanted)


def _named(wanted: str) -> Gpu | None:
    """The GPU with this very name or alias, but for hyphens."""
    for entry in chain(entries_with(_FOLDER, wanted), entries_with(_FOLDER, _ANY)):
        if wanted.replace("-", "") in [called.replace("-", "") for called in _called(entry)]:
            lists = {key: tuple(entry.get(key, ())) for key in ("aliases", "unverified")}
            return Gpu(**{**entry, **lists})
    return None


_MARKETED = ("gpu", "graphics", "card", "tensor", "core", "generation", "gen", "blackwell", "edition")
_MARKETED += ("workstation", "server")
_SIZE = re.compile(r"(\d+)gb?")
_FORMS = {
    "pcie": "pcie",
    "oam": "infinity-fabric",
    **dict.fromkeys(("sxm", *(f"sxm{n}" for n in range(2, 7))), "nvlink"),
}


def _without_details(wanted: str) -> Gpu | None:
    """The GPU of a name with words of the maker's, its memory or its form behind it, where these are the GPU's own."""
    words = wanted.split("-")
    details = [word for word in words if word in _MARKETED or word in _FORMS or _SIZE.fullmatch(word)]
    found = _named("-".join(word for word in words if word not in details)) if details else None
    return found if found and all(_is_of(word, found) for word in details) else None


def _is_of(word: str, gpu: Gpu) -> bool:
    """Whether a detail does not name another variant of the GPU."""
    if size := _SIZE.fullmatch(word):
        return float(size[1]) == gpu.memory_gb
    return _FORMS.get(word, gpu.link) == gpu.link


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
    """A generic card with `vram_gib` GiB, taken as stated: at its rates no NVIDIA GPU of the catalog with as much
    memory is slower. Those that the catalog does not have may be.

    Assumed beside them: PCIe 3.0 x16 to each other and to the host, bf16 but no FlashAttention-2.
    """
    slow, narrow = (min(_with_memory(vram_gib), key=lambda entry, rate=rate: entry[rate]) for rate in _RATES)
    return Gpu(
        name=f"vram-{vram_gib:g}gib",
        vendor="nvidia",
        kind="consumer",
        memory_gib=float(vram_gib),
        memory_gb=vram_gib * 2**30 / 1e9,
        memory_note="as stated in the recipe",
        bandwidth_gb_s=narrow["bandwidth_gb_s"],
        bf16_tflops=slow["bf16_tflops"],
        fp16_tflops=slow["bf16_tflops"],
        link="pcie",
        link_gb_s=PCIE_GB_S[UNKNOWN_PCIE],
        bf16=True,
        flash_attention=False,
        source=f"assumption: {slow['bf16_tflops']:g} TFLOPS as {slow['name']} and {narrow['bandwidth_gb_s']:g} GB/s as "
        f"{narrow['name']} has, the lowest of the catalog's GPUs with bf16 and as much memory; "
        f"PCIe {UNKNOWN_PCIE}.0 x16",
    )


_RATES = ("bf16_tflops", "bandwidth_gb_s")


def _with_memory(vram_gib: float) -> list[dict[str, Any]]:
    """NVIDIA GPUs with bf16 that are sold with at least so much memory; else those with the most."""
    entries = [entry for entry in entries_with(_FOLDER, _ANY) if entry["vendor"] == "nvidia" and entry["bf16"]]
    least = min(vram_gib, max(entry["memory_gb"] for entry in entries))
    return [entry for entry in entries if entry["memory_gb"] >= least]
