"""What happens to the rows before they are trained on."""

from __future__ import annotations

from recipec.axes import ROW_FORMATS
from recipec.axes.attention import ATTENTIONS, BOUNDARIES
from recipec.rules.core import Choice, rule
from recipec.rules.defaults import method_of
from recipec.units import counted

UNKNOWN_LENGTHS = 2048  # rule book 001, Step 2
WRAPPED = "wrapped"  # a packing strategy: full blocks, cut anywhere


@rule(
    "DATA-001",
    decides="max_length",
    key="data.max_length",
    watch="dropped_rows: below 5%; if above, raise `data.max_length`",
    source="docs/rule-books/001.md, Step 2; TRL #3449; transformers #30998; Llama 2 (arXiv 2307.09288, 2023)",
)
def max_length(stage: str, tokens_per_example: int | None, tokens_p99: int | None, max_position: int | None) -> Choice:
    """Maximum length in tokens: the power of two that covers 99% of the rows, within the model's context.

    Rule book 001 writes 2048 for all data. The default of TRL is 1024, and its silent truncation has damaged runs (TRL
    #3449, transformers #30998). recipec takes the first of these that is known:

    | known | maximum length |
    |---|---|
    | 99th percentile of the lengths | that length, rounded up to a power of two, 256 at least |
    | mean length | three times the mean, rounded up to a power of two, 256 at least |
    | nothing | 2048 |

    Where the model writes the answers itself, this is the longest prompt, and `alignment.generation.max_new_tokens` is
    beside it. The rounding keeps the value while the data change a little. Raw text is packed into full blocks: 2048
    for continued pretraining, and 4096 for pretraining, as in Llama 2. Pretraining decides how far the model can ever
    attend.
    """
    wanted, why = _wanted_length(stage, tokens_per_example, tokens_p99)
    if not max_position:
        return Choice(wanted, why)
    limit = f"the model's context ends at {max_position:,} tokens"
    if wanted > max_position:
        return Choice(max_position, f"{why}, but {limit}", accepts=(16, max_position))
    return Choice(wanted, why, accepts=(16, max_position), above=limit)


def _wanted_length(stage: str, tokens_per_example: int | None, tokens_p99: int | None) -> tuple[int, str]:
    if block := method_of(stage).block_tokens:
        return block, "documents are packed into full blocks of this length"
    if tokens_p99:
        return _power_of_two(tokens_p99), f"99% of the rows have at most {tokens_p99:,} tokens, rounded up"
    if tokens_per_example:
        mean = counted(tokens_per_example, "token")
        return _power_of_two(3 * tokens_per_example), f"three times the mean length of {mean}, rounded up"
    return UNKNOWN_LENGTHS, "the lengths of the rows are unknown"


def _power_of_two(tokens: int) -> int:
    """Round up to a power of two, at least 256."""
    return max(256, 1 << (tokens - 1).bit_length())


