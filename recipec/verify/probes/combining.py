"""combining.py JSON: run a bundle's combine.py, and hold what it makes to adapters that are loaded one by one."""

from __future__ import annotations

import json
import math
import sys
from contextlib import redirect_stdout
from copy import deepcopy
from importlib.util import module_from_spec, spec_from_file_location
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from peft import AutoPeftModelForCausalLM
from safetensors.torch import load_file

TOKENS = 24
Shares = dict[str, float]


def run(combine: ModuleType, *words: str) -> str:
    """What combine.py prints for a command line, or what it stops with."""
    sys.argv = ["combine.py", *words]
    said = StringIO()
    try:
        with redirect_stdout(said):
            combine.main()
    except SystemExit as stopped:
        return str(stopped)
    return said.getvalue().strip()


def logits(model: torch.nn.Module) -> torch.Tensor:
    """Of a fixed sequence."""
    return model(input_ids=torch.arange(10, 10 + TOKENS)[None]).logits[0].float()


def alone(folder: Path) -> torch.nn.Module:
    """One adapter on its base in fp32, as PEFT loads it."""
    return AutoPeftModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32).eval()


def summed(outputs: Path, shares: Shares) -> torch.Tensor:
    """The logits of the base whose weights have the weighted updates of the adapters added, one by one."""
    first, *_ = shares
    base = deepcopy(alone(outputs / first).unload())
    for task, share in shares.items():
        config = json.loads((outputs / task / "adapter_config.json").read_text())
        scale = config["lora_alpha"] / (math.sqrt(config["r"]) if config["use_rslora"] else config["r"])
        for name, a in load_file(outputs / task / "adapter_model.safetensors").items():
            if ".lora_A." in name:
                b = load_file(outputs / task / "adapter_model.safetensors")[name.replace("lora_A", "lora_B")]
                module = base.get_submodule(name.removeprefix("base_model.model.").partition(".lora_A.")[0])
                module.weight.data += share * scale * (b.float() @ a.float())
    return logits(base)


def apart(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference, as a share of the largest size."""
    return ((found - wanted).abs().max() / wanted.abs().max()).item()


def exactness(combine: ModuleType, outputs: Path, shares: Shares) -> dict[str, Any]:
    """How far the ensembled logits are from those of the adapters alone; and the merged ones, and what merges print."""
    each = {task: logits(combine.evaluation_of(task).load("after")[0]).softmax(-1) for task in shares}
    together = sum(share * each[task] for task, share in shares.items())
    found = {"ensemble_apart": apart(ensembled(combine, shares), together)}
    return found | (merges(combine, outputs, shares) if hasattr(combine, "merge") else {})


def merges(combine: ModuleType, outputs: Path, shares: Shares) -> dict[str, Any]:
    """How far merged logits are from those of the adapters alone, and what merges print."""
    weights = [f"{task}={share}" for task, share in shares.items()]
    merged, said = outputs / "exact", {}
    said["linear"] = run(combine, "merge", "--weights", *weights, "-o", str(merged))
    for how in ("ties", "dare"):
        said[how] = run(combine, "merge", "--how", how, "--weights", *weights)
    said["unequal"] = run(combine, "merge", "--weights", *[f"{task}=0.7" for task in shares])
    return {
        "said": said,
        "merged_apart": apart(logits(alone(merged)), summed(outputs, shares)),
        "moved": apart(logits(alone(merged)), logits(alone(outputs / next(iter(shares))))),
    }


def ensembled(combine: ModuleType, shares: Shares) -> torch.Tensor:
    """The probabilities of combine.py's ensemble."""
    model, _ = combine.load()
    return logits(combine.Ensemble(model, shares)).exp()


@torch.no_grad()
def main(folder: str, question: str, results: str) -> None:
    """Run merge, compare and ask of the bundle in `folder`, and write what was found."""
    sys.path.insert(0, folder)
    spec = spec_from_file_location("combine", f"{folder}/combine.py")
    combine = module_from_spec(spec)
    spec.loader.exec_module(combine)
    outputs, tasks = Path(folder, "outputs"), list(combine.SCRIPTS)
    shares = dict.fromkeys(tasks, 0.0) | {tasks[0]: 0.7, tasks[1]: 0.3}
    found = exactness(combine, outputs, {task: share for task, share in shares.items() if share})
    found["printed"] = run(combine, "compare", "--rows", "8")
    found["table"] = json.loads((outputs / "combined" / "compare.json").read_text())
    found["routed"] = run(combine, "ask", question)
    found["asked"] = {task: run(combine, "ask", question, "--task", task) for task in tasks}
    found["together"] = run(combine, "ask", question, "--ensemble", f"{tasks[0]}=0.5", f"{tasks[1]}=0.5")
    found["own"] = {task: answered_alone(combine, task, question) for task in tasks}
    for mix in getattr(combine, "MIX", ()):
        found["fused"] = run(combine, "ask", question, "--fused")
        found["own"]["fused"] = answered_alone(combine, mix, question).replace(mix, "fused", 1)
        found["frozen"] = frozen(outputs, tasks, mix)
    Path(results).write_text(json.dumps(found))


def frozen(outputs: Path, tasks: list[str], mix: str) -> list[str]:
    """The weights of the tasks' adapters that the mix has otherwise, or has not."""
    mixed, moved = load_file(outputs / mix / "adapter_model.safetensors"), []
    for place, task in enumerate(tasks):
        for name, trained in load_file(outputs / task / "adapter_model.safetensors").items():
            module, _, part = name.partition(".bottleneck_")
            held = mixed.get(f"{module}.fusion_mixed.{part.replace('.', '_')}")
            moved += [f"{task}: {name}"] * (held is None or not torch.equal(held[place], trained))
    return moved


def answered_alone(combine: ModuleType, task: str, question: str) -> str:
    """What evaluate.py's own model of the task, with its one adapter, says to the question."""
    evaluation = combine.evaluation_of(task)
    model, tokenizer = evaluation.load("after")
    answer = evaluation.answers(model, tokenizer, [combine.tokens_of(question, tokenizer)])[0]
    return f"{task}: {tokenizer.decode(answer, skip_special_tokens=True).strip()}".strip()  # an answer may be blank


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
