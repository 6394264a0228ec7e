"""Which model of the catalog `model.name = "auto"` stands for: what is acceptable, and what is preferred."""

from __future__ import annotations

from typing import NamedTuple

from recipec.axes import METHODS
from recipec.rules.core import Choice, rule
from recipec.units import counted

OPEN_LICENCES = ("Apache-2.0", "MIT")
_BLOCK = 2048  # DATA-001 where no lengths are known


@rule(
    "MODEL-001",
    decides="model_kinds",
    watch="eval_loss: a chat model starts low on chat rows; a base model starts high and falls fast",
    source="rule book 001, Step 1 (Continued Pre-training: existing base), Decision Tree (Data size; Alignment "
    "method?); 000 (family-specific base model); the threshold is our decision",
)
def model_kinds(task: str, train_format: str | None, examples: int) -> Choice:
    """Decides whether a chat model or a base model is taken, the preferred kind first.

    Continued pretraining takes a base model (001: "train on existing base"): a chat model would lose what it was
    taught. Preference pairs alone take a chat model, because alignment follows supervised fine-tuning (001) and no
    stage here does it. Supervised rows take a chat model: it answers already, and its template and end-of-turn token
    come with it. From 10K rows, where 001 begins to allow full fine-tuning because the data decide the behaviour, a
    base model is acceptable where no chat model is. That the line lies there and not elsewhere is our decision.
    """
    if _block(task):
        return Choice(("base",), "raw text would make a chat model forget its instructions")
    if not any(train_format in row.formats for row in METHODS.values() if row.section == "train"):
        return Choice(("chat",), "no supervised stage comes first, so the model must answer already")
    if examples < 10_000:
        return Choice(("chat",), f"{examples:,} rows, fewer than 10K: a model that answers already")
    return Choice(("chat", "base"), f"{examples:,} rows, 10K or more: a chat model, or else a base model")


def _block(task: str) -> int | None:
    """The tokens of a block where the task learns raw text; None where it does not."""
    return next((row.block_tokens for row in METHODS.values() if row.task == task), None)


@rule(
    "MODEL-002",
    decides="model_licences",
    key="model.licences",
    watch="eval_loss: tells nothing of a licence; read it before the result is used",
    source="rule book 000 (open-weight baselines), 001 (clarify the base model); that only these two are taken unasked "
    "is our decision",
)
def model_licences(families: tuple[str, ...] | None, policy_licences: tuple[str, ...] | None) -> Choice:
    """Decides which licences are acceptable: Apache-2.0 and MIT, unless the recipe or a policy says otherwise.

    Both allow any use without asking anybody. The licences that makers wrote themselves (Llama, Gemma, Qwen, Falcon)
    have conditions that somebody must read and accept, and the hub asks for that before it gives the gated ones.
    recipec cannot accept them for the user, so it takes such a model only where the recipe names its family or its
    licence, or where a policy lists its licence. A policy always holds too.
    """
    if policy_licences is not None:
        return Choice(policy_licences, "the policy lists the licences that it allows")
    if families:
        return Choice("any", "the recipe names families and so accepts their licences")
    return Choice(OPEN_LICENCES, "Apache-2.0 and MIT allow any use without asking anybody")


@rule(
    "MODEL-003",
    decides="model_purposes",
    watch="eval_loss, mean_token_accuracy: worse than a general model's on rows that are not of its purpose",
    source="rule book 000 (family-specific base model), 001, Decision Tree; LORA-004 for the mixtures; our decision",
)
def model_purposes(families: tuple[str, ...] | None) -> Choice:
    """Decides whether models made for one purpose and mixtures of experts are acceptable: where their family is named.

    A reasoning model writes its thoughts before it answers and would unlearn that on rows without them; a code model
    knows less of anything else; a research suite and the checkpoints between two stages of a model are not made to be
    used. In a mixture of experts adapters reach the attention only (LORA-004) and 4 bits do not reach the experts, so
    its size does not tell what training it costs or gains. Each of them can be what somebody wants: then the recipe
    names the family exactly (`deepseek-r1-distill`, `qwen3-moe`), and general models of it still come first.
    """
    if families:
        return Choice("named", "models of one purpose are taken only from families that the recipe names exactly")
    return Choice("general", "no family is named, so dense models that are made for anything are taken")


@rule(
    "MODEL-004",
    decides="model_context",
    watch="dropped_rows: under 5 %; above, rows are longer than max_length",
    source="rule book 001, Step 2 (max_length=2048); DATA-001",
)
def model_context(
    task: str, stated_max_length: int | None, tokens_p99: int | None, tokens_per_example: int | None
) -> Choice:
    """Decides how many tokens the model's context must hold: data.max_length, else 99 % of the rows.

    Text for continued pretraining is cut into blocks of 2,048 tokens and needs no more. Where only the mean length is
    known it is three times that, as in DATA-001. A longer context than the rows need is no reason to take a model.
    """
    if stated_max_length is not None:
        return Choice(stated_max_length, f"data.max_length is {stated_max_length:,}")
    if block := _block(task):
        return Choice(block, "text is cut into blocks of so many tokens")
    if tokens_p99:
        return Choice(tokens_p99, f"99% of the rows have at most {tokens_p99:,} tokens")
    if tokens_per_example:
        return Choice(
            3 * tokens_per_example,
            f"rows have {counted(tokens_per_example, 'token')} in the mean, and three times that is allowed",
        )
    return Choice(_BLOCK, "no lengths are known")


