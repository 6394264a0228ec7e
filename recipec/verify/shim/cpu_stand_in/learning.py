"""What the checks need from inside a training: its rows, fewer of them, its types, final logits, a sudden death."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import signal
import sys
from pathlib import Path

PROBE_TOKENS, SCORED = 32, 8  # as in probes/reload.py; FP8 products need a multiple of 16 tokens
MOST_ROWS = {}  # split -> how many of its rows a script is given here, where that is fewer than there are


def first_rows(module, scripts):
    """A script of the bundle trains on its first rows only: {its path in the bundle: how many}."""
    load = module.load_dataset

    def load_dataset(*args, **kwargs):
        rows = load(*args, **kwargs)
        running = Path(sys.argv[0]).resolve().as_posix()
        if Path(str(kwargs.get("data_files"))).name != "train.jsonl":
            return rows
        for path, most in scripts.items():
            if running.endswith(f"/{path}") and len(rows) > most:
                rows = rows.select(range(most))
                MOST_ROWS["train"] = most
        return rows

    module.load_dataset = sys.modules["datasets"].load_dataset = load_dataset


def learned_tokens(module, scripts):
    """Count what the trainer's rows teach, and what evaluation takes those of the files to teach, by split.

    Into learned_tokens.json. For each script of the bundle: the answers of a row that it encodes one by one, whether
    all their tokens count, and how many rows are evaluated on the way.
    """
    train = module.Trainer.train

    def counted(self, *args, **kwargs):
        running = Path(sys.argv[0]).resolve().as_posix()
        how = next(how for path, how in scripts.items() if running.endswith(f"/{path}"))
        if self.args.should_save and not getattr(self.args, "packing", False):
            write_counts(self.args.output_dir, {"train": self.train_dataset, "eval": self.eval_dataset}, self, how)
        return train(self, *args, **kwargs)

    module.Trainer.train = counted


def write_counts(folder, given, trainer, how):
    """The number and learned tokens of the rows that a trainer is given of each split, and of those in its file."""
    rows, data = sys.modules["rows"], sys.modules["__main__"].DATA
    found = {}
    for split, own in given.items():
        most = MOST_ROWS.get(split, how["eval_rows"] if split == "eval" else None)
        texts = [json.loads(line) for line in (data / f"{split}.jsonl").read_text().splitlines()[:most]]
        scored = sum(_scored(rows, text, trainer, answer, how["all"]) for text in texts for answer in how["answers"])
        trained = rows.trained_tokens(own)
        found[split] = {"rows": len(own), "rows_of_file": len(texts), "trained": trained, "evaluated": scored}
    Path(folder, "learned_tokens.json").write_text(json.dumps(found))


def _scored(rows, text, trainer, answer, every):
    """Tokens of a row, or of one answer of it, that evaluation scores."""
    tokens, learned = rows.encode(text, trainer.processing_class, *answer)
    most = getattr(trainer.args, "max_length", None)  # trainers that write answers cut no row
    return min(len(tokens), most) if every else sum(learned[:most])


def final_logits(module, folder):
    """When a model is trained, write its logits on fixed tokens to FOLDER/NAME_OF_OUTPUT_FOLDER.json.

    Before its weights are saved, which may round them.
    """
    trainer = module.Trainer
    train = trainer.train

    def then_logits(self, *args, **kwargs):
        found = train(self, *args, **kwargs)
        logits = _logits(self)
        if self.args.should_save:
            target = Path(folder, f"{Path(self.args.output_dir).name}.json")
            target.write_text(json.dumps(logits))
        return found

    trainer.train = then_logits


def _logits(trainer):
    """Of a language model those of the last token of a fixed sequence; of one that scores, its scores of several.

    All ranks compute them together.
    """
    import torch

    model = getattr(trainer.model_wrapped, "_orig_mod", trainer.model_wrapped)
    model.eval()  # an engine of DeepSpeed returns nothing
    _as_saved(model)
    device = next(trainer.model.parameters()).device
    first, *others = (
        torch.arange(10 + shift, 10 + shift + PROBE_TOKENS, device=device)[None] for shift in range(SCORED)
    )
    with torch.no_grad():
        found = model(input_ids=first, **_boundaries(trainer)).logits[0]
        if found.ndim == 2:
            return found[-1].float().tolist()
        return torch.cat([found, *(model(input_ids=more).logits[0] for more in others)]).float().tolist()


def _as_saved(model):
    """Layers that round their products to FP8 compute with what is saved, as those of a model that is loaded do."""
    import torch

    for layer in model.modules():
        if type(layer).__name__ in ("Float8Linear", "Rounding"):
            layer.forward = functools.partial(torch.nn.Linear.forward, layer)


def _boundaries(trainer):
    """That a row is one example, for a kernel that must be told."""
    import torch

    if trainer.model.config._attn_implementation != "torch_varlen":
        return {}
    return {"cu_seq_lens_q": torch.tensor([0, PROBE_TOKENS], dtype=torch.int32), "max_length_q": PROBE_TOKENS}


def die_after(module, step):
    """Kill this process without warning when optimizer step `step` and what belongs to it are done."""
    handler = module.CallbackHandler
    begin = handler.on_step_begin

    def on_step_begin(self, args, state, control):
        if state.global_step >= step:
            os.kill(os.getpid(), signal.SIGKILL)
        return begin(self, args, state, control)

    handler.on_step_begin = on_step_begin


def first_step(module, value):
    """Count the tensors of each type that the optimizer changes, when its first step begins, into first_step.json.

    Not those of the model: FSDP leaves the last gathered ones there in the type that it computes in.
    """
    handler = module.CallbackHandler
    begin = handler.on_step_begin

    def on_step_begin(self, args, state, control):
        if args.should_save and state.global_step == 0:
            tensors = (tensor for group in self.optimizer.param_groups for tensor in group["params"])
            types = [str(tensor.dtype).removeprefix("torch.") for tensor in tensors]
            counts = {name: types.count(name) for name in sorted({*types})}
            Path(args.output_dir, "first_step.json").write_text(json.dumps(counts))
        return begin(self, args, state, control)

    handler.on_step_begin = on_step_begin


def noted_rows(module, prefix):
    """Note the rows of every micro step, by digests of their tokens, in PREFIX-RANK: a line with its step for each."""
    step = module.Trainer.training_step

    def training_step(self, model, inputs, *args, **kwargs):
        with Path(f"{prefix}-{self.args.process_index}").open("a") as file:
            print(json.dumps({"step": self.state.global_step, "rows": _digests(inputs)}), file=file)
        return step(self, model, inputs, *args, **kwargs)

    module.Trainer.training_step = training_step


TOY_SCALE = 8  # of RLOO, whose KL is taken off rewards as they are: those of chance then spread by about 1


def toy_rewards(module, value):
    """Answers are judged by the share of their tokens that a toy likes; the bundle's functions run, too."""
    import torch

    trainer = module.GRPOTrainer if hasattr(module, "GRPOTrainer") else module.RLOOTrainer
    scale = 1 if hasattr(module, "GRPOTrainer") else TOY_SCALE
    judge = trainer._calculate_rewards
    _note_liked(trainer)

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        found = torch.zeros_like(judge(self, inputs, prompts, completions, completion_ids_list))
        counts = next(place for place, weight in enumerate(self.reward_weights) if weight)
        mine = torch.tensor(_shares(self, completion_ids_list), device=found.device) * scale
        found[:, counts] = self.accelerator.gather(mine) / self.reward_weights[counts]
        return found

    trainer._calculate_rewards = _calculate_rewards


