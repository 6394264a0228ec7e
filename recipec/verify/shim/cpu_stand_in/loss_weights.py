"""How much every answer counts in the loss: its derivative by the log-probability of each token, or by a score.

Whatever computes a loss, these are what a step learns by: its form, its beta, sums or means over tokens.
"""

from __future__ import annotations

import sys


def note(found, inputs, kwargs, output):
    """Add to `found`, when the loss is differentiated, what the outputs of one forward count in it."""
    scores, log_probs = getattr(output, "logits", None), getattr(output, "log_probs", None)
    if log_probs is not None and log_probs.requires_grad:
        labels = kwargs["labels"][:, 1:]
        taught, values = labels != -100, log_probs[:, -labels.shape[1] :]  # virtual tokens stand before
        log_probs.register_hook(lambda grad: _add(found, inputs, taught, values, grad[:, -labels.shape[1] :]))
    elif scores is not None and scores.requires_grad and scores.shape[-1] == 1:
        scores.register_hook(lambda grad: found.append({"scores": _pairs(scores), "weights": _pairs(grad)}))
    elif scores is not None and scores.requires_grad and kwargs.get("labels", inputs.get("labels")) is not None:
        _by_logits(found, inputs, kwargs.get("labels", inputs.get("labels")), scores)


def _pairs(column):
    return column.detach().float().flatten().tolist()


def _add(found, inputs, taught, values, weights):
    """Of every sequence: how many tokens count, their summed log-probability, the least and the largest weight."""
    batch = {"answers": [], "labels": inputs["label"].tolist() if "label" in inputs else None}
    for marks, logs, pulls in zip(taught, values.detach().float(), weights.float(), strict=True):
        counted = pulls[marks]
        ends = [counted.min().item(), counted.max().item()] if len(counted) else [0.0, 0.0]
        batch["answers"].append([len(counted), logs[marks].sum().item(), *ends])
    found.append(batch)


def _by_logits(found, inputs, labels, logits):
    """The same where a loss is computed from logits: what they pull is told apart along each token's own direction."""
    torch = sys.modules["torch"]
    wanted = labels[:, 1:]
    logits_behind = logits[:, -labels.shape[1] :][:, :-1].detach().float()
    one_hot = torch.nn.functional.one_hot(wanted.clamp(min=0), logits.shape[-1])
    direction = one_hot - logits_behind.softmax(-1)  # of the derivative of its log-probability
    values = logits_behind.log_softmax(-1).gather(-1, wanted.clamp(min=0)[..., None])[..., 0]

    def along(grad):
        pulls = grad[:, -labels.shape[1] :][:, :-1].float()
        weights = (pulls * direction).sum(-1) / direction.square().sum(-1)
        _add(found, inputs, wanted != -100, values, weights)

    logits.register_hook(along)
