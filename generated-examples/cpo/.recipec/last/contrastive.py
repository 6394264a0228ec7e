"""CPO on DPOTrainer: the chosen answers are preferred over the rejected ones, and learned, without a reference."""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import logsigmoid
from trl import DPOTrainer

PAPER = {
    "title": "Contrastive Preference Optimization: Pushing the Boundaries of LLM Performance in Machine Translation",
    "id": "2401.08417",
}


class ContrastiveTrainer(DPOTrainer):
    """DPOTrainer with the loss of CPO (arXiv 2401.08417). Rows, collation and the fused head are DPOTrainer's.

    A pair costs -log(sigmoid(beta * (chosen - rejected))), where both are the summed log-probabilities of an answer's
    tokens. nll_weight times the mean loss of the chosen answers' tokens is added. Prompts are not learned.
    """

    _name, _tag_names, _paper = "CPO", ["trl", "cpo"], PAPER  # what the model card says

    def __init__(self, *args: Any, nll_weight: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.nll_weight = nll_weight

    def _compute_loss(self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool) -> Any:
        outputs, sums, counts = self.score(model, inputs)
        chosen, rejected = sums.chunk(2)
        nll_loss = -chosen.sum() / counts.chunk(2)[0].sum().clamp(min=1)
        loss = self.nll_weight * nll_loss - logsigmoid(self.beta * (chosen - rejected)).mean()
        self.note(inputs, outputs, chosen, rejected, nll_loss=nll_loss)
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
