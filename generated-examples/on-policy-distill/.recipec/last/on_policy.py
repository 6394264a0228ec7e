"""TRL's DistillationTrainer with a teacher that may have more rows of padding, and with autocast over its loss."""

from typing import Any

from transformers import AutoModelForCausalLM
from trl import DistillationTrainer


class OnPolicyDistillationTrainer(DistillationTrainer):
    """The student writes answers and learns, for each of their tokens, the teacher's probabilities.

    Generation, the loss and its mean over all tokens of a step are DistillationTrainer's. The loss is the generalized
    Jensen-Shannon divergence of GKD (arXiv 2306.13649): with beta 0 the forward KL, with 1 the reverse KL.
    """

    def __init__(self, *args: Any, teacher: str, teacher_options: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # without its teacher, which must have as many rows as the student
        place = {"": self.accelerator.device}  # whole, straight onto the process's device
        model = AutoModelForCausalLM.from_pretrained(teacher, **teacher_options, device_map=place)
        model = model.eval().requires_grad_(False)
        if model.config.vocab_size < self.model.config.vocab_size:
            raise SystemExit(f"{teacher} has no probabilities for all tokens of the student. Choose another teacher.")
        self.teacher_model = model

    def _compute_loss(self, *args: Any) -> tuple:
        """In the type that the plan computes in: DistillationTrainer takes the place of the forward that autocasts."""
        with self.accelerator.autocast():
            return super()._compute_loss(*args)
