"""A reward model: it scores the answers of stage ppo, and is never trained there."""

from functools import cached_property

import torch
from accelerate import PartialState
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

AT_ONCE = 4  # answers in one pass


class Judge:
    """The frozen model of a folder or of the Hub; every process has all of it."""

    def __init__(self, source: str, revision: str | None = None) -> None:
        self.source, self.revision = source, revision

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        return AutoTokenizer.from_pretrained(self.source, revision=self.revision, padding_side="right")

    @cached_property
    def model(self) -> PreTrainedModel:
        model, found = AutoModelForSequenceClassification.from_pretrained(
            self.source,
            revision=self.revision,
            num_labels=1,
            dtype=torch.bfloat16,
            device_map={"": PartialState().device},
            output_loading_info=True,
        )
        if found["missing_keys"]:
            missing = ", ".join(sorted(found["missing_keys"]))
            raise SystemExit(f"{self.source} is no reward model. It has no {missing}, so its scores would be chance.")
        self.tokenizer.pad_token = self.tokenizer.pad_token or self.tokenizer.eos_token
        model.config.pad_token_id = self.tokenizer.pad_token_id  # the score is read at the last token before padding
        return model.eval().requires_grad_(False)

    @torch.inference_mode()
    def scores(self, prompts: list, completions: list) -> list[float]:
        """One score for each answer, which is read to its end as in the training of the reward model."""
        conversations = [[*prompt, *answer] for prompt, answer in zip(prompts, completions, strict=True)]
        found: list[float] = []
        for start in range(0, len(conversations), AT_ONCE):
            batch = self.tokenizer.apply_chat_template(
                conversations[start : start + AT_ONCE], return_dict=True, return_tensors="pt", padding=True
            )
            found += self.model(**batch.to(self.model.device)).logits[:, 0].float().tolist()
        return found
