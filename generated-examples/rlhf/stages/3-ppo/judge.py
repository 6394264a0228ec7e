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
        tokenizer = AutoTokenizer.from_pretrained(self.source, revision=self.revision, padding_side="right")
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token  # it only fills: the mask says where
        return tokenizer

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
        if not hasattr(model, "score"):
            raise SystemExit(f"{self.source} is a {type(model).__name__}. Name one that scores its last token.")
        # rounded to 16 bits, the scores of answers that are nearly as good would tie
        model.score.float().register_forward_pre_hook(lambda head, states: (states[0].float(),))
        return model.eval().requires_grad_(False)

    @torch.inference_mode()
    def scores(self, prompts: list, completions: list) -> list[float]:
        """One score for each answer, which is read to its end as in the training of the reward model."""
        conversations = [[*prompt, *answer] for prompt, answer in zip(prompts, completions, strict=True)]
        found: list[float] = []
        for start in range(0, len(conversations), AT_ONCE):
            batch = self.tokenizer.apply_chat_template(
                conversations[start : start + AT_ONCE], return_dict=True, return_tensors="pt", padding=True
            ).to(self.model.device)
            states = self.model.base_model(**batch, use_cache=False).last_hidden_state
            last = self.last_tokens(batch["input_ids"], batch["attention_mask"])
            found += self.model.score(states[torch.arange(len(last)), last])[:, 0].tolist()
        return found

    def last_tokens(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Where the model reads the score of a conversation alone: at the last token that is no padding to it.

        Some models have no padding token. Others have their end token as padding, and were trained to pass over it.
        """
        scored = mask.bool()
        padding = self.model.config.get_text_config().pad_token_id
        if padding is not None:
            scored = scored & (tokens != padding)
        return (scored * torch.arange(tokens.shape[1], device=tokens.device)).argmax(-1)
