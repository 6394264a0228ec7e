"""The words of `recipec plan` that are no keys of a recipe, and what each counts."""

from __future__ import annotations

# Parts of the memory, as the plan and its document name them.
MEMORY_PARTS = {
    "weights": "The weights of the model that is trained: all of them, or this GPU's shard. With adapters, the frozen "
    "base.",
    "adapters": "The weights of the adapter, which alone are trained.",
    "master weights": "fp32 copies of the trained weights, which DeepSpeed keeps beside bf16 ones.",
    "optimizer states": "What the optimizer keeps for every trained weight: two moments for AdamW.",
    "gradients": "The gradients of the trained weights that exist at the peak.",
    "reference model": "The weights of the reference, which the loss compares the model with.",
    "teacher model": "The weights of the teacher, whose probabilities are learned.",
    "teacher states": "The teacher's last hidden states for a micro batch, which its head reads within the loss.",
    "reward models": "The weights of the models that score the answers, whole on every GPU.",
    "fisher information": "With `train.ewc`: how much each weight matters for the general rows, a number per weight.",
    "starting weights": "With `train.ewc`: the weights as they were before step 1, which the penalty compares with.",
    "activations": "What the forward pass keeps for the backward pass of all layers; with gradient checkpointing, the "
    "inputs of the recomputed layers alone.",
    "working set": "What the one part of the model that runs at the peak needs for itself, such as a layer that runs "
    "backward, with what its recomputation keeps.",
    "keys and values": "Of the answers that the model writes itself: those of every token so far, in all layers.",
    "generation engine": "What vLLM holds while it writes answers: a copy of the weights, keys and values, buffers.",
    "logits": "What the head and the loss take: the scores of the words of the vocabulary, in tiles where TRL "
    "computes them so.",
    "autocast cache": "Copies of fp32 weights in the type that the model computes in, which autocast keeps in a "
    "forward pass.",
    "communication buffers": "Gradients on their way between GPUs and, where weights are sharded, those of the "
    "layers that run.",
}
_OTHERS = {
    "allocated": "Memory that tensors take, as `torch.accelerator.max_memory_allocated` counts it. Plans are chosen "
    "by it, and training logs it as `peak_memory_gib`.",
    "reserved": "Allocated memory with what PyTorch's allocator holds ready beside it. What the driver takes for "
    "itself, and NCCL, is added to it: nvidia-smi shows the sum.",
    "usable": "What a plan may allocate on a device: its memory, without what the driver takes, what the allocator's "
    "cache is expected to add, and 5% for what the law misses.",
    "accepted": "The values that a recipe may set without a warning (W0501), as rule books, papers or the library's "
    "own recipes have them.",
    "exposed communication": "Time in which a GPU waits for others: what computation does not hide. The line `links` "
    "shows its share of a step.",
    "bound by": "What most of a step's time goes to: computation, memory bandwidth, communication, offload or the "
    "optimizer.",
    "measured over predicted": "What published runs measured, divided by what recipec predicts for them. At +4%, a "
    "run took 4% more than predicted. Where no run of this kind was scored, the plan says so and "
    "names the nearest ones, where there are any. The runs are listed in recipec's repository, in benchmarks/results.",
    "peak": "The moment of a step at which most memory is allocated; the plan names it in parentheses beside the "
    "figure.",
    "micro batch": "The rows that go through the model at once on one GPU. Micro batch x accumulation x ranks is the "
    "global batch. See `train.micro_batch_size`.",
    "idle": "GPUs that the recipe has and the plan leaves unused, since no layout that fits on more of them is "
    "clearly faster.",
}
_ELSEWHERE = {
    "accepts": "accepted",
    "band": "measured over predicted",
    "bound": "bound by",
    "exposed": "exposed communication",
    "links": "exposed communication",
}


def in_plans(word: str) -> str | None:
    """The page of a word of the plan; None where plans do not use it."""
    known = {**MEMORY_PARTS, **_OTHERS}
    plain = " ".join(word.lower().replace("_", " ").split())
    name = _ELSEWHERE.get(plain, plain)
    return f"# {name}: a word of `recipec plan`\n\n{known[name]}\n" if name in known else None