@rule(
    "DATA-002",
    decides="packing",
    key="train.packing",
    watch="tokens_per_second, mean_token_accuracy: with packing, speed rises and accuracy stays that of an unpacked "
    "run",
    source="docs/rule-books/001.md, Anti-pattern 4; TRL 1.16 trainer/sft_config.py (packing); transformers 5.23 "
    "masking_utils.py (find_packed_sequence_indices)",
)
def packing(stage: str, attention: str) -> Choice:
    """Packing: whether several examples share a sequence.

    Rule book 001 names padding-free batches and unified padding against wasted computation. Packing serves the purpose,
    and TRL has it.

    Raw text is always cut into full blocks, in which documents attend to each other (DATA-003). Supervised examples
    must not attend to each other:

    | attention | what keeps packed examples apart | packed |
    |---|---|---|
    | `torch_varlen`, `flash_attention_2` | the kernel is told where examples begin | yes |
    | `sdpa` | a mask over all pairs of tokens of the row | where the recipe says so |
    | `eager` | such a mask, and it keeps all scores | never (BAD-012) |

    Batches of rows of similar length (LOAD-005) have little padding, so a mask leaves little to gain: on a CPU, 1,000
    tokens of rows with a mean of 218 took 1.63 s in random order, 1.13 s by length and 1.08 s packed. On long sequences
    the mask costs more time than packing saves, as attention then computes all pairs of tokens.
    `train.packing = true` with `sdpa` takes one row for each micro batch, which is planned with its mask. In micro
    batches of several rows the mask grows with the square of all their tokens (BAD-013). `recipec plan` tells what
    both ways of packing would give, with the lengths of the recipe.

    Some models build their mask without the positions of packed examples, gpt-oss among them. They are refused packing
    (BAD-040). Before step 1 the bundle shows on the machine that trains that examples are kept apart, or stops.

    Preference pairs are never packed, because DPOTrainer ignores the setting.
    """
    method = method_of(stage)
    if method.packs != "examples":
        return Choice(method.packs == "blocks", method.packs_because)
    if ATTENTIONS[attention].apart == BOUNDARIES:
        return Choice(True, "the kernel attends within each packed example, so packing removes the padding")
    mask = f"with {attention} attention, packed examples need a dense mask"
    return Choice(False, f"{mask}, which leaves little to gain on short rows and costs time on long ones")


@rule(
    "DATA-003",
    decides="packing_strategy",
    watch="num_tokens: with packing, each sequence adds about `data.max_length` tokens",
    source="docs/rule-books/001.md, Anti-pattern 4; TRL 1.16 trainer/sft_config.py (packing_strategy)",
)
def packing_strategy(stage: str, packing: bool) -> Choice:
    """Packing strategy: `wrapped` for raw text, `bfd` (best fit, decreasing) for examples that must stay whole.

    `wrapped` joins documents and cuts them anywhere, and tokens attend across documents. That suits raw text, where no
    token is lost, and is wrong for examples. `bfd` keeps every example whole and masks the other examples.
    """
    if not packing:
        return Choice("none", "packing is off")
    if method_of(stage).of_text:
        why = "raw text may be cut anywhere, so no token is lost and none is padding"
        return Choice(WRAPPED, f"{why}; documents of one block attend to each other")
    return Choice("bfd", "every example stays whole")


@rule(
    "DATA-004",
    decides="overflow",
    key="data.overflow",
    watch="dropped_rows, trained_tokens: the share of rows that was dropped, and the tokens that remain in the loss",
    source="docs/rule-books/001.md, Step 2 (against: truncation); Rules (template must match exactly)",
)
def overflow(stage: str) -> Choice:
    """Rows longer than `data.max_length`: dropped and counted; raw text is split.

    Rule book 001 truncates. A truncated answer loses its end-of-turn token, and the model learns not to stop. TRL drops
    rows whose whole answer is cut off and does not count them. recipec drops whole rows, counts them, and stops above
    the limit of DATA-005. Raw text has no answer to lose, so it is split.

    With `data.overflow = "truncate"` the end of longer rows is cut off. A row whose prompt alone fills
    `data.max_length` would teach an empty answer: `prepare_data.py` drops it and counts it as `unanswered`.
    `preflight.py` counts these rows, and those that the trainer leaves out, before training and stops above the limit
    of DATA-005. Where only a part of an answer is cut, the row stays, and the answer has no end-of-turn token.
    """
    if method_of(stage).of_text:
        return Choice("split", "raw text is split into blocks, so no token is lost")
    if not method_of(stage).truncates:
        return Choice("drop", f"{method_of(stage).trainer} leaves longer rows out, so recipec counts and drops them")
    return Choice("drop", "a truncated answer has no end-of-turn token, and the model would not learn to stop")


