"""Reward models beside a policy: frozen, whole on every rank, in the compute type; they score micro batches."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from recipec.catalog.architecture import Architecture
from recipec.estimate.activations import kinds_of
from recipec.estimate.codepath import CodePath
from recipec.estimate.workload import Workload
from recipec.layout import Layout


def judge_bytes(work: Workload, path: CodePath) -> float:
    """Of their weights; the head that gives a score is one row in place of the vocabulary's."""
    return path.compute * float(sum(judge.params - _head(judge) for judge in work.judges))


def judging_terms(layout: Layout, work: Workload, path: CodePath) -> Mapping[str, float]:
    """Bytes while they score, beside what is there at all times: one layer of a pass that saves nothing."""
    frozen = replace(path, residual=path.compute, quantized=0.0, adapter_copy=0)
    frozen = replace(frozen, saves_frozen_inputs=0)
    kinds = [each for judge in work.judges for each in kinds_of(judge, None, frozen)]
    tokens = layout.micro_batch * work.seq_len_tokens
    return {"working_set": tokens * max(max(each.forward, each.attention) for each in kinds)}


def _head(judge: Architecture) -> int:
    """Parameters of the matrix that makes logits of hidden states, which a reward model does without."""
    return 0 if judge.tie_embeddings else judge.vocab_size * judge.hidden_size
