"""Words of bundles, plans and diagnostics that name no key, rule or row, and what they mean."""

from __future__ import annotations

GLOSSARY = {
    "bundle": "The folder that `recipec build` writes: scripts, configuration, README and the records in `.recipec/`.",
    "preflight": "The checks that `preflight.py` of a bundle makes before step 1: data, plan, disk space and "
    "checkpoints.",
    "leak": "A training row whose prompt is also in the evaluation or test split of its own or a later stage. "
    "prepare_data.py removes it.",
    "baseline": "What evaluate.py measures before training, with the model that the stage starts from.",
    "micro step": "One forward and backward pass of a GPU. An optimizer step has one for each accumulated micro batch.",
    "peak memory": "The most memory that tensors take on a GPU during training, logged as `peak_memory_gib`; on a "
    "CPU the most that the process takes.",
    "source map": "The record in `.recipec/source_map.json` of which decisions are behind each generated line.",
    "refusal": "A field of OpenAI's messages that says with what a request is refused; `content` is null then. recipec "
    "reads `content` alone: to learn refusals, make them the content, with the command that `recipec check` prints.",
    "eval_loss": "The loss on the evaluation split, logged at every evaluation.",
    "train_eval_gap": "How far eval_loss is above the training loss, as a share of the training loss. For methods that "
    "rewards judge, the reward in training minus the reward on the evaluation split.",
    "tokens_per_second": "Tokens that each GPU trains on per second, without padding, logged during training.",
    "peak_memory_gib": "The most memory that tensors took on a GPU so far, logged during training; on a CPU, the most "
    "that the process took.",
}


def in_bundles(word: str) -> str | None:
    """The page of a word of bundles; None for any other word."""
    plain = " ".join(word.lower().split())
    return f"# {plain}: a word of bundles and plans\n\n{GLOSSARY[plain]}\n" if plain in GLOSSARY else None
