"""Makes fake CPU tensors take the code path of a CUDA device, or of the CPU with what fake tensors cannot do.

Fake CUDA tensors need a CUDA build of torch; fake CPU tensors with these substitutions run on any wheel. Each one
replaces something that would allocate differently on a GPU, or that reads values which fake tensors do not have.
Checked 2026-11 against torch 2.13, transformers 5.23 and TRL 1.16.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as functional
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from recipec.estimate.head import TRL_VOCABULARY_CHUNK

aten = torch.ops.aten
_DIVERGENCE = ("_stats_tile", "_jsd_tile", "_backward_tile", "_addmm_fp32")
FLASH_HEAD_DIM = 256  # largest head of PyTorch's flash kernel


class AllValid(TorchDispatchMode):
    """Answers for operations that fake tensors cannot run.

    Where the result depends on a mask's values, as if no position were masked: an upper bound.
    """

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if DTensor in types:
            return NotImplemented  # it unwraps itself; its local tensors come back here
        if function is aten.index.Tensor and len(args[1]) == 1 and args[1][0].dtype == torch.bool:
            mask = args[1][0]
            return args[0].reshape(mask.numel(), *args[0].shape[mask.dim() :]).clone()
        if function is aten.masked_select.default:
            return args[0].reshape(-1).clone()
        if function is aten._grouped_mm.default and args[0].dtype != torch.bfloat16:
            return _grouped(*args[:3])
        return function(*args, **(kwargs or {}))


def _grouped(left: torch.Tensor, right: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """The grouped product in fp32, which devices have and the fake kernel refuses; autocast leaves it alone."""
    groups = () if right.dim() == 3 else (len(ends),)
    return left.new_empty(*groups, left.shape[0], right.shape[-1])


@contextmanager
def like_cuda(one_row: bool) -> Iterator[None]:
    """Everything in the block behaves as on a CUDA device of compute capability 8.0 or later.

    `one_row`: several examples share a row, which transformers reads from the positions' values.
    """
    import transformers.masking_utils
    import transformers.modeling_utils
    import trl.kernels.chunked_divergence
    import trl.kernels.chunked_logprob
    import trl.trainer.utils

    enabled = torch.is_autocast_enabled
    replaced = (
        (functional, "scaled_dot_product_attention", _attention),
        (functional, "dropout", _dropout),
        (torch.utils, "weakref", SimpleNamespace(getweakrefs=lambda tensor: [])),  # fake tensors may be swapped too
        (torch, "is_autocast_enabled", lambda device="cpu": enabled("cpu" if device == "cuda" else device)),
        (transformers.modeling_utils, "save_on_cpu", _leaves_the_device),
        (transformers.masking_utils, "find_packed_sequence_indices", torch.zeros_like if one_row else _one_sequence),
        (trl.trainer.utils, "_use_triton", lambda device: True),  # only scored positions reach the head
        (trl.kernels.chunked_logprob, "_forward_tile", _in_place),
        (trl.kernels.chunked_logprob, "_backward_tile", _in_place),
        (trl.kernels.chunked_logprob, "_addmm_fp32", _in_place),
        *((trl.kernels.chunked_divergence, name, _in_place) for name in _DIVERGENCE),
        (trl.kernels.chunked_divergence, "_project", _cast_of_weight),
    )
    with ExitStack() as stack:
        for owner, name, replacement in replaced:
            stack.enter_context(patch.object(owner, name, replacement))
        yield


@contextmanager
def on_cpu(one_row: bool, vocabulary: int) -> Iterator[None]:
    """Everything in the block behaves as on a CPU. A tile has the columns that are touched: others take no memory."""
    import transformers.masking_utils
    import trl.trainer.utils

    replaced = (
        (torch.utils, "weakref", SimpleNamespace(getweakrefs=lambda tensor: [])),
        (transformers.masking_utils, "find_packed_sequence_indices", torch.zeros_like if one_row else _one_sequence),
        (trl.trainer.utils, "_CHUNKED_LOGPROB_CHUNK_SIZE", min(vocabulary, TRL_VOCABULARY_CHUNK)),
    )
    with ExitStack() as stack:
        for owner, name, replacement in replaced:
            stack.enter_context(patch.object(owner, name, replacement))
        yield


def _one_sequence(position_ids: torch.Tensor) -> None:
    """A row is one sequence."""


def _in_place(*tensors: Any, **options: Any) -> None:
    """A kernel that writes into its arguments and allocates nothing."""


def _cast_of_weight(tile: Any, states: Any, weight: torch.Tensor, bias: Any, start: int, end: int, dtype: Any) -> None:
    """A product into a tile: of its operands only a part of the weight may have another type."""
    weight[start:end].to(dtype)


def _leaves_the_device(**options: Any) -> Any:
    """Saved tensors are freed, and allocated anew when the backward pass asks for them."""
    return torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: (tensor.shape, tensor.dtype), lambda saved: torch.empty(saved[0], dtype=saved[1])
    )


def _dropout(x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
    """The GPU's fused dropout, which keeps a boolean mask."""
    return torch.native_dropout(x, p, True)[0] if training and p > 0 else x


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """PyTorch's choice on a GPU: flash without a mask in 16 bit, else the memory-efficient kernel."""
    query, key, value = (_autocast(x) for x in (query, key, value))
    half = query.dtype in (torch.bfloat16, torch.float16)
    if attn_mask is None and half and query.shape[-1] <= FLASH_HEAD_DIM:
        return _flash(query, key, value, dropout_p, is_causal, scale)
    if enable_gqa:
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    bias = None if attn_mask is None else _bias(attn_mask, query, key)
    grads = torch.is_grad_enabled()
    return aten._scaled_dot_product_efficient_attention(
        query, key, value, bias, grads, dropout_p, is_causal, scale=scale
    )[0]


def _autocast(x: torch.Tensor) -> torch.Tensor:
    """Attention is on autocast's list of operations in the compute type."""
    return x.to(torch.get_autocast_dtype("cpu")) if torch.is_autocast_enabled("cpu") else x


def _flash(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, dropout: float, causal: bool, scale: float | None
) -> torch.Tensor:
    """Heads are padded to a multiple of eight features, as the dispatcher does."""
    head = query.shape[-1]
    padding = -head % 8
    if padding:
        query, key, value = (functional.pad(x, (0, padding)) for x in (query, key, value))
    scale = scale or 1 / math.sqrt(head)
    out = aten._scaled_dot_product_flash_attention(query, key, value, dropout, causal, False, scale=scale)[0]
    return out[..., :head] if padding else out


def _bias(mask: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """The additive form of a boolean mask, one for all heads."""
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(mask.logical_not(), float("-inf"))
    return mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])


def flash_attention(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Any, **options: Any
) -> tuple[torch.Tensor, None]:
    """The flash-attn package as transformers calls it: saves what PyTorch's flash kernel saves, needs no mask."""
    query, key, value = (_autocast(x) for x in (query, key, value))
    out = _flash(query, key, value, options.get("dropout", 0.0), True, options.get("scaling"))
    return out.transpose(1, 2), None
