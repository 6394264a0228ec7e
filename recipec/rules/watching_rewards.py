"""What to look at where a model writes answers, and where rewards judge them.

The loss of rewards starts anew with every generation, from about 0 in most variants, so it shows neither progress nor
overfitting: rewards do, of the training prompts and of held-out ones.
"""

from __future__ import annotations

_BEST = "{best}: the checkpoint with the highest value is loaded at the end"
_GAP = "reward of the training prompts far above eval_reward"

ONE_EPOCH_OF_REWARDS = (
    f"{{best}}, train_eval_gap: {{best}} rises to the end; {_GAP} is a reason to lower `train.learning_rate`"
)

# Decision -> what to watch where the model writes the answers that it learns from, whatever judges them.
OF_ANSWERS = {
    "lora_targets": "loss, grad_norm: the loss falls; if it stays flat although grad_norm is above 0, add layers to "
    "`train.lora.targets`",
    "overflow": "dropped_rows: the share of prompts that was dropped",
    "template": "dropped_rows: below 5%; the printed prompts look as the model's documentation shows",
    "loss_on": "completions/mean_length: above 0; the tokens of the answers that count in the loss",
    "eos_token": "completions/clipped_ratio: below 0.5; if the answers do not end, the model stops at another token",
    "eval_batch_size": "peak_memory_gib: near the plan; keys and values of so many answers are in memory at once",
}

# Decision -> what to watch, in place of the text for a method that its loss judges; {best} is what judges a checkpoint.
OF_REWARDS = OF_ANSWERS | {
    "alignment_method": "{best}: rises in the stage that the method adds",
    "stages": "{best}: rises in the last stage; one that starts below the result of the stage before has wrong weights",
    "adaptation": "{best}, reward: both rise; if only reward does, lower `train.learning_rate`",
    "quantization": "{best}: rises; on a quantized base it starts close to that of the model before quantization",
    "double_quantization": "peak_memory_gib, {best}: memory matches the plan, and {best} starts close to "
    "that of the model before quantization",
    "lora_variant": "{best}: compare it with a run of plain LoRA on the same prompts",
    "precision": "grad_norm, entropy: finite from step 1; a NaN comes from a high `train.learning_rate`",
    "optimizer": "peak_memory_gib, {best}: memory matches the plan; with another optimizer, compare {best} "
    "with an AdamW run",
    "deduplication": f"train_eval_gap: near 0; {_GAP} shows prompts that were learned by heart",
    "leak_check": "{best}: far above the baseline from the first evaluation on means a leak",
    "eval_fraction": "{best}: changes smoothly; if it jumps between evaluations, raise `data.eval_fraction`",
    "test_fraction": "eval_reward: the mean reward that evaluate.py finds on the test rows is close to the best one",
    "learning_rate": "reward, entropy, grad_norm: the reward rises within 100 steps; if it collapses or entropy falls "
    "to 0, halve `train.learning_rate`, and if both stay level, double it",
    "decay_share": "learning_rate, {best}: the rate stays level, then falls over this share of the run, and the "
    "reward rises with it",
    "epochs": f"{{best}}, train_eval_gap: {{best}} rises to the end; {_GAP} is a reason for fewer `train.epochs`",
    "adam_beta2": "grad_norm, reward: no spikes; if there are, lower `train.learning_rate`",
    "weight_decay": f"train_eval_gap: near 0; if it widens, with {_GAP}, raise `train.weight_decay` towards 0.1",
    "global_batch_size": "reward, grad_norm: both are smooth; if they are noisy, raise `train.global_batch_size`",
    "seed": "reward: repeats when the same bundle runs on the same hardware",
    "tracker": "reward: appears in the tracker after the first logging interval",
    "sampling": "reward, {best}: both rise; batches differ only by chance",
    "lora_rank": "reward, train_eval_gap: the reward rises; if it stays level, raise `train.lora.rank`, and if the gap "
    "widens, lower it",
    "lora_expert_rank": "reward, train_eval_gap: the reward rises; if it stays level, raise `train.lora.expert_rank`",
    "lora_alpha": "grad_norm, reward: no spikes; if there are, lower `train.lora.alpha` or `train.learning_rate`",
    "lora_dropout": "entropy, reward: no jump at step 1; dropout counts as a change of the policy",
    "lora_targets": "reward, grad_norm: the reward rises; if it stays level although grad_norm is above 0, add layers "
    "to `train.lora.targets`",
    "eval_every": "{best}, train_eval_gap: a turning point is visible; if fewer than 5 evaluations hide it, lower "
    "`train.eval_every`",
    "save_every": _BEST,
    "keep_checkpoints": "{best}, epoch: the output folder holds the best and the newest checkpoint",
    "eval_samples": "{best}, tokens_per_second: evaluations stay a small part of the run",
    "best_metric": _BEST,
    "early_stopping_patience": f"{{best}}, train_eval_gap: {_GAP} shows overfitting",
    "logging_steps": "reward, grad_norm, learning_rate: a new value after each interval",
}