def toy_scores(module, value):
    """The same for the trainer of PPO that a bundle brings."""
    judge = module.PPOTrainer.rewards
    _note_liked(module.PPOTrainer)

    def rewards(self, rows, answers):
        found, counts = judge(self, rows, answers), next(n for n, w in enumerate(self.args.reward_weights) if w)
        scale = [float(n == counts) / self.args.reward_weights[counts] for n in range(len(found[0]))]
        return [[share * each for each in scale] for share in _shares(self, answers)]

    module.PPOTrainer.rewards = rewards


def _note_liked(trainer):
    """The toy likes tokens whose embedding begins with a positive number: a hidden state can learn to ask for them.

    The embeddings are those of the model before training, which a resumed training has at its beginning, too.
    """
    make = trainer.__init__

    def __init__(self, *args, **kwargs):
        make(self, *args, **kwargs)
        self.liked = [number > 0 for number in _first_numbers(self.model)]

    trainer.__init__ = __init__


def _first_numbers(model):
    """Of the embedding of every token, also where ranks share them."""
    parts = (part for part in model.modules() if hasattr(part, "get_output_embeddings"))
    weight = next(found for part in parts if (found := part.get_output_embeddings()) is not None).weight
    if hasattr(weight, "ds_id"):
        from deepspeed.runtime.zero import GatheredParameters

        with GatheredParameters([weight]):
            return weight[:, 0].tolist()
    return (weight.full_tensor() if hasattr(weight, "full_tensor") else weight)[:, 0].tolist()


def _shares(trainer, answers):
    return [sum(trainer.liked[token] for token in answer) / max(len(answer), 1) for answer in answers]


def _digests(inputs):
    """One digest for each sequence of a batch, without its padding; of prompts that are still to be answered, each."""
    if isinstance(inputs, list):
        return [hashlib.sha256(json.dumps(row["prompt"]).encode()).hexdigest()[:12] for row in inputs]
    tokens = inputs["input_ids"]
    mask = inputs.get("attention_mask")
    rows = [row if mask is None else row[mask[index].bool()] for index, row in enumerate(tokens)]
    return [hashlib.sha256(json.dumps(row.tolist()).encode()).hexdigest()[:12] for row in rows]


PATCHES = {
    "toy-scores": ("ppo_trainer", toy_scores),
    "toy-rewards": ("trl.trainer.grpo_trainer", toy_rewards),
    "toy-rloo-rewards": ("trl.trainer.rloo_trainer", toy_rewards),
    "first-step": ("transformers.trainer_callback", first_step),
    "noted-rows": ("transformers.trainer", noted_rows),
    "first-rows": ("datasets.load", first_rows),
    "learned-tokens": ("transformers.trainer", learned_tokens),
    "final-logits": ("transformers.trainer", final_logits),
    "die-after": ("transformers.trainer_callback", die_after),
}
