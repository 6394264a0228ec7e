"""The arithmetic of PPO: rewards of tokens, advantages, returns, clipped losses. Rows are answers, columns tokens."""

from dataclasses import dataclass, fields
from itertools import pairwise

import torch

KL_GAIN = 0.1  # of the KL's relative distance from its target, in each generation (arXiv 1909.08593, section 2.2)
KL_ERROR_AT_MOST = 0.2  # of that distance (the same)


@dataclass
class Answers:
    """Answers behind their prompts, and what they are learned from."""

    tokens: torch.Tensor  # prompts, padded on the left, and answers, padded on the right
    attended: torch.Tensor
    mask: torch.Tensor  # of the answers' columns: tokens up to and with the one that ends the answer
    log_probs: torch.Tensor  # of the policy that wrote them
    values: torch.Tensor  # its estimate, before each token, of what is still to be earned
    advantages: torch.Tensor
    returns: torch.Tensor

    def part(self, rows: torch.Tensor) -> "Answers":
        return Answers(**{each.name: getattr(self, each.name)[rows] for each in fields(self)})


def answer_mask(answers: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """1 up to and with the first end token; what follows it is padding, even where the padding is the same token."""
    ended = torch.isin(answers, ends).long()
    return (ended.cumsum(1) - ended == 0).float()


def token_rewards(scores: torch.Tensor, divergences: torch.Tensor, mask: torch.Tensor, beta: float) -> torch.Tensor:
    """Every token costs its share of the KL to the reference; the answer's last one earns the score."""
    rewards = -beta * divergences * mask
    last = mask.sum(1).long().clamp(min=1) - 1
    return rewards.scatter_add(1, last[:, None], (scores * mask[:, 0])[:, None])


def advantages_of(
    rewards: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, smoothing: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Generalized advantages (arXiv 1506.02438) without discount, and returns; nothing follows the last token."""
    values, advantages = values * mask, torch.zeros_like(values)
    later, following = torch.zeros_like(values[:, 0]), torch.zeros_like(values[:, 0])
    for token in reversed(range(values.shape[1])):
        surprise = rewards[:, token] + following - values[:, token]
        later = mask[:, token] * (surprise + smoothing * later)
        advantages[:, token], following = later, values[:, token]
    return advantages, (advantages + values) * mask


def clipped_losses(
    ratio: torch.Tensor, values: torch.Tensor, answers: Answers, clip_range: float, value_clip_range: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of the policy and that of the value head for every token: no change beyond the range pays."""
    kept = ratio.clamp(1 - clip_range, 1 + clip_range)
    policy = torch.maximum(-answers.advantages * ratio, -answers.advantages * kept)
    near = answers.values + (values - answers.values).clamp(-value_clip_range, value_clip_range)
    return policy, 0.5 * torch.maximum((values - answers.returns) ** 2, (near - answers.returns) ** 2)


def adapted(beta: float, kl: float, target: float) -> float:
    """The weight of the KL after a generation: higher where answers are further from the reference than the target."""
    error = max(-KL_ERROR_AT_MOST, min(KL_ERROR_AT_MOST, kl / target - 1))
    return beta * (1 + KL_GAIN * error)


def distinct_pairs(answers: list[list[int]]) -> float:
    """Of all pairs of tokens that follow each other, the share that are different pairs; 1 where there are none."""
    pairs = [pair for answer in answers for pair in pairwise(answer)]
    return len({*pairs}) / len(pairs) if pairs else 1.0
