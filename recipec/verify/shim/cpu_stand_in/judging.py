"""What a training judges its checkpoints by, and whether it ends with the weights of one of them.

When its steps are done, what it trained is changed in memory: that is gone once the best checkpoint is loaded. So a
result that has it was not. Two trainings keep their weights: one that writes no checkpoint, and one that clears the
best checkpoint because it is the last, whose weights the model has.
"""

from __future__ import annotations

import sys
from pathlib import Path

JUDGED = {}  # step -> the metric that decides
LOADED = []  # the checkpoints whose weights are loaded at the end
CHANGE = 1.25


def best_is_loaded(module, value):
    """Note the metric of every evaluation and the checkpoint that is loaded; change the weights before."""
    trainer = module.Trainer
    evaluate, load, end = trainer._evaluate, trainer._load_best_model, trainer._finalize_training

    def _evaluate(self, *args, **kwargs):
        metrics, name = evaluate(self, *args, **kwargs), self.args.metric_for_best_model or ""
        name = name if name.startswith("eval_") else f"eval_{name}"
        if name in metrics and self.state.global_step:
            JUDGED[self.state.global_step] = metrics[name]
        return metrics

    def _load_best_model(self):
        LOADED.append(Path(self.state.best_model_checkpoint).name)
        return load(self)

    def _finalize_training(self, *args, **kwargs):
        cleared = self.args.load_best_model_at_end and self.state.best_model_checkpoint is None
        if cleared and self.state.best_global_step == self.state.global_step:
            LOADED.append(f"checkpoint-{self.state.global_step}")
        elif self.args.save_strategy != "no":
            change(self.model)
        return end(self, *args, **kwargs)

    def change(model):
        with sys.modules["torch"].no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.mul_(CHANGE)

    trainer._evaluate, trainer._load_best_model, trainer._finalize_training = (
        _evaluate,
        _load_best_model,
        _finalize_training,
    )


PATCHES = {"best-is-loaded": ("transformers.trainer", best_is_loaded)}
