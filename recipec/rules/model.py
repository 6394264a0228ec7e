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
    source="docs/rule-books/001.md, Step 1 (existing base); Decision tree: alignment method; Decision tree: data size "
    "for instruction tuning; docs/rule-books/000.md, Open-weight baselines; recipec's choice (where the line lies)",
)
def model_kinds(task: str, train_format: str | None, examples: int) -> Choice:
    """Chat model or base model, the preferred kind first.

    | rows | kind |
    |---|---|
    | raw text | a base model; a chat model would lose its instruction tuning |
    | preference pairs alone | a chat model, because no stage of the recipe teaches the model to answer |
    | fewer than 10,000 supervised rows | a chat model: it answers already and has a chat template |
    | 10,000 supervised rows or more | a chat model, else a base model |

    Rule book 001 trains continued pretraining "on existing base". It calls DPO a single stage and does not say which
    model DPO starts from; a chat model is recipec's choice. So is the line at 10,000 rows. Rule book 001 has an edge of
    its data sizes there, where full fine-tuning becomes an option, and does not speak of base models at it.
    """
    if _block(task):
        return Choice(("base",), "a chat model would lose its instruction tuning on raw text")
    if not any(train_format in row.formats for row in METHODS.values() if row.section == "train"):
        return Choice(("chat",), "no supervised stage comes before, so the model must be able to answer")
    if examples < 10_000:
        return Choice(
            ("chat",), f"with {examples:,} rows, fewer than 10,000, the model must be able to answer before training"
        )
    return Choice(
        ("chat", "base"),
        f"with {examples:,} rows, 10,000 or more, a chat model is preferred and a base model is accepted",
    )


def _block(task: str) -> int | None:
    """The tokens of a block where the task learns raw text; None where it does not."""
    return next((row.block_tokens for row in METHODS.values() if row.task == task), None)


@rule(
    "MODEL-002",
    decides="model_licenses",
    key="model.licenses",
    watch="eval_loss: unrelated to the license; read the license before you use the result",
    source="docs/rule-books/000.md, Open-weight baselines; docs/rule-books/001.md, Protocol; recipec's choice (only "
    "these two unasked)",
)
def model_licenses(families: tuple[str, ...] | None, policy_licenses: tuple[str, ...] | None) -> Choice:
    """Accepted licenses: Apache-2.0 and MIT, unless the recipe or a policy names others.

    Both allow any use without asking anybody. Licenses that makers wrote themselves (Llama, Gemma, Qwen, Falcon) have
    conditions that somebody must read and accept, and the Hugging Face Hub requires that before it gives gated models.
    recipec cannot accept them for you. It takes such a model only where the recipe names its family or its license, or
    where a policy lists its license. A policy always holds too.

    Rule book 000 wants open weights, and rule book 001 clarifies the base model first. Neither names licenses.
    """
    if policy_licenses is not None:
        return Choice(policy_licenses, "the policy lists the licenses that it allows")
    if families:
        return Choice("any", "naming `model.family` accepts the licenses of those families")
    return Choice(OPEN_LICENCES, "Apache-2.0 and MIT allow any use without asking anybody")


@rule(
    "MODEL-003",
    decides="model_purposes",
    watch="eval_loss, mean_token_accuracy: compare them with those of a general-purpose model on your rows",
    source="docs/rule-books/000.md, Open-weight baselines; docs/rule-books/001.md, Protocol; recipec's choice "
    "(families named exactly)",
)
def model_purposes(families: tuple[str, ...] | None) -> Choice:
    """Special-purpose models, ended lines, mixtures of experts and hybrids: only from families that are named exactly.

    A reasoning model writes its thoughts before it answers and would unlearn that on rows without thoughts. A code
    model knows less of anything else. Research suites and the checkpoints between two stages of a model are not made
    for use. A line that ended in 2024 or before (Yi) is for those who began with it. In a mixture of experts a
    token passes through a share of the weights, adapters on every expert (LORA-004) cost memory in every forward pass,
    and 4-bit storage does not reach the experts, so its size does not tell what training costs or gains.

    To get such a model, name its family exactly (`deepseek-r1-distill`, `qwen3-moe`). General models of the family
    still come first. Rule book 000 wants a model of the family that suits the task and does not say which family that
    is.
    """
    if families:
        return Choice("named", "special-purpose models are taken only from families that the recipe names exactly")
    return Choice("general", "no family is named, so only general-purpose dense models of attention are taken")


@rule(
    "MODEL-004",
    decides="model_context",
    watch="dropped_rows: below 5%; if above, raise `data.max_length`",
    source="docs/rule-books/001.md, Step 2",
)
def model_context(
    task: str, stated_max_length: int | None, tokens_p99: int | None, tokens_per_example: int | None
) -> Choice:
    """Context that the model must have: `data.max_length`, else the length of 99% of the rows.

    Rule book 001 trains with 2048 tokens. Raw text is cut into blocks of 2,048 tokens or more and needs no more than a
    block. Where only the mean length is known, recipec takes three times the mean, as for the maximum length
    (DATA-001). A longer context than the rows need is no reason to take a model.
    """
    if stated_max_length is not None:
        return Choice(stated_max_length, f"the recipe sets `data.max_length` to {stated_max_length:,}")
    if block := _block(task):
        return Choice(block, "documents are cut into blocks of this length")
    if tokens_p99:
        return Choice(tokens_p99, f"99% of the rows have at most {tokens_p99:,} tokens")
    if tokens_per_example:
        return Choice(
            3 * tokens_per_example,
            f"three times the mean length of {counted(tokens_per_example, 'token')}",
        )
    return Choice(_BLOCK, "the lengths of the rows are unknown")


