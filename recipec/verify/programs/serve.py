"""`vllm serve MODEL` without a GPU: what TRL asks of the server, answered by transformers with the weights it is sent.

Weights travel in a file in place of NCCL; everything else goes over the addresses of vLLM 0.30.
"""

from __future__ import annotations

import argparse
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from types import SimpleNamespace

import torch
from cpu_stand_in.generator import StandInEngine, received


def options() -> argparse.Namespace:
    """What serve_answers.py may say; another word ends the server."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--revision")
    parser.add_argument("--host", required=True)
    for name in ("port", "tensor-parallel-size", "max-model-len", "max-num-seqs", "max-num-batched-tokens", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--dtype", choices=["bfloat16", "float16", "float32"], required=True)
    parser.add_argument("--gpu-memory-utilization", type=float, required=True)
    parser.add_argument("--trust-remote-code", action="store_true")
    parser.add_argument("--generation-config", choices=["vllm"], required=True)
    parser.add_argument("--logprobs-mode", required=True)
    parser.add_argument("--weight-transfer-config", type=json.loads, default=None)
    found = parser.parse_args()
    gpus = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
    if "expandable_segments:True" in os.environ.get("PYTORCH_ALLOC_CONF", ""):
        parser.error("GPUs that share a layer cannot open each other's expandable segments")
    if len(gpus) != found.tensor_parallel_size:
        parser.error(f"{found.tensor_parallel_size} GPUs share the layers, and {len(gpus)} are visible")
    return found


class Server:
    """The state of the server: its engine, and where weights come from."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked, self.lock, self.port = asked, Lock(), 0
        self.engine = StandInEngine(asked.model, asked.max_model_len, asked.gpu_memory_utilization)
        self.engine.sleep(level=2)  # until the training sends some

    def get(self, path: str):
        config = {
            "weight_transfer_config": self.asked.weight_transfer_config,
            "model_config": {"logprobs_mode": self.asked.logprobs_mode},
        }
        return {
            "/health": {},
            "/v1/models": {"data": [{"id": self.asked.model}]},
            "/server_info": {"vllm_config": config} if os.environ.get("VLLM_SERVER_DEV_MODE") == "1" else None,
            "/get_world_size": {"world_size": self.asked.tensor_parallel_size},
        }.get(path)

    def post(self, path: str, body: dict):
        if path == "/init_weight_transfer_engine":
            self.port = body["init_info"]["master_port"]
        elif path == "/start_weight_update":
            self.engine.sleep(level=2)  # what is not sent anew is not there
        elif path == "/update_weights":
            self.engine.load_weights(received(self.port, body["update_info"]["names"]))
        elif path == "/v1/completions":
            return self.answers(body)
        elif path not in ("/finish_weight_update", "/reset_prefix_cache"):
            return None
        return {"success": True}

    def answers(self, body: dict):
        """What is drawn depends on the weights and the prompts alone, so that a restarted server writes the same."""
        held = sum(weight.double().abs().sum().item() for weight in self.engine.weights.values())
        torch.manual_seed(hash((held, *map(tuple, body["prompt"]))))
        wanted = SimpleNamespace(**{key: body[key] for key in ("max_tokens", "temperature", "top_p", "top_k")})
        asked = [{"prompt_token_ids": prompt} for prompt in body["prompt"] for _ in range(body["n"])]
        return {"choices": [_choice(found) for found in self.engine.generate(asked, wanted, use_tqdm=False)]}


def _choice(found) -> dict:
    """An answer as the address of completions tells it."""
    answer = found.outputs[0]
    likely = [next(iter(of_token.items())) for of_token in answer.logprobs]
    return {
        "prompt_token_ids": found.prompt_token_ids,
        "token_ids": answer.token_ids,
        "logprobs": {
            "tokens": [f"token_id:{token}" for token, _ in likely],
            "token_logprobs": [each.logprob for _, each in likely],
            "top_logprobs": [None] * len(likely),
        },
    }


class Addresses(BaseHTTPRequestHandler):
    """One request after the other."""

    served: Server

    def do_GET(self) -> None:
        self._tell(self.served.get(self.path.partition("?")[0]))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        with self.served.lock:
            self._tell(self.served.post(self.path, body))

    def _tell(self, found) -> None:
        text = json.dumps({} if found is None else found).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


if __name__ == "__main__":
    asked = options()
    Addresses.served = Server(asked)
    ThreadingHTTPServer((asked.host, asked.port), Addresses).serve_forever()
