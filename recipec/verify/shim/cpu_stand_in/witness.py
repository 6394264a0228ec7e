"""What a training and an evaluation really do, noted while they do it: settings, steps, and the tokens of the model.

Nothing is changed. Verification compares the notes with the plan and with the prepared rows.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path

from cpu_stand_in import judging, loss_weights

FIRST_STEPS = 6  # whose batches are noted
SPLITS = ("train", "eval", "test", "general")
BUILT = "_as_built"  # attribute of a configuration: its arguments as libraries left them


def built_arguments(module, root):
    """Keep every argument as the configuration and the libraries set it, whatever code of the bundle makes of it."""

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        if not _lies_below(sys._getframe(1).f_code.co_filename, root):
            self.__dict__.setdefault(BUILT, {})[name] = value

    module.TrainingArguments.__setattr__ = __setattr__


@functools.cache
def _lies_below(file, root):
    """Whether a script lies in a folder; what dataclasses make of themselves has no file."""
    return file.endswith(".py") and Path(file).resolve().is_relative_to(Path(root).resolve())


class Notes:
    """What is noted of one training, for OUTPUT/seen.json."""

    def __init__(self, target, names):
        self.target, self.names = Path(target), names
        self.found = {"changed": {}, "values": {}, "batches": [], "inputs": [], "rows": {}, "losses": []}
        self.found |= {"flags": {}, "given_flags": [], "accumulated": 1, "ranks": 1, "tokens": 0.0}
        self.given = {}  # the batch that is learned from, in the first step
        self.steps = {"count": 0, "decay": [], "beta2": [], "largest_norm": 0.0}

    def settings(self, args):
        """The planned arguments as they are now, and those that are others than when they were built."""
        self.found["values"] = {name: _plain(getattr(args, name)) for name in self.names if hasattr(args, name)}
        for name, built in getattr(args, BUILT, {}).items():
            now = getattr(args, name, None)
            if now is not built and repr(now) != repr(built):
                self.found["changed"][name] = [repr(built)[:80], repr(now)[:80]]

    def rows(self, tokenizer, answers, data):
        """The rows of every split as rows.py encodes them, each with its answers."""
        encode = sys.modules["rows"].encode
        for split in SPLITS:
            if (file := Path(data, f"{split}.jsonl")).is_file():
                texts = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
                self.found["rows"][split] = [[encode(text, tokenizer, *each) for each in answers] for text in texts]
                self.found["flags"][split] = [text.get("label") for text in texts]

    def batch(self, step, inputs):
        """The sequences that the trainer's loader gives in the first steps, with what is learned of each."""
        self.given = {}
        if step < FIRST_STEPS and isinstance(inputs, dict) and "input_ids" in inputs:
            self.given = {} if step else inputs
            self.found["batches"].append(sequences(inputs))
            self.found["given_flags"].append(inputs["label"].tolist() if "label" in inputs else None)

    def forward(self, model, args, kwargs):
        """The sequences that the model is given with their labels to learn from."""
        learns = model.training and sys.modules["torch"].is_grad_enabled()  # KTO compares with answers of other rows
        if learns and len(self.found["inputs"]) < FIRST_STEPS and kwargs.get("labels") is not None:
            self.found["inputs"].append(sequences(kwargs))

    def weigh(self, model, args, kwargs, output):
        """How much what the policy says counts in the loss of the first step, of each micro batch."""
        if self.given and model.training and sys.modules["torch"].is_grad_enabled():
            loss_weights.note(self.found["losses"], self.given, kwargs, output)
            self.given = {}

    def step(self, optimizer, *given):
        """How an optimizer decays weights, and how large the gradients are that it is given."""
        noted, groups = self.steps, [group for group in optimizer.param_groups if group["params"]]
        noted["count"] += 1
        noted["decay"] = sorted({*noted["decay"], *(float(group.get("weight_decay", 0.0)) for group in groups)})
        noted["beta2"] = sorted({*noted["beta2"], *(group["betas"][1] for group in groups if "betas" in group)})
        noted["largest_norm"] = max(noted["largest_norm"], _norm(groups))

    def write(self):
        best = {"judged": judging.JUDGED, "loaded": judging.LOADED}
        self.target.write_text(json.dumps(self.found | best | {"steps": self.steps}))


def _norm(groups):
    """Of the gradients that lie on this rank."""
    grads = [parameter.grad for group in groups for parameter in group["params"] if parameter.grad is not None]
    here = [grad.to_local() if hasattr(grad, "to_local") else grad for grad in grads]
    return sum(float(grad.detach().float().pow(2).sum()) for grad in here) ** 0.5


def _plain(value):
    """As JSON holds it."""
    value = getattr(value, "value", value)
    return value if isinstance(value, str | int | float | bool | None) else [str(each) for each in value]


def sequences(inputs):
    """The sequences of a batch without their padding: tokens, and marks of the learned ones, or None.

    A label that is not its own token is marked by 2. Packed rows are taken apart where positions begin again.
    """
    tokens, mask = inputs["input_ids"], inputs.get("attention_mask")
    labels, answered = inputs.get("labels"), inputs.get("completion_mask")
    starts = inputs.get("position_ids")
    found = []
    for place, row in enumerate(tokens.tolist()):
        here = [True] * len(row) if mask is None or mask.ndim > 2 else mask[place].bool().tolist()
        marks = answered[place].tolist() if answered is not None else [1] * len(row)
        if labels is not None:
            told = labels[place].tolist()
            marks = [0 if label == -100 else 1 if label == token else 2 for label, token in zip(told, row, strict=True)]
        parts = starts[place].tolist() if starts is not None else range(len(row))
        for token, mark, present, position in zip(row, marks, here, parts, strict=True):
            if present and (not found or position == 0 or found[-1][2] != place):
                found.append(([], [], place))
            if present:
                found[-1][0].append(token)
                found[-1][1].append(int(mark))
    told = labels is not None or answered is not None
    return [[tokens, marks if told else None] for tokens, marks, _ in found]


