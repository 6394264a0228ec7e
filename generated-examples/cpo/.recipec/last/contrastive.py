"""SimPO on DPOTrainer: the chosen answers are preferred over the rejected ones per token, without a reference."""

from typing import Any

import torch
from datasets import Dataset
from torch import nn
from torch.nn.functional import logsigmoid
from trl import DPOTrainer


class ContrastiveTrainer(DPOTrainer):
    """DPOTrainer with the loss of SimPO (arXiv 2405.14734). Rows, collation and the fused head are DPOTrainer's.

    A pair costs -log(sigmoid(beta * (chosen - rejected) - gamma)), where both are the mean log-probability of an
    answer's tokens. nll_weight times the mean loss of the chosen answers' tokens is added. Prompts are not learned.
    """

    def __init__(self, *args: Any, gamma: float, nll_weight: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.gamma, self.nll_weight = gamma, nll_weight

    def _precompute_ref_logps(self, dataset: Dataset, name: str, batch_size: int) -> Dataset:
        """Nothing: `precompute_ref_log_probs` is set so that no reference stays in memory."""
        return dataset

    def _compute_loss(self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool) -> Any:
        outputs = model(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            labels=inputs["input_ids"].masked_fill(inputs["completion_mask"] == 0, -100),
            use_cache=False,
            fused_lm_head=True,
        )
        learned = inputs["completion_mask"][:, 1:].bool()
        counts = learned.sum(dim=1)
        sums = outputs.log_probs.float().sum(dim=1)  # over learned tokens: the others have 0
        chosen, rejected = (sums / counts.clamp(min=1)).chunk(2)
        nll_loss = -sums.chunk(2)[0].sum() / counts.chunk(2)[0].sum().clamp(min=1)
        preference_loss = -logsigmoid(self.beta * (chosen - rejected) - self.gamma).mean()
        loss = preference_loss + self.nll_weight * nll_loss
        self.note(
            {
                "nll_loss": nll_loss,
                "logps/chosen": chosen.mean(),
                "logps/rejected": rejected.mean(),
                "rewards/chosen": self.beta * chosen.mean(),
                "rewards/rejected": self.beta * rejected.mean(),
                "rewards/margins": self.beta * (chosen - rejected).mean(),
                "rewards/accuracies": (chosen > rejected).float().mean(),
                "entropy": (outputs.entropy * learned).sum() / counts.sum().clamp(min=1),
            },
            inputs["attention_mask"].sum(),
        )
        return (loss, outputs) if return_outputs else loss

    @torch.no_grad()
    def note(self, metrics: dict[str, torch.Tensor], tokens: torch.Tensor) -> None:
        """Keep the means over all processes for the next log, and count tokens as DPOTrainer does."""
        mode = "train" if self.model.training else "eval"
        means = self.accelerator.gather(torch.stack([value.float() for value in metrics.values()])[None]).mean(dim=0)
        for name, value in zip(metrics, means.tolist(), strict=True):
            self._metrics[mode][name].append(value)
        if mode == "train":
            self._total_train_tokens += self.accelerator.gather(tokens).sum().item()
        self._metrics[mode]["num_tokens"] = [self._total_train_tokens]