@rule(
    "MODEL-005",
    decides="model_base_bits",
    watch="eval_loss, tokens_per_second: a larger 4-bit model is better and slower; if slower is what shows, use 16",
    source="rule books 001 and 003 (LoRA first, QLoRA for limited memory); Dettmers and Zettlemoyer, The case for "
    "4-bit precision, arXiv 2212.09720 (almost universally optimal for total model bits); our decision otherwise",
)
def model_base_bits(priority: str | None) -> Choice:
    """Decides whether a model may be taken that only fits with a 4-bit base: with priority quality or memory.

    A large model in 4 bits or a smaller one in 16? For a fixed memory the larger one answers better: the 35,000
    experiments of Dettmers and Zettlemoyer say so for inference, and QLoRA trains it about as well. With priority
    quality size therefore comes first, and the largest model that fits in any way is taken. It pays in time, because
    the same memory then holds about four times the parameters and each costs its arithmetic, and in a merged model
    that differs slightly from what was trained (peft #1043). Without a priority, and with speed, we do not pay that:
    a model must fit with an unquantised base, by LoRA or in full. With priority memory 4 bits are what is wanted.
    Full fine-tuning of a small model or LoRA on a larger one? The size comes first here too: the model is the largest
    that LoRA can train, and ADPT-001 then trains all weights of it where it wants to and they fit. To weigh the one
    against the other would need a rate of exchange that nobody has measured, and more memory could then mean a
    smaller model. A recipe that fixes train.adaptation or train.quantization is taken at its word.
    """
    if priority in ("quality", "memory"):
        return Choice(4, "the recipe puts memory first, so a 4-bit base is acceptable")
    return Choice(16, f"{f'priority {priority}' if priority else 'no priority'}: a base in 16 bits or more")


@rule(
    "MODEL-006",
    decides="model_memory_share",
    watch="peak_memory_gib: the planner fills what is left with a larger micro batch; tokens_per_second shows the gain",
    source="rule book 001, Decision Tree (Available compute?); 003, Decision Tree; the shares are our decision",
)
def model_memory_share(priority: str | None, gpu_is_cpu: bool) -> Choice:
    """Decides into which share of the memory the model must fit: all of it, half for speed, a quarter for memory.

    With priority speed half of the memory stays for larger batches, and half the parameters cost half the time. With
    priority memory it is a quarter: that with 4-bit weights is about the model that would fill the whole in 16 bits, so
    that the wish for little memory never takes a larger model than no wish. On a CPU time is the limit, not memory: an
    eighth. All are our decision; [budget] says it in hours and dollars.
    """
    if gpu_is_cpu:
        return Choice(0.125, "a CPU: 1/8 of the memory, because time is the limit")
    share, name = {"speed": (0.5, "half"), "memory": (0.25, "a quarter")}.get(priority or "", (1.0, "all"))
    return Choice(
        share, f"{f'priority {priority}' if priority else 'no such priority'}: {name} of the memory ({share:g})"
    )


class ModelRow(NamedTuple):
    """What the order of models depends on."""

    name: str
    line: str  # the family without its generation
    generation: float
    params: int
    has_mask: bool  # TRL has a training version of its chat template
    gated: bool
    max_position: int


_SAME_SIZE = 0.75  # a newer model of at least this share of the size takes the place of an older one, and the other way
_NEAR_SIZE = 0.5  # models of at least this share of the largest one's size are ordered by how well they train


@rule(
    "MODEL-007",
    decides="model_order",
    watch="eval_loss: below that of the next smaller model on the same rows; else size is not what is missing",
    source="rule book 000 (current open-weight baselines; family-specific base model); DATA-006 for the templates; "
    "Qwen3 Technical Report, arXiv 2505.09388, for what a factor of two is worth; our decision: the catalog has sizes "
    "and no measured quality",
)
def model_order(models: tuple[ModelRow, ...]) -> Choice:
    """Decides in which order acceptable models are tried: the largest first; the first one that fits is taken.

    Rule book 000 leaves an open choice to a document on the landscape of models that is lost. The catalog knows sizes
    and no measured quality, and size is what tells most of it, so the largest comes first.
    Older generations of a line are left out where a newer one has a model of about the size (within a third): the
    generation is what the maker's own name says (qwen2.5, qwen3). Within a factor of two, counted down from the
    largest, size tells little: one generation of Qwen made up for that much. There those that can be downloaded without
    asking come first, then those whose template marks the assistant's tokens in the pinned TRL (DATA-006), then the
    larger one, then the longer context, then the shorter name. The limits of this: different lines are compared by
    size and support alone, so an old model can come before a newer one of less than half its size; `model.family` and
    `model.name` decide otherwise.
    """
    current = [model for model in models if not any(_supersedes(newer, model) for newer in models)]
    rest = sorted(current, key=lambda model: (-model.params, model.name))
    order: list[str] = []
    while rest:
        near = [model for model in rest if model.params >= _NEAR_SIZE * rest[0].params]
        order += [model.name for model in sorted(near, key=_preference)]
        rest = rest[len(near) :]
    return Choice(
        tuple(order), f"{counted(len(order), 'acceptable model')}, the largest first" if order else "none is acceptable"
    )


def _supersedes(newer: ModelRow, older: ModelRow) -> bool:
    alike = _SAME_SIZE <= newer.params / older.params <= 1 / _SAME_SIZE
    return newer.line == older.line and newer.generation > older.generation and alike


def _preference(model: ModelRow) -> tuple[bool, bool, int, int, int, str]:
    return model.gated, not model.has_mask, -model.params, -model.max_position, len(model.name), model.name