def training(module, given):
    """Note a training of transformers' Trainer: {"names": of arguments, "answers": {script: as in learned_tokens}}."""
    handler, trainer = sys.modules["transformers.trainer_callback"].CallbackHandler, module.Trainer
    train, step, begin = trainer.train, trainer.training_step, handler.on_step_begin
    notes = []

    def noted(self, *args, **kwargs):
        if self.args.should_save:
            notes.append(_begun(self.args.output_dir, given, self.processing_class))
            _of_steps(notes[0])
        found = train(self, *args, **kwargs)
        if notes:
            notes[0].settings(self.args)
            notes[0].write()
        return found

    def training_step(self, model, inputs, num_items_in_batch=None, **kwargs):
        if notes:
            if not notes[0].found["batches"] and not self.args.torch_compile:
                inner = self.accelerator.unwrap_model(model, keep_torch_compile=False)
                inner.register_forward_pre_hook(notes[0].forward, with_kwargs=True)
                inner.register_forward_hook(notes[0].weigh, with_kwargs=True)
                notes[0].found |= _of_step(self, num_items_in_batch)
            notes[0].batch(self.state.global_step, inputs)
        return step(self, model, inputs, num_items_in_batch, **kwargs)

    def on_step_begin(self, args, state, control):
        if notes:
            notes[0].settings(args)
        return begin(self, args, state, control)

    trainer.train, trainer.training_step, handler.on_step_begin = noted, training_step, on_step_begin


def _of_step(trainer, tokens):
    """What a loss of the step is divided by: micro batches, or the tokens that the Trainer counts on all ranks."""
    ranks = trainer.accelerator.num_processes // trainer.get_tp_size()
    found = {"accumulated": trainer.current_gradient_accumulation_steps, "ranks": ranks}
    return found if tokens is None else found | {"tokens": float(tokens) / ranks}


def _begun(folder, given, tokenizer):
    notes = Notes(Path(folder, "seen.json"), given["names"])
    running = Path(sys.argv[0]).resolve().as_posix()
    answers = next(answers for path, answers in given["answers"].items() if running.endswith(f"/{path}"))
    notes.rows(tokenizer, answers, sys.modules["__main__"].DATA)
    return notes


def _of_steps(notes):
    sys.modules["torch.optim.optimizer"].register_optimizer_step_pre_hook(notes.step)


def own_training(module, given):
    """The same for a train.py that has its steps itself, whose batches.py is this module."""
    make = module.steps

    def steps(rows, tokenizer, settings, rank, ranks, done):
        notes = None if rank else _begun(settings.output_dir, given, tokenizer)
        if notes:
            notes.settings(settings)
            _of_steps(notes)
        for step, batches in enumerate(make(rows, tokenizer, settings, rank, ranks, done), start=done):
            for batch in batches if notes else ():
                notes.batch(step, batch)
            yield batches
            if notes:
                notes.write()

    module.steps = steps


SCORED = {"sequences": [], "training": 0, "asked": [], "sampled": 0}  # of an evaluate.py
_WITHIN = []  # calls that are under way


def evaluation(module, folder):
    """Note what an evaluate.py gives to models, into FOLDER/STAGE-WHEN-RANK.json."""
    for name in ("PreTrainedModel", "PeftModel"):
        if hasattr(module, name):
            _note_calls(getattr(module, name), Path(folder))


def _evaluates():
    return Path(sys.argv[0]).name == "evaluate.py"


def _note_calls(network, folder):
    call = network.__call__

    def __call__(self, *args, **kwargs):
        if not _evaluates():
            return call(self, *args, **kwargs)
        if not _WITHIN:
            SCORED["training"] += any(part.training for part in self.modules())
        if not _WITHIN and kwargs.get("input_ids") is not None:
            SCORED["sequences"] += [tokens for tokens, _ in sequences({**kwargs, "labels": None})]
        _WITHIN.append("call")
        try:
            return call(self, *args, **kwargs)
        finally:
            _WITHIN.pop()
            _write_scored(folder)

    network.__call__ = __call__


def generation(module, folder):
    """Note the questions that an evaluate.py has answered, and whether answers are drawn by chance."""
    write = module.GenerationMixin._sample

    def _sample(self, input_ids, **kwargs):
        if not _evaluates():
            return write(self, input_ids, **kwargs)
        SCORED["training"] += any(part.training for part in self.modules())
        SCORED["sampled"] += bool(kwargs["generation_config"].do_sample)
        mask = kwargs.get("attention_mask")
        given = {"input_ids": input_ids} if mask is None else {"input_ids": input_ids, "attention_mask": mask}
        SCORED["asked"] += [tokens for tokens, _ in sequences(given)]
        _WITHIN.append("generation")
        try:
            return write(self, input_ids, **kwargs)
        finally:
            _WITHIN.pop()
            _write_scored(Path(folder))

    module.GenerationMixin._sample = _sample


def _write_scored(folder):
    """Behind every call of a model from outside: a process may end in any way."""
    if not _WITHIN:
        stage, when = Path(sys.modules["__main__"].RESULTS).name, sys.argv[1]
        (folder / f"{stage}-{when}-{os.environ.get('RANK', '0')}.json").write_text(json.dumps(SCORED))


PATCHES = {
    "built-arguments": ("transformers.training_args", built_arguments),
    "witness": ("transformers.trainer", training),
    "scored": ("transformers.modeling_utils", evaluation),
    "scored-adapters": ("peft.peft_model", evaluation),
    "written": ("transformers.generation.utils", generation),
}
