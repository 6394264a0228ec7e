"""scores.py JSON: the loss of the first rows of a file with the model that a bundle's evaluate.py loads, row by row."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch


def mean_loss(model: torch.nn.Module, rows: list[tuple[list[int], list[int]]]) -> float:
    """Of all learned tokens of the rows, which are tokens and marks of the learned ones; in nats."""
    losses = []
    for tokens, learned in rows:
        ids = torch.tensor(tokens, device=model.device)
        logits = model(input_ids=ids[None], use_cache=False).logits[0, -len(tokens) :]  # behind a soft prompt
        chances = torch.log_softmax(logits.float(), -1)
        losses += [-chances[place, tokens[place + 1]] for place in range(len(tokens) - 1) if learned[place + 1]]
    return torch.stack(losses).mean().item()


@torch.no_grad()
def main(folder: str, rows: str, results: str) -> None:
    """Score the first rows of the file `rows` with the bundle's trained model, and write their number and mean loss."""
    sys.argv = [str(Path(folder, "evaluate.py")), "after"]
    sys.path.insert(0, folder)
    import evaluate

    lines = Path(rows).read_text(encoding="utf-8").splitlines()
    quick = min(evaluate.QUICK_ROWS, len(lines))
    starts = getattr(evaluate, "window_starts", lambda tokens, most: [0])  # of texts; rows are scored once
    model, tokenizer = evaluate.load("after")
    encoded = [evaluate.encode(json.loads(line), tokenizer) for line in lines[:quick]]
    cut = [
        (tokens[start : start + evaluate.MAX_LENGTH], learned[start : start + evaluate.MAX_LENGTH])
        for tokens, learned in encoded
        for start in starts(len(tokens), -(-evaluate.QUICK_ROWS // quick))
    ]
    Path(results).write_text(json.dumps({"rows": quick, "loss": mean_loss(model, cut)}))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
