"""vLLM's part: transformers writes, with the weights that vLLM would get and no others.

Asleep they are not numbers, so that a training which does not send them anew writes nothing.
"""

from __future__ import annotations

import os
from itertools import groupby
from types import SimpleNamespace

NOTHING = float("nan")
ALLOCATORS = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"


class StandInEngine:
    """What TRL calls of vllm.LLM."""

    def __init__(self, model, max_model_len, gpu_memory_utilization, **others):
        from transformers import AutoModelForCausalLM, AutoTokenizer

        if not 0 < gpu_memory_utilization < 1:
            raise ValueError(f"gpu_memory_utilization is {gpu_memory_utilization}, not a share of the GPU")
        if any("expandable_segments:True" in os.environ.get(name, "") for name in ALLOCATORS):
            raise ValueError("expandable segments do not go with vLLM's sleep mode, which keeps a memory pool")
        self.tokenizer, self.longest = AutoTokenizer.from_pretrained(model), max_model_len
        self.model = AutoModelForCausalLM.from_pretrained(model).eval()
        self.weights = dict(self.model.named_parameters())
        runner = SimpleNamespace(model=SimpleNamespace(load_weights=self.load_weights))
        worker = SimpleNamespace(model_runner=runner)
        config = SimpleNamespace(max_model_len=max_model_len)
        executor = SimpleNamespace(driver_worker=worker)
        self.llm_engine = SimpleNamespace(model_executor=executor, model_config=config)

    def load_weights(self, weights):
        for name, weight in weights:
            self.weights[name].data.copy_(weight)

    def sleep(self, level):
        for weight in self.weights.values():
            weight.data.fill_(NOTHING)

    def wake_up(self, tags):
        """Nothing is put away here."""

    def reset_prefix_cache(self):
        """No generation is kept here."""

    def generate(self, prompts, sampling_params, use_tqdm):
        missing = [name for name, weight in self.weights.items() if weight.isnan().any()]
        if missing:
            raise ValueError(f"{len(missing)} of {len(self.weights)} weights were not sent, among them {missing[0]}")
        asked = groupby(prompts, key=lambda prompt: prompt["prompt_token_ids"])
        return [answer for prompt, same in asked for answer in self._answers(prompt, len([*same]), sampling_params)]

    def _answers(self, prompt, count, wanted):
        import torch

        if len(prompt) + wanted.max_tokens > self.longest:
            raise ValueError(f"{len(prompt)} tokens and {wanted.max_tokens} of an answer are over {self.longest}")
        end = self.tokenizer.eos_token_id
        with torch.no_grad():
            found = self.model.generate(
                torch.tensor([prompt]),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                max_new_tokens=wanted.max_tokens,
                num_return_sequences=count,
                do_sample=True,
                temperature=wanted.temperature,
                top_p=wanted.top_p,
                top_k=wanted.top_k,
                eos_token_id=end,
                pad_token_id=end,
                output_scores=True,
                return_dict_in_generate=True,
            )
        written = found.sequences[:, len(prompt) :]
        likely = torch.stack(found.scores, dim=1).float().log_softmax(-1).gather(-1, written[..., None])[..., 0]
        return [_output(prompt, *row, end) for row in zip(written.tolist(), likely.tolist(), strict=True)]


def _output(prompt, written, likely, end):
    """An answer as far as its end token."""
    length = written.index(end) + 1 if end in written else len(written)
    of_tokens = [{token: SimpleNamespace(logprob=each, rank=1)} for token, each in zip(written, likely, strict=True)]
    one = SimpleNamespace(token_ids=written[:length], logprobs=of_tokens[:length])
    return SimpleNamespace(prompt_token_ids=prompt, outputs=[one])


def vllm(module, value):
    """What TRL imports from the package is here."""
    module.is_vllm_available = lambda: True
    module.LLM, module.SamplingParams, module.StructuredOutputsParams = StandInEngine, SimpleNamespace, SimpleNamespace


PATCHES = {"vllm": ("trl.generation.vllm_generation", vllm)}
