"""A teacher for SFTTrainer: the loss of a token is the divergence of the student's probabilities from the teacher's."""

from types import MethodType
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import ModelOutput
from trl import SFTTrainer
from trl.kernels.chunked_divergence import ChunkedDivergenceFunction

PAPER = {
    "title": "On-Policy Distillation of Language Models: Learning from Self-Generated Mistakes",
    "id": "2306.13649",
}


class SupervisedDistillationTrainer(SFTTrainer):
    """SFTTrainer that learns from a teacher. Rows, masks, packing, metrics and the mean over a step are SFTTrainer's.

    A trained token costs (1 - label_weight) * temperature**2 * D + label_weight * the cross entropy of its label. D is
    the generalized Jensen-Shannon divergence of GKD (arXiv 2306.13649) between the probabilities of both models at this
    temperature: with beta 0 the forward KL, with 1 the reverse KL. temperature**2 keeps its gradient in proportion
    (arXiv 1503.02531).
    """

    _name, _tag_names, _paper = "supervised distillation", ["trl", "distillation"], PAPER  # what the model card says

    def __init__(
        self,
        *args: Any,
        teacher: str,
        teacher_options: dict[str, Any],
        beta: float,
        temperature: float,
        label_weight: float,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.beta, self.temperature, self.label_weight = beta, temperature, label_weight
        self.load_teacher(teacher, teacher_options)
        student = self.model
        if self.teacher_config.vocab_size < student.config.vocab_size:
            raise SystemExit(f"{teacher} has no probabilities for all tokens of the student. Choose another teacher.")
        self.replace_loss(student)

    def load_teacher(self, teacher: str, options: dict[str, Any]) -> None:
        """Read its decoder and its output head: whole, straight onto the process's device."""
        place = {"": self.accelerator.device}
        model = AutoModelForCausalLM.from_pretrained(teacher, **options, device_map=place).eval().requires_grad_(False)
        self.teacher = model.base_model
        self.teacher_head, self.teacher_config = model.get_output_embeddings(), model.config

    def replace_loss(self, student: PreTrainedModel) -> None:
        """SFTTrainer sums the labels' log-probabilities that the student's forward returns: return -losses instead.

        They are computed inside the forward, where whatever wraps the student has its weights at hand.
        """
        forward, states = student.forward, []  # the last hidden states, on their way from the decoder to the loss
        student.base_model.register_forward_hook(lambda decoder, given, found: states.append(found.last_hidden_state))

        def with_teacher(model: PreTrainedModel, *args: Any, taught: torch.Tensor | None = None, **kwargs: Any) -> Any:
            outputs, last = forward(*args, **kwargs), states.pop()
            if taught is not None:
                outputs.log_probs = -self.token_losses(model, last, taught, outputs)
            return outputs

        student.forward = MethodType(with_teacher, student)

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | None = None,
    ) -> Any:
        """The teacher runs first, so that no activations of the student wait for it."""
        inputs = {**inputs, "taught": self.taught_states(inputs)}
        return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)

    @torch.no_grad()
    def taught_states(self, inputs: dict[str, Any]) -> torch.Tensor:
        """The teacher's last hidden states at the positions before a trained token."""
        given = {name: value for name, value in inputs.items() if name != "labels"}
        states = self.teacher(**given, use_cache=False).last_hidden_state
        return states[:, :-1][inputs["labels"][:, 1:] != -100]

    def token_losses(
        self, student: PreTrainedModel, states: torch.Tensor, taught: torch.Tensor, outputs: ModelOutput
    ) -> torch.Tensor:
        """The loss of every token, 0 where none is trained; no more than a tile of logits exists at a time."""
        head, trained = student.get_output_embeddings(), outputs.label_mask
        divergence, _ = ChunkedDivergenceFunction.apply(
            states[:, :-1][trained],
            head.weight,
            head.bias,
            taught,
            self.teacher_head.weight,  # rows behind the student's are padding, and left out
            self.teacher_head.bias,
            self.beta,
            self.temperature,
            *scale_and_cap(student.config),
            *scale_and_cap(self.teacher_config),
        )
        losses = torch.zeros_like(outputs.log_probs).masked_scatter(trained, self.temperature**2 * divergence)
        if not self.label_weight:
            return losses
        return (1 - self.label_weight) * losses - self.label_weight * outputs.log_probs


def scale_and_cap(config: PretrainedConfig) -> tuple[float, float | None]:
    """What a model does to its logits: Falcon-H1 multiplies them, Granite divides them, Gemma 2 caps them."""
    scale = getattr(config, "lm_head_multiplier", 1.0) / getattr(config, "logits_scaling", 1.0)
    return scale, getattr(config, "final_logit_softcapping", None)
