"""The losses as TRL 1.16 and a bundle's own trainer compute them, one function for each value of Method.loss.

Kept is what the trainer's own variables keep: a function returns when `compute_loss` does.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as functional

from recipec.axes.method import POLICY
from recipec.simulate.run import Inputs, Run

BETA, GAMMA = 0.1, 1.0  # of preference methods; bytes do not depend on them


def supervised(run: Run, inputs: Inputs) -> torch.Tensor:
    """SFTTrainer.compute_loss."""
    outputs = run.learned(inputs)
    run.sites.differentiated(outputs.log_probs)
    return run.with_router_loss(-outputs.log_probs.sum() / outputs.label_mask.sum(), outputs)


def pairs(run: Run, inputs: Inputs) -> torch.Tensor:
    """DPOTrainer._compute_loss: policy, then reference, then the sigmoid loss."""
    outputs = run.learned(inputs)
    run.sites.differentiated(outputs.log_probs)
    logps = outputs.log_probs.sum(1)
    chosen, rejected = (logps - run.by_reference(inputs)).chunk(2)
    return run.with_router_loss(-functional.logsigmoid(BETA * (chosen - rejected)).mean(), outputs)


def odds(run: Run, inputs: Inputs) -> torch.Tensor:
    """OddsRatioTrainer._compute_loss: mean log-probabilities of both answers, and the loss of the chosen ones."""
    outputs = run.learned(inputs)
    run.sites.differentiated(outputs.log_probs)
    means = outputs.log_probs.float().mean(1)
    chosen, rejected = (means - torch.log1p(-means.exp())).chunk(2)
    nll = -means.chunk(2)[0].mean()
    return run.with_router_loss(nll - BETA * functional.logsigmoid(chosen - rejected).mean(), outputs)


def contrast(run: Run, inputs: Inputs) -> torch.Tensor:
    """ContrastiveTrainer._compute_loss: summed log-probabilities of both answers, and the loss of the chosen ones."""
    outputs = run.learned(inputs)
    run.sites.differentiated(outputs.log_probs)
    sums = outputs.log_probs.float().sum(1)
    chosen, rejected = sums.chunk(2)
    nll = -chosen.sum() / outputs.label_mask.chunk(2)[0].sum()
    return run.with_router_loss(nll - functional.logsigmoid(BETA * (chosen - rejected)).mean(), outputs)


def margin(run: Run, inputs: Inputs) -> torch.Tensor:
    """SimPOTrainer._compute_loss: mean log-probabilities of both answers."""
    outputs = run.learned(inputs)
    run.sites.differentiated(outputs.log_probs)
    chosen, rejected = outputs.log_probs.float().mean(1).chunk(2)
    return run.with_router_loss(-functional.logsigmoid(BETA * (chosen - rejected) - GAMMA).mean(), outputs)


def unpaired(run: Run, inputs: Inputs) -> torch.Tensor:
    """KTOTrainer._compute_loss: the policy on mismatched completions, the policy, the reference on both.

    A loss without the KL, whose row has no such passes, scores no mismatched completions.
    """
    estimates_kl = any(part.model == POLICY for part in run.method.scorings)
    mismatched = {name: tensor.clone() for name, tensor in inputs.items()} if estimates_kl else None
    policy_kl = run.scored(POLICY, run.model, mismatched).log_probs.sum(1) if mismatched else None
    outputs = run.learned(inputs)
    run.sites.differentiated(outputs.log_probs)
    logps = outputs.log_probs.sum(1)
    kl: torch.Tensor | float = 0.0
    if mismatched:
        kl = (policy_kl - run.by_reference(mismatched)).mean().detach().clamp(min=0)
    ratios = logps - run.by_reference(inputs)
    return run.with_router_loss((1 - functional.sigmoid(BETA * (ratios - kl))).nanmean(), outputs)


def ranking(run: Run, inputs: Inputs) -> torch.Tensor:
    """RewardTrainer.compute_loss: one score for each sequence, that of the chosen answer above the other's."""
    scores = run.learned(inputs).logits
    run.sites.differentiated(scores)
    chosen, rejected = scores.squeeze(-1).chunk(2)
    return -functional.logsigmoid(chosen - rejected).mean()


def divergence(run: Run, inputs: Inputs) -> torch.Tensor:
    """SupervisedDistillationTrainer.compute_loss: the teacher first; the student's forward answers with losses."""
    outputs = run.learned(inputs, taught=run.taught(inputs))
    run.sites.differentiated(outputs.log_probs)
    return run.with_router_loss(-outputs.log_probs.sum() / outputs.label_mask.sum(), outputs)


def written_divergence(run: Run, inputs: Inputs) -> torch.Tensor:
    """OnPolicyDistillationTrainer._compute_loss: the student, then the teacher, on answers behind one token."""
    return run.compared(inputs)


def advantages(run: Run, inputs: Inputs) -> torch.Tensor:
    """GRPOTrainer._compute_loss without a KL: the ratio to the policy that wrote the answers, times their advantage."""
    outputs = run.learned(inputs)
    run.sites.differentiated(outputs.log_probs)
    ratios = torch.exp(outputs.log_probs - outputs.log_probs.detach())
    return run.with_router_loss(-ratios.sum() / outputs.label_mask.sum(), outputs)


def advantages_near(run: Run, inputs: Inputs) -> torch.Tensor:
    """GRPOTrainer._compute_loss with a KL: the reference scores the answers when they are written, before."""
    reference = run.by_reference(inputs)
    outputs = run.learned(inputs)
    run.sites.differentiated(outputs.log_probs)
    logps = outputs.log_probs.sum(1)
    near = torch.exp(reference - logps) - (reference - logps) - 1
    ratios = torch.exp(outputs.log_probs - outputs.log_probs.detach())
    return run.with_router_loss(BETA * near.mean() - ratios.sum() / outputs.label_mask.sum(), outputs)


def one_out(run: Run, inputs: Inputs) -> torch.Tensor:
    """RLOOTrainer._compute_loss without a KL: the ratio of whole answers to the policy that wrote them."""
    outputs = run.learned(inputs)
    run.sites.differentiated(outputs.log_probs)
    logps = outputs.log_probs.sum(1)
    ratios = torch.exp(logps - logps.detach())
    return run.with_router_loss(-torch.min(ratios, ratios.clamp(0.8, 1.2)).mean(), outputs)


def one_out_near(run: Run, inputs: Inputs) -> torch.Tensor:
    """RLOOTrainer._compute_loss with a KL, which is part of the rewards: the reference scores the answers before."""
    run.by_reference(inputs)
    return one_out(run, inputs)


def clipped(run: Run, inputs: Inputs) -> torch.Tensor:
    """PPOTrainer.compute_loss without its value head, whose copy of the states the formula adds."""
    run.by_reference(inputs)
    outputs = run.learned(inputs)
    run.sites.differentiated(outputs.log_probs)
    ratios = torch.exp(outputs.log_probs - outputs.log_probs.detach())
    return torch.maximum(-ratios, -ratios.clamp(0.8, 1.2)).sum() / outputs.label_mask.sum()


_ALL = (
    *(supervised, pairs, odds, contrast, margin, unpaired, ranking, divergence, written_divergence),
    *(advantages, advantages_near, one_out, one_out_near, clipped),
)
LOSSES: dict[str, Callable[[Run, Inputs], torch.Tensor]] = {function.__name__: function for function in _ALL}
