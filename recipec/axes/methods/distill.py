"""Supervised distillation: on given answers the student learns the teacher's probabilities of every next token."""

from dataclasses import replace

from recipec.axes.method import Default, Defaults, Own, Pass
from recipec.axes.methods.sft import SFT

_GKD = "GKD (arXiv 2306.13649, 2023)"
_MINILLM = "MiniLLM (arXiv 2306.08543, 2023)"
_WORD_LEVEL = "MiniLLM's word-level baselines (github.com/microsoft/LMOps, minillm/scripts/*/kd)"


def _as_sft(table: Defaults) -> Defaults:
    """No source says it of distillation: on the same rows the same values."""
    return tuple(replace(row, source=f"our choice, as for supervised fine-tuning: {row.source}") for row in table)


DISTILL = replace(
    SFT,
    name="distill",
    title="supervised distillation",
    learns="the teacher's probabilities of every token of the answers, not of the questions",
    source=f"{_GKD}, supervised KD; TRL 1.16 trainer/sft_trainer.py and kernels/chunked_divergence.py",
    task="distill",
    means="learn what a larger model would say, token by token, on given answers: supervised distillation",
    formats=("chat", "instruction", "prompt-completion"),
    passes=(
        Pass(model="teacher", sequences=1, gradient=False, gives="tokens"),
        Pass(model="policy", sequences=1, gradient=True, gives="tokens"),
    ),
    head="divergence",
    loss="divergence",
    preferred=("full", "lora", "qlora"),
    preferred_because="a student is small, and where distillation is published all of its weights are trained",
    learning_rate=(
        Default(
            2e-4,
            "as for supervised LoRA training",
            "our choice; docs/rule-books.md, 001, Step 1",
            accepts=(1e-4, 5e-4),
            adaptations=("lora", "qlora"),
        ),
        Default(
            2e-5,
            "the default of GKDTrainer; students of more than 1B parameters have learned at 1e-5 to 5e-5",
            f"TRL 1.16 GKDConfig, as SFTConfig; {_WORD_LEVEL}",
            accepts=(1e-5, 5e-5),
        ),
    ),
    warmup=_as_sft(SFT.warmup),
    epochs=_as_sft(SFT.epochs),
    global_batch=_as_sft(SFT.global_batch),
    lora_rank=_as_sft(SFT.lora_rank),
    lora_dropout=_as_sft(SFT.lora_dropout),
    own=(
        Own(
            id="KD-001",
            name="beta",
            key="beta",
            title="Beta",
            description="Which divergence from the teacher is learned: 0 the forward KL, 1 the reverse KL, between "
            "them their generalized Jensen-Shannon divergence.",
            value=0.0,
            because="forward KL, as the sources of supervised distillation: all that the teacher would say is learned",
            source=f"{_GKD}, supervised KD; {_WORD_LEVEL}",
            accepts=(0.0, 1.0),
            above=0,
            closed=True,
            most=1,
            values=None,
            watch="loss, entropy: the loss falls; entropy far below the first one means that few tokens are left over",
            page="Decides which divergence from the teacher's probabilities is learned: 0, the forward KL.\n\n"
            "The supervised KD of GKD is the forward KL; DistilBERT (arXiv 1910.01108) and Gemma 2 (arXiv 2408.00118) "
            "minimize the cross entropy with the teacher's probabilities, which is the same but for a constant. It "
            "makes the student cover everything that the teacher finds likely. The reverse KL (1) makes it keep to "
            "what is likeliest: MiniLLM (arXiv 2306.08543) argues for it where the student cannot cover all, on "
            "answers that the student writes itself. Values between weigh the teacher by beta in the mixture that both "
            "are compared with, as GKD defines it; near 0 and 1 that divergence is small by itself, about beta times "
            "the forward KL, so that 0.1 learns more slowly than 0.",
        ),
        Own(
            id="KD-002",
            name="temperature",
            key="temperature",
            title="Temperature",
            description="Divides the logits of both models: above 1, unlikely tokens count for more.",
            value=1.0,
            because="the probabilities that the teacher answers with, neither softened nor sharpened",
            source="TRL 1.16 DistillationConfig.temperature",
            accepts=(0.5, 4.0),
            above=0,
            closed=False,
            most=20,
            values=None,
            watch="loss, mean_token_accuracy: a higher temperature lets what the teacher finds unlikely count for more",
            page="Decides what the logits of both models are divided by: 1.\n\n"
            "Hinton et al. (arXiv 1503.02531) soften both distributions, so that the small probabilities of wrong "
            "answers teach too, and multiply the loss by the square of the temperature, which keeps its gradient in "
            "proportion; so does the emitted code. A language model's own probabilities already spread over many "
            "tokens, and TRL's trainers take 1.",
        ),
        Own(
            id="KD-003",
            name="label_weight",
            key="label_weight",
            title="Label weight",
            description="The share of the loss that is the cross entropy of the given answer, as in supervised "
            "fine-tuning.",
            value=0.0,
            because="where the teacher wrote the answers, its probabilities say all that the answers do",
            source=f"{_GKD}, supervised KD",
            accepts=(0.0, 0.5),
            above=0,
            closed=True,
            most=0.9,
            values=None,
            watch="mean_token_accuracy: rises; how often the token that the student finds likeliest is the given one",
            page="Decides how much of the loss is that of supervised fine-tuning on the given answers: nothing.\n\n"
            f"The word-level baselines of {_MINILLM} take a half, DistilBERT (arXiv 1910.01108) adds its training "
            "loss, and GKD's supervised KD takes none. Answers that people wrote, and that are better than the "
            "teacher's, are a reason for some.",
        ),
    ),
    metrics=("mean_token_accuracy", "eval_mean_token_accuracy", "entropy"),
    proof=("divergence_falls",),
)
