"""ORPO on DPOTrainer: the chosen answers are learned, and preferred over the rejected ones, without a reference."""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import logsigmoid
from trl import DPOTrainer

PAPER = {
    "title": "ORPO: Monolithic Preference Optimization without Reference Model",
    "id": "2403.07691",
}


class OddsRatioTrainer(DPOTrainer):
    """DPOTrainer with the loss of ORPO (arXiv 2403.07691). Rows, collation and the fused head are DPOTrainer's.

    The loss is the mean loss of the chosen answers' tokens, plus beta * -log(sigmoid(log odds ratio)). The odds of an
    answer are p / (1 - p), where log p is the mean log-probability of its tokens. Prompts are not learned.
    """

    _name, _tag_names, _paper = "ORPO", ["trl", "orpo"], PAPER  # what the model card says

    def _compute_loss(self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool) -> Any:
        outputs, sums, counts = self.score(model, inputs)
        chosen, rejected = (sums / counts.clamp(min=1)).chunk(2)
        log_odds = (chosen - log1mexp(chosen)) - (rejected - log1mexp(rejected))
        log_odds_ratio = logsigmoid(log_odds).mean()
        nll_loss = -sums.chunk(2)[0].sum() / counts.chunk(2)[0].sum().clamp(min=1)
        loss = nll_loss - self.beta * log_odds_ratio
        odds = {"log_odds_ratio": log_odds_ratio, "log_odds_chosen": log_odds.mean()}
        self.note(inputs, outputs, chosen, rejected, nll_loss=nll_loss, **odds)
        return (loss, outputs) if return_outputs else loss

    def score(self, model: nn.Module, inputs: dict[str, Any]) -> tuple[Any, torch.Tensor, torch.Tensor]:
        """The model's outputs; of each answer, chosen ones first, its log-probability and how many tokens it has."""
        outputs = model(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            labels=inputs["input_ids"].masked_fill(inputs["completion_mask"] == 0, -100),
            use_cache=False,
            fused_lm_head=True,
        )
        sums = outputs.log_probs.float().sum(dim=1)  # over learned tokens: the others have 0
        return outputs, sums, inputs["completion_mask"][:, 1:].sum(dim=1)

    @torch.no_grad()
    def note(
        self,
        inputs: dict[str, Any],
        outputs: Any,
        chosen: torch.Tensor,
        rejected: torch.Tensor,
        **others: torch.Tensor,
    ) -> None:
        """Keep the means over all processes for the next log, and count tokens as DPOTrainer does."""
        learned = inputs["completion_mask"][:, 1:].bool()
        metrics = others | {
            "logps/chosen": chosen.mean(),
            "logps/rejected": rejected.mean(),
            "rewards/chosen": self.beta * chosen.mean(),
            "rewards/rejected": self.beta * rejected.mean(),
            "rewards/margins": self.beta * (chosen - rejected).mean(),
            "rewards/accuracies": (chosen > rejected).float().mean(),
            "entropy": (outputs.entropy * learned).sum() / learned.sum().clamp(min=1),
        }
        mode = "train" if self.model.training else "eval"
        means = self.accelerator.gather(torch.stack([value.float() for value in metrics.values()])[None]).mean(dim=0)
        for name, value in zip(metrics, means.tolist(), strict=True):
            self._metrics[mode][name].append(value)
        if mode == "train":
            self._total_train_tokens += self.accelerator.gather(inputs["attention_mask"].sum()).sum().item()
        self._metrics[mode]["num_tokens"] = [self._total_train_tokens]


def log1mexp(logs: torch.Tensor) -> torch.Tensor:
    """log(1 - exp(x)) for x below 0; of the two ways to write it, each loses its digits where the other is taken."""
    logs = logs.clamp(max=-1e-6)  # a probability of 1 has no odds
    return torch.where(logs > -0.6931, torch.log(-torch.expm1(logs)), torch.log1p(-torch.exp(logs)))
