"""vLLM's part: transformers writes, with the weights that vLLM would get and no others.

Asleep they are not numbers, so that a training which does not send them anew writes nothing.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import zlib
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace

NOTHING = float("nan")
ALLOCATORS = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"


class StandInEngine:
    """What TRL calls of vllm.LLM."""

    def __init__(self, model, max_model_len, gpu_memory_utilization, **others):
        from transformers import AutoModelForCausalLM, AutoTokenizer

        if not 0 < gpu_memory_utilization < 1:
            raise ValueError(f"gpu_memory_utilization is {gpu_memory_utilization}, not a share of the GPU")
        sleeps = others.get("enable_sleep_mode", False)
        if sleeps and any("expandable_segments:True" in os.environ.get(name, "") for name in ALLOCATORS):
            raise ValueError("expandable segments do not go with vLLM's sleep mode, which keeps a memory pool")
        self.seed = others.get("seed", 0)
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
        asked = [(prompt, len([*same])) for prompt, same in groupby(prompts, key=lambda one: one["prompt_token_ids"])]
        with self._own_chance(asked):
            return [answer for prompt, count in asked for answer in self._answers(prompt, count, sampling_params)]

    @contextmanager
    def _own_chance(self, asked):
        """The ranks that share a copy have one seed, write the same answers, and each takes its own of them: by the
        questions and weights, which a resumed training has again."""
        import torch

        chance = zlib.crc32(repr(asked).encode(), self.seed)
        for weight in self.weights.values():
            chance = zlib.crc32(weight.detach().float().numpy().tobytes(), chance)
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(chance)
            yield

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


def vllm_server(module, value):
    """TRL's client of a server: the weights go into a file, everything else to the server as it is."""
    module.is_vllm_available = lambda: True
    module._HAS_STATEFUL_TRAINER_ENGINE = module._HAS_RESET_PREFIX_CACHE_SUCCESS = True
    module.packed_nccl_broadcast_producer = _send
    module.VLLMClient.init_communicator = _meet


def _meet(client, device):
    """The training and the server agree where weights are found."""
    if client.get_server_info()["weight_transfer_config"] is None:
        raise RuntimeError("the server was started without --weight-transfer-config")
    told = {"init_info": {"master_port": client.group_port, "world_size": client.get_world_size() + 1}}
    client._post(f"{client.base_url}/init_weight_transfer_engine", json=told)
    client.communicator = client.group_port


def _send(iterator, group, src, post_iter_func):
    """Write the weights where `received` looks, whole when they are there."""
    from safetensors.torch import save_file

    place = _weights_of(group)
    unfinished = place.with_suffix(".part")
    save_file({name: weight.detach().cpu().contiguous() for name, weight in iterator}, unfinished)
    unfinished.rename(place)


def received(port, names):
    """The weights that the training sends next, by the names that it told."""
    from safetensors.torch import load_file

    place, end = _weights_of(port), time.monotonic() + 60
    while not place.exists():
        if time.monotonic() > end:
            raise TimeoutError("the training told of weights and sent none")
        time.sleep(0.01)
    found = load_file(place)
    place.unlink()
    if found.keys() != set(names):
        raise ValueError(f"the training told of {len(names)} weights and sent {len(found)}")
    return found.items()


def _weights_of(port):
    return Path(tempfile.gettempdir()) / f"weights-{port}.safetensors"


def shared_gpus(module, value):
    """serve_answers.py finds so many GPUs, whose numbers it gives to programs that have none."""
    if Path(sys.argv[0]).name == "serve_answers.py":
        module.device_count = lambda: value


PATCHES = {
    "shared-gpus": ("torch.accelerator", shared_gpus),
    "vllm": ("trl.generation.vllm_generation", vllm),
    "vllm-server": ("trl.generation.vllm_client", vllm_server),
}
