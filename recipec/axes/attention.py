"""The implementations of attention that transformers can be asked for: what each needs and computes. One row each."""

from __future__ import annotations

from msgspec import Struct

MASK, BOUNDARIES = KEPT_APART = "mask", "boundaries"  # what keeps examples apart that share a row


class Attention(Struct, frozen=True, kw_only=True):
    """One implementation: a value of train.attention, and what transformers calls it."""

    name: str
    means: str  # for editors
    elsewhere: tuple[str, ...]  # what people type for it who come from other tools
    apart: str  # of KEPT_APART: a mask over all pairs of tokens, or where each example begins
    keeps_scores: bool  # a number for every pair of tokens and head is saved for the backward pass
    takes_padding: bool  # computes batches of padded rows
    half_only: bool  # its kernels compute in bf16 and fp16 alone
    gpu_only: bool  # its kernels need compute capability 8.0 or later
    caps_scores: bool  # computes soft-capped scores (Gemma 2)
    has_sinks: bool  # computes attention sinks (gpt-oss)
    most_features: int  # of a head
    brought: bool  # the bundle has its file
    package: str  # that is not among the pinned ones; empty: none
    source: str


_NO_LIMIT = 1 << 16

ATTENTIONS = {
    row.name: row
    for row in (
        Attention(
            name="sdpa",
            means="PyTorch's scaled dot product attention, with a flash kernel from compute capability 8.0",
            elsewhere=("flash", "flash-attention", "flash_attn", "fa2", "flash_attn_2", "scaled_dot_product_attention"),
            apart=MASK,
            keeps_scores=False,
            takes_padding=True,
            half_only=False,
            gpu_only=False,
            caps_scores=False,
            has_sinks=False,
            most_features=_NO_LIMIT,
            brought=False,
            package="",
            source="transformers 5.23 integrations/sdpa_attention.py",
        ),
        Attention(
            name="torch_varlen",
            means="PyTorch's variable-length flash kernel, for packed examples; needs no package",
            elsewhere=("varlen", "varlen_attn", "sdpa_varlen"),
            apart=BOUNDARIES,
            keeps_scores=False,
            takes_padding=False,
            half_only=True,
            gpu_only=True,
            caps_scores=False,
            has_sinks=False,
            most_features=256,
            brought=True,
            package="",
            source="torch 2.13 nn/attention/varlen.py; pytorch RFC #171814 (A100 or newer)",
        ),
        Attention(
            name="flash_attention_2",
            means="the flash-attn package; not supported, because it is not in requirements.txt (BAD-011)",
            elsewhere=(),
            apart=BOUNDARIES,
            keeps_scores=False,
            takes_padding=True,
            half_only=True,
            gpu_only=True,
            caps_scores=True,
            has_sinks=False,
            most_features=256,
            brought=False,
            package="flash-attn",
            source="transformers 5.23 modeling_flash_attention_utils.py",
        ),
        Attention(
            name="eager",
            means="unfused attention; slow, needs much memory",
            elsewhere=(),
            apart=MASK,
            keeps_scores=True,
            takes_padding=True,
            half_only=False,
            gpu_only=False,
            caps_scores=True,
            has_sinks=True,
            most_features=_NO_LIMIT,
            brought=False,
            package="",
            source="transformers 5.23 models (eager_attention_forward)",
        ),
    )
}

SDPA = "sdpa"  # transformers' own, which computes whatever rows come