@rule(
    "DATA-005",
    decides="dropped_rows_limit",
    trains=False,
    watch="dropped_rows: at most this share; otherwise training does not start",
    source="docs/rule-books/001.md, Rules (filtered for quality); Anti-pattern 2; docs/rule-books/002.md, Best "
    "practices; TRL #3449",
)
def dropped_rows_limit() -> Choice:
    """Largest share of rows that may be longer than `data.max_length` before the run stops: 5%.

    Rule book 001 wants filtered data and checks the format against underfitting. Rule book 002 wants data validated
    before training. Neither gives a limit; 5% is recipec's choice. A larger share usually means a wrong format or a
    maximum length that is too short, and training on the rest would be another recipe than the one you wrote.
    """
    return Choice(0.05, "more rows over the limit mean a wrong format or a short `data.max_length`", accepts=(0.0, 0.5))


@rule(
    "DATA-006",
    decides="loss_on",
    watch="trained_tokens: above 0 in every printed sample; if 0, the loss mask hides the answers: check "
    "`data.template`",
    source="docs/rule-books/001.md, Step 2; Tokenization with label masking; Instruction format; "
    "docs/rule-books/003.md, Stack defaults (dataset format)",
)
def loss_on(stage: str, data_format: str, template: str, template_has_mask: bool, answers_apart: bool) -> Choice:
    """Which tokens count in the loss: the answers, or every token of raw text.

    | format of the rows | trained tokens |
    |---|---|
    | chat | the assistant's turns |
    | instruction, prompt-completion | the completion with its end-of-text token |
    | preference, unpaired-preference | the answers: both of a pair, the one of a label |
    | prompts | the answers that the model writes |
    | text | every token |
    | token-ids | those whose label is not -100, or every token |

    A model that scores learns from one number for each answer, and from no single token.

    Rule book 001 says that it masks the user's tokens with -100. Its code copies all tokens into the labels and masks
    nothing, not even padding. recipec does what the text says.

    A chat template must tell the assistant's tokens apart. TRL 1.16 has training versions of the templates of many
    families that mark them. For others (Llama 2, 3.1, 3.2 and 3.3, Mistral, Phi-4, OLMo 2, SmolLM2, Granite 3, Qwen 2
    and the base models of Qwen 2.5) the bundle marks them in the model's own text: what an answer adds to the text of
    the turns before it is the answer with its end of turn. Where a template writes a turn otherwise once others follow,
    the text cannot be marked, and a row for which that shows is refused. With a template that is known to do so, or
    that recipec does not know, each answer becomes a row of its own, with the conversation before it as the prompt.
    TRL's versions for Qwen3 and its successors write a thought, empty where a row has none, before every answer of a
    conversation, where the model's own text has it before the last one alone: W0522 tells it.
    The same holds where rows say of each answer how it is learned: by a weight, by a thought that earlier turns do not
    show (`data.reasoning`), or by `data.loss_on = "last-answer"`.
    """
    if not method_of(stage).writes:
        return Choice("score", "the loss compares one score for each answer, and no token counts by itself")
    part = ROW_FORMATS[data_format].loss_on
    if method_of(stage).generates:
        return Choice(part, "the answers that the model writes count in the loss, and no token of the rows")
    if answers_apart:
        return Choice("completion", "what is learned is said of each answer, so each becomes a row")
    if part == "assistant" and template == "model" and not template_has_mask:
        return Choice(
            "completion", "the chat template does not mark the assistant's tokens, so each answer becomes a row"
        )
    return Choice(part, _TRAINED[part])


_TRAINED = {
    "all": "raw text has no prompts, so every token counts in the loss",
    "assistant": "only the assistant's turns count in the loss",
    "completion": "only the answers count in the loss, not the prompts",
    "labels": "the rows are tokens, and their labels say which of them count in the loss",
}


