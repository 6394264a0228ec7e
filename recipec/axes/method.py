"""What a training method is to the rest of the compiler: one row of pure data.

A method's rows live in `recipec/axes/methods/`, its trainer arguments in `recipec/backends/methods/`; nothing else
knows its name. Every field is required: a row that lacks one does not construct.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes.adaptations import Adaptation
from recipec.axes.generators import GENERATORS, Generator
from recipec.axes.hyperparameters import Defaults, Own
from recipec.axes.models import POLICY, REFERENCE, TEACHER
from recipec.axes.proofs import PROOFS as PROOFS
from recipec.axes.sections import COMMON_SECTION

SCORES = "tokens", "score"  # what a pass gives
PACKINGS = "blocks", "examples", "never"
SAMPLINGS = RANDOM, SIMILAR, AS_STORED = "random", "similar-lengths", "sequential"
# How the loss is computed from the last hidden states -> what of SCORES it makes of them. Each a row of CODES in
# recipec/estimate/head.py.
HEADS = {
    "chunked": "tokens",
    "scalar": "score",
    "divergence": "tokens",
    "written_divergence": "tokens",
    "valued": "tokens",
}
# Class that loads a result -> what of SCORES such a model gives, and PEFT's task type of its adapters.
AUTO_CLASSES = {
    "AutoModelForCausalLM": ("tokens", "CAUSAL_LM"),
    "AutoModelForSequenceClassification": ("score", "SEQ_CLS"),
}
VALUED = "valued"  # of HEADS: log-probabilities, and an estimate of what is still to be earned
LOSS_OUTPUTS = "log_probs", "entropy", "log_sum_sq_probs", "mean_logits", "is_top1"  # of TRL's fused head
PRECOMPUTE = "precompute_reference"  # the key of [alignment], for methods that have `precomputes`
REWARDS = "reward"  # the key of [alignment] that names what judges answers, for methods that write them
ENVIRONMENT, TOOL_FUNCTIONS = ACTED_IN = "environment", "tools"  # keys of [alignment], for methods that have `acts`
# What TRL 1.16 hands to every reward function beside the columns of the rows (trainer/grpo_trainer.py and
# rloo_trainer.py, _calculate_rewards).
GIVEN_TO_REWARDS = ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric")
# The fields of a method's row that a value of its own hyperparameters may change: who asks for them asks for the row
# under the values of the stage.
CHANGEABLE = (
    *("passes", "loss", "loss_outputs", "least_micro_batch", "least_micro_batch_because", "keeps_recomputation"),
    "generator",
)


class Loss(Struct, frozen=True, kw_only=True):
    """What a loss is computed from."""

    head: str  # of HEADS
    compares_with: str  # the model of a pass whose results it compares with the policy's; "" where there is none
    arguments: tuple[str, ...]  # that are in its formula: a method sets them with its own


# Each a function in recipec/simulate/losses.py.
LOSSES = {
    "supervised": Loss(head="chunked", compares_with="", arguments=()),
    "pairs": Loss(head="chunked", compares_with=REFERENCE, arguments=("beta", "loss_type")),
    "odds": Loss(head="chunked", compares_with="", arguments=("beta",)),
    "contrast": Loss(head="chunked", compares_with="", arguments=("beta", "nll_weight")),
    "margin": Loss(head="chunked", compares_with="", arguments=("beta", "gamma")),
    "unpaired": Loss(head="chunked", compares_with=REFERENCE, arguments=("beta", "loss_type")),
    "advantages": Loss(head="chunked", compares_with="", arguments=()),
    "advantages_near": Loss(head="chunked", compares_with=REFERENCE, arguments=("beta",)),
    "one_out": Loss(head="chunked", compares_with="", arguments=()),
    "one_out_near": Loss(head="chunked", compares_with=REFERENCE, arguments=("beta",)),
    "clipped": Loss(head="valued", compares_with=REFERENCE, arguments=("beta", "clip_range", "value_weight")),
    "ranking": Loss(head="scalar", compares_with="", arguments=()),
    "divergence": Loss(head="divergence", compares_with=TEACHER, arguments=("beta", "temperature", "label_weight")),
    "written_divergence": Loss(head="written_divergence", compares_with=TEACHER, arguments=("beta", "temperature")),
}

# Losses whose trainers score the answers with the weights that wrote them, even where those are the weights that learn.
SCORED_WHEN_WRITTEN = "one_out", "one_out_near", "clipped"
OF_WHOLE_ANSWERS = "one_out", "one_out_near"  # losses that weigh an answer by its probability as a whole


# Keywords of TRL's DPOConfig that only the loss of DPO and its reference read.
OF_DPO_ALONE = (
    *("loss_type", "loss_weights", "label_smoothing", "use_weighting", "ld_alpha", "discopop_tau"),
    *("f_divergence_type", "f_alpha_divergence_coef", "precompute_ref_log_probs", "precompute_ref_batch_size"),
    *("sync_ref_model", "ref_model_mixup_alpha", "ref_model_sync_steps"),
)


class Pass(Struct, frozen=True, kw_only=True):
    """One forward pass of a micro step, in the order in which the trainer runs them."""

    model: str  # of recipec.axes.models.MODELS
    sequences: int  # per example
    gradient: bool
    gives: str  # of SCORES: probabilities over the policy's vocabulary, or one number for a sequence


OBJECTIVE = "eval_objective"  # of an evaluation: all that a trainer raises, where it reports more than a mean reward


class Method(Struct, frozen=True, kw_only=True):
    """One training method, apart from its own trainer arguments."""

    # who it is
    name: str  # of the stage: its folder, [train.NAME], its files in methods/
    title: str  # "direct preference optimization"
    learns: str  # after "It learns": "to prefer the chosen answer over the rejected one"
    full_name: str  # what training all weights is called: "full fine-tuning"
    elsewhere: tuple[str, ...]  # what people type for its task who come from other tools
    example: str  # what its batches count, in the singular: "sequence", "pair"
    source: str
    # when it runs
    task: str  # the goal.task that it fulfils
    alignment: str  # how alignment.method names it; "" where the task alone decides
    means: str  # what `task`, or `alignment.method`, means by it, for editors and `recipec init`
    section: str  # of [data] that holds its rows; data.train is read where the recipe has no such section
    formats: tuple[str, ...]  # names of recipec.axes.row_formats, the usual one first
    kinds: tuple[str, ...]  # names of its KINDS that the trainer reads; rows of other kinds are unrolled
    after: tuple[str, ...]  # methods that run before it where the recipe has rows for them
    # what runs
    module: str  # that trainer and configuration are imported from: "trl"
    trainer: str
    config: str
    auto_class: str  # of AUTO_CLASSES: loads the result
    new_head: str  # the module that it adds to the model, random at first, which trains beside adapters; "" for none
    random_weights: bool  # of the recipe's model it takes the architecture and the tokenizer alone
    generator: str  # of GENERATORS, which writes the answers that it learns from; "": its rows have them
    judge: str  # the method whose result judges its answers where the recipe names no reward; "" where it must name one
    passes: tuple[Pass, ...]
    loss: str  # of LOSSES
    loss_outputs: tuple[str, ...]  # of LOSS_OUTPUTS: what TRL's fused head is asked for; empty where it is not used
    # how its rows are laid out
    block_tokens: int | None  # rows are one text, cut into blocks of so many tokens; None: rows stay whole
    packs: str  # of PACKINGS
    packs_because: str
    unread: Mapping[str, str]  # columns that the trainer would use and recipec does not hand on, and what for
    truncates: bool  # the trainer cuts rows that are longer than max_length; False: it leaves them out
    least_micro_batch: int  # examples; more than one where the loss compares the examples of a micro batch
    least_micro_batch_because: str  # "" where one is enough
    sampling: str  # the order in which the trainer takes rows: of SAMPLINGS
    sampling_because: str
    unread_arguments: tuple[str, ...]  # keywords of its configuration class that its trainer does not read
    precomputes: str  # keyword of its configuration class: the reference scores all rows before training; "" for none
    drops_dropout: bool  # the trainer switches dropout off unless it is told otherwise
    keeps_recomputation: bool  # False: a pass switches gradient checkpointing off and on again with every layer
    # of a token of a sequence, in the files that its trainer writes before the first step: measured with 2,000 rows
    # (TRL 1.16, datasets 5.2; token ids and masks have 8 bytes, and every map of the trainer copies them)
    cached_bytes: int
    copied_bytes: int  # of these, what each rank writes for itself
    # what each rank does for itself in every run: the filter holds TRL's configuration, which has the rank within, so
    # that datasets never finds it in its cache, nor any map behind it (TRL 1.16, datasets 5.2); "" for nothing
    repeats: str
    # its hyperparameters
    adaptations: tuple[str, ...]  # names of recipec.axes.adaptations that it can run with
    adaptations_because: str  # why with no other; "" where it runs with all
    preferred: tuple[str, ...]  # the order that it wants them in; empty: the rules decide
    preferred_because: str
    learning_rate: Defaults
    warmup: Defaults
    epochs: Defaults
    global_batch: Defaults
    weight_decay: Defaults
    adam_beta2: Defaults
    lora_rank: Defaults
    lora_alpha_most: int
    lora_dropout: Defaults
    own: tuple[Own, ...]
    # beside these, where the recipe names tools or an environment; empty: its trainer takes none, and they are refused
    acts: tuple[Own, ...]
    acts_metrics: tuple[str, ...]  # that it logs then, beside `metrics`
    # where it does not follow its papers or usual loops, and why: a sentence or two each
    otherwise: tuple[str, ...] = ()
    serves: tuple[Own, ...] = ()  # beside these, where the answers are written on GPUs of their own
    splits: tuple[Own, ...] = ()  # beside these, where GPUs that train may share a copy: each is part of the layout
    # what shows that it works
    metrics: tuple[str, ...]  # that it logs beside those of every method
    proof: tuple[str, ...]  # of PROOFS

    def under(self, values: Mapping[str, Any]) -> Method:
        """The row with these values of its own hyperparameters, by their names; other names are passed over."""
        changed: dict[str, Any] = {}
        for own in self.own:
            changed |= own.changes.get(values.get(own.name, own.value), {})
        return replace(self, **changed) if changed else self

    @property
    def keys(self) -> tuple[Own, ...]:
        """All hyperparameters that only some methods have, also those that need tools, a server or a copy."""
        return (*self.own, *self.acts, *self.serves, *self.splits)

    def called(self, adaptation: Adaptation) -> str:
        """What training it with an adaptation is called, everywhere: "QLoRA", "full fine-tuning"."""
        return self.full_name if adaptation.trains_all else adaptation.title

    @property
    def head(self) -> str:
        """How the loss is computed from the last hidden states: of HEADS."""
        return LOSSES[self.loss].head

    @property
    def peft_task(self) -> str:
        """PEFT's task type of its adapters: "CAUSAL_LM"."""
        return AUTO_CLASSES[self.auto_class][1]

    @property
    def sequences_per_example(self) -> int:
        """Sequences of the pass that is differentiated."""
        return next(part.sequences for part in self.passes if part.gradient)

    @property
    def single_pass(self) -> bool:
        """Whether a step is one pass of the policy over one sequence per example."""
        return len(self.passes) == 1 and self.sequences_per_example == 1

    @property
    def scorings(self) -> tuple[Pass, ...]:
        """The passes without a gradient."""
        return tuple(part for part in self.passes if not part.gradient)

    def scored(self, *models: str) -> float:
        """Sequences that `models` score without a gradient, per sequence that is learned from."""
        return sum(part.sequences for part in self.scorings if part.model in models) / self.sequences_per_example

    @property
    def generates(self) -> bool:
        """Whether its rows are prompts: it learns from answers that it writes itself."""
        return bool(self.generator)

    @property
    def written_by(self) -> Generator:
        """What writes the answers that it learns from; only of a method that generates."""
        return GENERATORS[self.generator]

    @property
    def writes(self) -> bool:
        """Whether its result writes text, rather than scores it."""
        return self.auto_class == "AutoModelForCausalLM"

    @property
    def uses_loader(self) -> bool:
        """Whether the trainer's batches come from workers; False: it reads the prompts in its own process."""
        return "dataloader_num_workers" not in self.unread_arguments

    @property
    def earns(self) -> bool:
        """Whether rewards judge the answers that it writes; a teacher says what every token of them should be."""
        return self.generates and not self.has_teacher

    @property
    def answers_anew(self) -> bool:
        """Whether an answer at the end of a prompt is left out, for the model to answer what was said before it."""
        return self.generates

    @property
    def learns_tokens(self) -> bool:
        """Whether what it learns from rows is each of their tokens, so that a token new to the model can be learned."""
        return self.loss == "supervised" and not self.random_weights

    @property
    def judged_by(self) -> str:
        """The metric of an evaluation that says which checkpoint is the best."""
        if OBJECTIVE in self.metrics:
            return OBJECTIVE
        return "eval_reward" if self.earns else "eval_loss"

    @property
    def has_value_head(self) -> bool:
        """Whether one more row, on the last hidden states, estimates what each token will still earn."""
        return self.head == VALUED

    @property
    def scores_when_written(self) -> bool:
        """Whether every generation is scored by the weights that learn, also where one step learns from it.

        What a copy of the weights has written is: how far the two differ is corrected.
        """
        return self.loss in SCORED_WHEN_WRITTEN or (self.generates and self.written_by.own_copy)

    @property
    def weighs_whole_answers(self) -> bool:
        """Whether all tokens of an answer are weighed as one."""
        return self.loss in OF_WHOLE_ANSWERS

    @property
    def best(self) -> str:
        """Which evaluation is the best: "the lowest eval_loss"."""
        return f"the {'highest' if self.earns else 'lowest'} {self.judged_by}"

    @property
    def better(self) -> str:
        """What a better evaluation has: "a lower eval_loss"."""
        return f"a {'higher' if self.earns else 'lower'} {self.judged_by}"

    @property
    def has_reference(self) -> bool:
        """Whether a frozen copy of its start scores the rows too."""
        return any(part.model == REFERENCE for part in self.passes)

    @property
    def has_teacher(self) -> bool:
        """Whether another model scores the rows too."""
        return any(part.model == TEACHER for part in self.passes)

    @property
    def other_models(self) -> tuple[Pass, ...]:
        """The passes of models that are neither what is trained nor its frozen start."""
        return tuple(part for part in self.passes if part.model not in (POLICY, REFERENCE))

    @property
    def named_models(self) -> tuple[str, ...]:
        """The models that a recipe has to name for it: rows of recipec.axes.models."""
        return tuple(dict.fromkeys(part.model for part in self.other_models))

    @property
    def needs_vocabulary_of(self) -> tuple[str, ...]:
        """Those of them whose probabilities are compared with its own, token by token."""
        return tuple(dict.fromkeys(part.model for part in self.other_models if part.gives == "tokens"))

    def rows_in(self, sections: Collection[str]) -> str:
        """Which of the sections of [data] that a recipe has holds its rows."""
        return self.section if self.section in sections else COMMON_SECTION

    @property
    def of_text(self) -> bool:
        """Whether it learns every token of plain text, which is cut into blocks."""
        return self.block_tokens is not None

    def can_set(self, key: str, value: Any) -> bool:
        """Whether [alignment] may give that key that value for it."""
        if key == PRECOMPUTE:
            return bool(self.precomputes)
        if key == REWARDS:
            return self.earns
        if key in ACTED_IN:
            return bool(self.acts)
        return key in self.named_models or any(own.key == key and own.allows(value) for own in self.keys)

    @property
    def is_set_in_alignment(self) -> bool:
        """Whether [alignment] has keys for it."""
        return bool(self.alignment or self.own or self.named_models or self.generates)
