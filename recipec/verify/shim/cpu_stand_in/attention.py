"""PyTorch's variable-length attention on a CPU: kernels for its own operator, whose autograd and checks stay.

Each example is computed by itself, in fp32. What the GPU's kernel refuses is refused here too.
"""

from itertools import pairwise

HALF = ("torch.float16", "torch.bfloat16")


def varlen_kernel(module, value):
    """Register both directions; the operator has kernels for GPUs alone."""
    module._varlen_attn.register_kernel("cpu")(_forward)
    module._varlen_attn_backward.register_kernel("cpu")(_backward)


def _forward(
    query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, is_causal=False, scale=None, window_size=None, *rest, **options
):
    """Tokens, heads, features of all examples; the second and third value are what the GPU's backward is given."""
    import torch

    if str(query.dtype) not in HALF:
        raise RuntimeError("FlashAttention only support fp16 and bf16 data type")
    if query.shape[-1] > 256:
        raise RuntimeError("FlashAttention forward only supports head dimension at most 256")
    if int(cu_seq_q[-1]) != len(query) or int(cu_seq_q.diff().max()) != max_q:
        raise RuntimeError("the boundaries are not those of the row")
    attended = []
    for example in _examples(cu_seq_q):
        weights, _, values = _attention(query[example], key[example], value[example], scale, window_size)
        attended.append(torch.einsum("hqk,khd->qhd", weights, values).to(query.dtype))
    log_sums = query.new_zeros(query.shape[1], len(query), dtype=torch.float)
    return torch.cat(attended), log_sums, torch.zeros(2, dtype=torch.uint64)


def _backward(
    grad_out, query, key, value, out, lse, cu_seq_q, cu_seq_k, max_q, max_k, is_causal, rng_state, scale, window_size
):
    """The derivative of the softmax, by hand: inside an operator there is no autograd."""
    import torch

    queries, keys, values = [], [], []
    for example in _examples(cu_seq_q):
        one = query[example], key[example], value[example]
        weights, repeated_keys, repeated_values = _attention(*one, scale, window_size)
        grad = grad_out[example].float()
        grad_weights = torch.einsum("qhd,khd->hqk", grad, repeated_values)
        grad_scores = weights * (grad_weights - (grad_weights * weights).sum(-1, keepdim=True)) * _scale(query, scale)
        queries.append(torch.einsum("hqk,khd->qhd", grad_scores, repeated_keys))
        keys.append(_folded(torch.einsum("hqk,qhd->khd", grad_scores, one[0].float()), key))
        values.append(_folded(torch.einsum("hqk,qhd->khd", weights, grad), value))
    return tuple(torch.cat(found).to(query.dtype) for found in (queries, keys, values))


def _examples(boundaries):
    starts = boundaries.tolist()
    return [slice(start, end) for start, end in pairwise(starts)]


def _attention(query, key, value, scale, window_size):
    """Weights of one example (heads, queries, keys), and its keys and values for every head of the queries."""
    import torch

    groups = query.shape[1] // key.shape[1]
    keys, values = (states.float().repeat_interleave(groups, 1) for states in (key, value))
    scores = torch.einsum("qhd,khd->hqk", query.float(), keys) * _scale(query, scale)
    behind = torch.arange(len(query))[:, None] - torch.arange(len(key))  # how far a key is behind a query
    seen = behind >= 0
    if window_size and window_size[0] >= 0:
        seen &= behind <= window_size[0]
    return scores.masked_fill(~seen, float("-inf")).softmax(-1), keys, values


def _scale(query, scale):
    return query.shape[-1] ** -0.5 if scale is None else scale


def _folded(grads, like):
    """The gradient of keys or values that several heads of the queries share."""
    return grads.unflatten(1, (like.shape[1], -1)).sum(2)


PATCHES = {"varlen-kernel": ("torch.nn.attention.varlen", varlen_kernel)}
