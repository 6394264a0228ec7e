"""Draw the loss curve of a run: python docs/plot_loss.py OUTPUT_DIR PICTURE.svg"""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "recipec"  # the same ids each time
import matplotlib.pyplot as plt  # noqa: E402 - after the backend is chosen


def main() -> None:
    run, picture = Path(sys.argv[1]), Path(sys.argv[2])
    checkpoints = sorted(run.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
    history = json.loads((checkpoints[-1] / "trainer_state.json").read_text())["log_history"]
    figure, axes = plt.subplots(figsize=(7, 3.2))
    for key, label, style in (("loss", "training", "-"), ("eval_loss", "evaluation", "o--")):
        points = [(row["step"], row[key]) for row in history if key in row]
        axes.plot(*zip(*points, strict=True), style, label=label, linewidth=1.4, markersize=4)
    axes.set_xlabel("optimizer step")
    axes.set_ylabel("loss (nats per token)")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(picture, metadata={"Date": None})


if __name__ == "__main__":
    main()