@rule(
    "DATA-007",
    decides="template",
    key="data.template",
    watch="trained_tokens: above 0 in every printed sample, whose turns look as the model's documentation shows",
    source="docs/rule-books/001.md, Rules (template must match exactly); Step 2; Chat template format",
)
def template(data_format: str, model_kind: str, has_template: bool) -> Choice:
    """Chat template: the model's own, or `plain` for a base model without one.

    Rule book 001 wants the template to match the training format of the base model exactly, so a model that has a
    template keeps it. `plain` marks roles with tokens that exist, so no embeddings are added. Raw text needs no
    template.
    """
    if not ROW_FORMATS[data_format].turns:
        return Choice("none", f"{data_format} rows have no turns")
    if has_template:
        return Choice("model", f"the {model_kind} model has its own chat template, and training must use the same one")
    return Choice("plain", f"no chat template is known for this {model_kind} model, and this one adds no tokens")


@rule(
    "DATA-010",
    decides="eos_token",
    watch="trained_tokens: the printed samples have this token inside [[ and ]], at the end of every answer",
    source="docs/rule-books/001.md, Rules (template must match exactly); TRL 1.16 trainer/sft_config.py (eos_token); "
    "QwenLM/Qwen3 #927",
)
def eos_token(
    stage: str, template: str, template_end: str, has_turn_end: bool | None, stop_tokens: tuple[str, ...]
) -> Choice:
    """End-of-sequence token: the token that ends a turn of the chat template, where the model stops at another one.

    Rule book 001 wants the template to match the training format. Base models of Qwen bring a chat template whose turns
    end with `<|im_end|>`, but stop at `<|endoftext|>`: trained on the template, they end a turn and write on. TRL's
    documentation sets `eos_token="<|im_end|>"` for them. The same holds for a template that the recipe chooses, such as
    `chatml`. The tokenizer and the generation settings that are saved with the result have the same token, and
    evaluate.py stops there.

    A tokenizer that lacks the token would cut it into several, and no answer would end. Where recipec knows that it
    lacks it, from the files of a local model or from the catalog, it refuses the recipe (E0401). Where recipec does not
    know, it assumes that the tokenizer has it, and prepare_data.py stops before it reads a row if it does not.
    """
    method = method_of(stage)
    if template in ("plain", "none") or method.of_text or not method.writes:
        return Choice("none", "the end of a turn is the end token that the model has")
    if not template_end:
        return Choice(
            "none", "the token that ends a turn of this chat template is not known, so the model keeps its own"
        )
    if template_end in stop_tokens:
        return Choice(
            "none", f"a turn of the chat template ends with {template_end}, and the model already stops there"
        )
    if has_turn_end is False:
        return Choice("none", f"the tokenizer lacks {template_end}, with which a turn of the chat template ends")
    stops = f"stops at {' or '.join(stop_tokens)}" if stop_tokens else "has no known end token"
    assumed = "" if has_turn_end else "; recipec assumes that the tokenizer has the token, and prepare_data.py looks"
    return Choice(template_end, f"a turn of the chat template ends with this token, and the model {stops}{assumed}")


@rule(
    "DATA-008",
    decides="deduplication",
    watch="train_eval_gap: stays small; it widens where similar rows are memorized",
    source="docs/rule-books/003.md, Anti-patterns; Quality gates; docs/rule-books/001.md, Rules; "
    "docs/rule-books/002.md, Best practices",
)
def deduplication() -> Choice:
    """Duplicates: identical rows are removed.

    Rule book 003 wants an exact hash for identical rows and MinHash for similar ones. Rule book 001 wants data
    deduplicated and filtered. recipec hashes every row and keeps the first of identical rows. It does not find similar
    rows (NOT-005).
    """
    return Choice("exact", "identical rows would be learned several times")


@rule(
    "DATA-009",
    decides="leak_check",
    watch="eval_loss, train_eval_gap: an eval_loss far below the baseline from the first evaluation on means a leak",
    source="docs/rule-books/001.md, Anti-pattern 3; docs/rule-books/002.md, Best practices",
)
def leak_check() -> Choice:
    """Rows in training and in evaluation or test: removed from training.

    Rule book 001 wants strict separation and does not say which side loses the row. recipec removes the row from
    training, so that the evaluation and test splits stay unchanged when the training data change.
    """
    return Choice("remove-from-train", "the evaluation and test splits stay unchanged when the training data change")
