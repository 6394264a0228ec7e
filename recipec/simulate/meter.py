"""Counts the bytes of live tensor storages, and keeps the peak of each site of a step."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from msgspec import Struct
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

BLOCK_BYTES = 512  # smallest block of the CUDA caching allocator: c10/cuda/CUDACachingAllocator.h kMinBlockSize


class Peak(Struct, frozen=True):
    """The moment of a site at which most bytes were live."""

    total: int
    terms: dict[str, int]  # category -> bytes
    operation: str  # the ATen operation that reached it: tells whether two depths peak at the same place


class Meter(TorchDispatchMode):
    """Every storage that an operation returns is counted under the current category until it is freed.

    Autograd's saved tensors therefore count exactly as long as the graph holds them. Works on real and fake tensors.
    """

    def __init__(self) -> None:
        super().__init__()
        self.category = "weights"
        self.site = "build"
        self.peaks: dict[str, Peak] = {}
        self.total = 0
        self.paused = False
        self._totals: Counter[str] = Counter()
        self._blocks: dict[int, tuple[int, str, weakref.ref[torch.UntypedStorage]]] = {}  # storage -> bytes, category

    def __enter__(self) -> Meter:
        """Also watch in-place resizing, which FSDP frees gathered weights with and no dispatch mode sees."""
        self._resize = torch.UntypedStorage.resize_
        torch.UntypedStorage.resize_ = lambda storage, size: self._resized(storage, size)
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        torch.UntypedStorage.resize_ = self._resize
        super().__exit__(*error)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if DTensor in types:
            return NotImplemented  # it unwraps itself; its local tensors come back here
        if function is torch.ops._c10d_functional.wait_tensor.default:
            return args[0]  # on a device it waits; the fake kernel would make a copy
        result = function(*args, **(kwargs or {}))
        if self.paused:
            return result
        for leaf in (result,) if isinstance(result, torch.Tensor) else tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.count(leaf)
        self._mark(str(function))
        return result

    def count(self, tensor: torch.Tensor, category: str | None = None) -> None:
        """Count the tensor's storages, or move them to `category` where they are counted already."""
        for storage in storages(tensor):
            key = storage._cdata
            if key not in self._blocks:
                self._add(storage, key, category or self.category)
            elif category is not None:
                size, old, reference = self._blocks[key]
                self._totals[old] -= size
                self._totals[category] += size
                self._blocks[key] = size, category, reference

    def _add(self, storage: torch.UntypedStorage, key: int, category: str) -> None:
        size = rounded(storage.nbytes())
        self._blocks[key] = size, category, weakref.ref(storage, lambda _: self._free(key))
        self._totals[category] += size
        self.total += size

    def _free(self, key: int) -> None:
        size, category, _ = self._blocks.pop(key)
        self._totals[category] -= size
        self.total -= size

    def _resized(self, storage: torch.UntypedStorage, size_bytes: int) -> torch.UntypedStorage:
        result = self._resize(storage, size_bytes)
        if storage._cdata in self._blocks:
            old, category, reference = self._blocks[storage._cdata]
            new = rounded(storage.nbytes())
            self._blocks[storage._cdata] = new, category, reference
            self._totals[category] += new - old
            self.total += new - old
            self._mark("resize_")
        return result

    def _mark(self, operation: str) -> None:
        peak = self.peaks.get(self.site)
        if peak is None or self.total > peak.total:
            terms = {name: size for name, size in self._totals.items() if size}
            self.peaks[self.site] = Peak(self.total, terms, operation)


def storages(tensor: torch.Tensor) -> Iterator[torch.UntypedStorage]:
    """The storages behind a tensor; a sharded one holds its local part."""
    if not is_traceable_wrapper_subclass(tensor):
        yield tensor.untyped_storage()
        return
    for name in tensor.__tensor_flatten__()[0]:
        inner = getattr(tensor, name)
        if isinstance(inner, torch.Tensor):  # a DTensor lists its device mesh too
            yield from storages(inner)


def rounded(size_bytes: int) -> int:
    """Bytes that the caching allocator takes for a tensor."""
    return -(-size_bytes // BLOCK_BYTES) * BLOCK_BYTES