@rule(
    "MODEL-005",
    decides="model_base_bits",
    watch="eval_loss, tokens_per_second: a larger 4-bit model reaches a lower eval_loss and trains more slowly; if "
    'only the second is true, set `train.quantization = "none"`',
    source="docs/rule-books/001.md, Step 1; docs/rule-books/003.md, Stack defaults; The case for 4-bit precision "
    "(arXiv 2212.09720, 2022); recipec's choice (by priority)",
)
def model_base_bits(priority: str | None) -> Choice:
    """Whether a model that fits only with a 4-bit base may be chosen: with priority quality or memory.

    Rule books 001 and 003 use QLoRA for limited memory. They do not choose between a large model in 4 bits and a
    smaller one in 16. For a fixed memory the larger one answers better, say the 35,000 experiments of Dettmers and
    Zettlemoyer on inference, and QLoRA trains it about as well. With priority quality the largest model that fits in
    any way is taken. It takes more time, because equal memory then holds about four times the parameters, and its
    merged model differs slightly from the trained one (PEFT #1043). Without a priority, and with speed, a model
    must fit with an unquantized base, by LoRA or in full. With priority memory a 4-bit base is what is wanted.

    The size also comes before full fine-tuning. The chosen model is the largest that LoRA can train, and ADPT-001 then
    trains all of its weights where they fit. No measurement says what full fine-tuning of a small model is worth
    against LoRA on a larger one. A recipe that sets `train.adaptation` or `train.quantization` decides that itself.
    """
    if priority in ("quality", "memory"):
        return Choice(4, f"the recipe puts {priority} first, so models that fit only with QLoRA are considered")
    first = f"the recipe puts {priority} first" if priority else "the recipe has no priority"
    return Choice(16, f"{first}, so the model must fit without 4-bit quantization")


@rule(
    "MODEL-006",
    decides="model_memory_share",
    watch="tokens_per_second: near the plan; memory that the model leaves free is used for a larger micro batch",
    source="docs/rule-books/001.md, Decision tree: available compute; docs/rule-books/003.md, Decision framework; "
    "recipec's choice (the shares)",
)
def model_memory_share(priority: str | None, gpu_is_cpu: bool) -> Choice:
    """Share of the memory that the model may use: all, half for speed, a quarter for memory, an eighth on a CPU.

    Rule books 001 and 003 choose the adaptation by GPU memory; neither says which share of it a model may fill. The
    shares are recipec's choice. With priority speed half of the memory stays for larger batches, and half the
    parameters take half the time. With priority memory a quarter holds, in 4 bits, about the model that would fill all
    of it in 16 bits, so that priority never takes a larger model than none. On a CPU time is the limit and not memory.

    `[budget]` limits a plan in hours and dollars instead.
    """
    if gpu_is_cpu:
        return Choice(0.125, "on a CPU time is the limit, so the model may use an eighth of the memory")
    share, part = {"speed": (0.5, "half of"), "memory": (0.25, "a quarter of")}.get(priority or "", (1.0, "all"))
    first = f"the recipe puts {priority} first" if priority else "the recipe has no priority"
    return Choice(share, f"{first}, so the model may use {part} the GPU memory")


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
    watch="eval_loss: lower than with the next smaller model; if not, a larger model does not help",
    source="docs/rule-books/000.md, Open-weight baselines; docs/rule-books/001.md, Protocol; Qwen3 Technical Report "
    "(arXiv 2505.09388, 2025); recipec's choice (by size)",
)
def model_order(models: tuple[ModelRow, ...]) -> Choice:
    """Order of the models: the largest first; the first that fits is chosen.

    Rule book 000 wants current open-weight baselines and leaves an open choice to another document. The catalog knows
    sizes and no measured quality, and size tells most of it, so the largest model comes first. The rest is recipec's
    choice:

    - An older generation of a line is left out where a newer one has a model of about the same size (within a third),
      or one of half the size whose first number is higher (Llama 3.1 8B against Llama 2 13B). The generation is part
      of the maker's name (qwen2.5, qwen3).
    - Within a factor of two, counted down from the largest, size tells little: one generation of Qwen made up for as
      much. Among these models the order is: models that can be downloaded without asking, models whose chat template
      marks the assistant's tokens in the pinned TRL (DATA-006), the larger model, the longer context, the shorter name.

    Different lines are compared by size and support alone, so an old model can come before a newer one of less than
    half its size. Set `model.family` or `model.name` to decide otherwise.
    """
    current = [model for model in models if not any(_supersedes(newer, model) for newer in models)]
    rest = sorted(current, key=lambda model: (-model.params, model.name))
    order: list[str] = []
    while rest:
        near = [model for model in rest if model.params >= _NEAR_SIZE * rest[0].params]
        order += [model.name for model in sorted(near, key=_preference)]
        rest = rest[len(near) :]
    return Choice(
        tuple(order),
        f"the largest of {counted(len(order), 'acceptable model')} comes first" if order else "no model is acceptable",
    )


def _supersedes(newer: ModelRow, older: ModelRow) -> bool:
    least = _NEAR_SIZE if int(newer.generation) > int(older.generation) else _SAME_SIZE
    alike = least <= newer.params / older.params <= 1 / _SAME_SIZE
    return newer.line == older.line and newer.generation > older.generation and alike


def _preference(model: ModelRow) -> tuple[bool, bool, int, int, int, str]:
    return model.gated, not model.has_mask, -model.params, -model.max_position, len(model.name), model.name
