"""What happens to the rows before they are trained on."""

from __future__ import annotations

from recipec.axes import ROW_FORMATS
from recipec.rules.core import Choice, rule
from recipec.rules.defaults import method_of
from recipec.units import counted

UNKNOWN_LENGTHS = 2048  # rule book 001, Step 2: tokenize_and_mask(max_length=2048)


@rule(
    "DATA-001",
    decides="max_length",
    key="data.max_length",
    watch="dropped_rows: under 5 %; above, the limit is too short for the data",
    source="rule book 001, Step 2 (max_length=2048)",
)
def max_length(stage: str, tokens_per_example: int | None, tokens_p99: int | None, max_position: int | None) -> Choice:
    """Decides the longest example in tokens: the power of two that holds 99 % of the rows, within the model's context.

    001 writes 2048 without looking at the data; TRL's silent default is 1024, which has cut many a run short (trl
    #3449, transformers #30998). Where the 99th percentile of the lengths is known we round it up to a power of two
    (at least 256), so that small changes of the data change nothing; where only the mean is known we allow three times
    the mean; where nothing is known, and for text that is packed into full blocks, 2048. Pretraining decides what the
    model can ever attend to: 4096, as Llama 2, OLMo 2 and the first stage of Qwen3.
    """
    wanted, why = _wanted_length(stage, tokens_per_example, tokens_p99)
    if max_position and wanted > max_position:
        wanted, why = max_position, f"{why}; the model's context ends at {max_position:,}"
    return Choice(wanted, why, accepts=(16, max_position) if max_position else None)


def _wanted_length(stage: str, tokens_per_example: int | None, tokens_p99: int | None) -> tuple[int, str]:
    if block := method_of(stage).block_tokens:
        return block, "text is packed into full blocks"
    if tokens_p99:
        return _power_of_two(tokens_p99), f"99% of the rows have at most {tokens_p99:,} tokens"
    if tokens_per_example:
        mean = counted(tokens_per_example, "token")
        return _power_of_two(3 * tokens_per_example), f"3 times the mean length of {mean}, rounded up"
    return UNKNOWN_LENGTHS, "no lengths are known"


def _power_of_two(tokens: int) -> int:
    """Round up to a power of two, at least 256."""
    return max(256, 1 << (tokens - 1).bit_length())


@rule(
    "DATA-002",
    decides="packing",
    key="train.packing",
    watch="tokens_per_second, mean_token_accuracy: more tokens per second, and the accuracy of an unpacked run",
    source="rule book 001, Anti-Pattern 4 (padding_free / unified padding for variable-length sequences)",
)
def packing(stage: str, attention: str) -> Choice:
    """Decides whether several examples share a sequence.

    001 lists it against wasted compute. In both kinds of pretraining text is cut into full blocks. For supervised
    data the documents must not see each other: the pinned stack keeps them apart under every attention implementation
    (logits differ by 6e-6 from each document alone), but only a variable-length kernel (flash_attention_2) does so
    without a dense mask over the whole packed sequence, so without one packing saves nothing. Preference
    pairs are never packed: DPOTrainer ignores the request.
    """
    method = method_of(stage)
    if method.packs != "examples":
        return Choice(method.packs == "blocks", method.packs_because)
    if attention == "flash_attention_2":
        return Choice(True, "flash_attention_2 attends to each document alone, without padding")
    return Choice(False, f"{attention} needs a dense mask over the packed sequence, which costs what the padding did")


@rule(
    "DATA-003",
    decides="packing_strategy",
    watch="num_tokens: grows by the block length per sequence when packed",
    source="rule book 001, Anti-Pattern 4; TRL 1.16 SFTConfig.packing_strategy",
)
def packing_strategy(stage: str, packing: bool) -> Choice:
    """Decides how packed sequences are made: "wrapped" for text, "bfd" for examples that must stay whole.

    wrapped concatenates and cuts in the middle of a document, attending across: right for text, where nothing is
    lost, and wrong for examples. bfd (best fit, decreasing) keeps every example whole and masks the others.
    """
    if not packing:
        return Choice("none", "each example is a sequence of its own")
    if method_of(stage).of_text:
        return Choice("wrapped", "blocks are cut anywhere, so no token is dropped or padded")
    return Choice("bfd", "every example stays in one piece")


@rule(
    "DATA-004",
    decides="overflow",
    key="data.overflow",
    watch="dropped_rows: what drop took away; trained_tokens counts what is left",
    source="rule book 001, Step 2 (truncation=True), against it: 001, Rules (template must match exactly)",
)
def overflow(stage: str) -> Choice:
    """Decides what happens to rows longer than max_length: drop and count them; text is split instead.

    001 truncates. A truncated answer loses its end-of-turn token and teaches the model not to stop, and TRL drops rows
    whose whole answer is cut away without a count. We drop whole rows, count them, and fail above the limit of
    DATA-005. Text has no answer to lose: it is split.
    """
    if method_of(stage).of_text:
        return Choice("split", "text is split into blocks, so no token is lost")
    return Choice("drop", "a cut answer has no end-of-turn token and would teach the model not to stop")


@rule(
    "DATA-005",
    decides="dropped_rows_limit",
    watch="dropped_rows: at most this share, or preparation fails",
    source="rule book 001, Rules (filtered for quality), Anti-Pattern 2 (wrong format); trl #3449",
)
def dropped_rows_limit() -> Choice:
    """Decides the share of rows that preparation may drop before it fails: 5 %.

    The books ask for filtering without a limit. One row in twenty lost is noise; more means that the format or the
    length limit is wrong, and training on the rest would be another recipe than the one that was written.
    """
    return Choice(0.05, "more lost rows mean a wrong format or a wrong length", accepts=(0.0, 0.5))


@rule(
    "DATA-006",
    decides="loss_on",
    watch="trained_tokens: above 0 in every sample; 0 means that the mask hides the answer",
    source="rule book 001, Step 2 (Tokenization with Label Masking)",
)
def loss_on(data_format: str, template: str, template_has_mask: bool) -> Choice:
    """Decides which tokens are learned: the answers, or everything where there is only text.

    001 announces "mask user tokens with -100", but its code copies the inputs and masks nothing, padding included; we
    do what it announces. Chat rows are trained on the assistant's turns, instruction and prompt-completion rows on
    the completion with its end-of-text token, preference pairs on both answers, text on every token.
    Conversations whose template cannot say which tokens are the assistant's (TRL 1.16 has a training version of most
    families' templates, not of Llama 3.1's and 3.2's) are cut into one row per answer, with what came before as prompt.
    """
    part = ROW_FORMATS[data_format].loss_on
    if part == "assistant" and template == "model" and not template_has_mask:
        return Choice(
            "completion", "the model's template does not mark the assistant's tokens, so each answer becomes a row"
        )
    return Choice(part, _TAUGHT[part])


_TAUGHT = {
    "all": "text has no questions: every token is learned",
    "assistant": "the assistant's turns are learned, and what others say is not",
    "completion": "the answers are learned, and the prompts are not",
}


@rule(
    "DATA-007",
    decides="template",
    key="data.template",
    watch="trained_tokens, loss: the first loss of a chat model is low; a high one means a foreign template",
    source="rule book 001, Rules (chat template must match exactly), Step 2 (Chat Template Format)",
)
def template(data_format: str, model_kind: str, has_template: bool) -> Choice:
    """Decides how turns become text: the model's own template, `plain` for a base model without one.

    001: the template must match the base model's training format exactly, so a model that has one keeps it. A base
    model without one gets `plain`, which adds no new tokens and therefore needs no new embeddings. Text rows take none.
    """
    if not ROW_FORMATS[data_format].turns:
        return Choice("none", "text rows have no turns")
    if has_template:
        return Choice("model", f"the {model_kind} model has its own chat template, and training must use the same one")
    return Choice("plain", f"no template of this {model_kind} model is known; `plain` adds no new tokens")


@rule(
    "DATA-008",
    decides="deduplication",
    watch="dropped_rows, train_eval_gap: duplicates are counted; memorised ones widen the gap",
    source="rule book 003, Anti-Patterns (Skip data deduplication), Quality Gates; 001, Rules",
)
def deduplication() -> Choice:
    """Decides how duplicates are removed: identical rows, always.

    003 asks for an exact hash for identical rows and MinHash for near ones; 001 for "deduplicated and filtered". The
    exact pass costs one hash per row and is never skipped. MinHash is not in this version (page NOT-005).
    """
    return Choice("exact", "identical rows would be learned several times")


@rule(
    "DATA-009",
    decides="leak_check",
    watch="eval_loss, train_eval_gap: far better than the baseline at once is a leak",
    source="rule book 001, Anti-Pattern 3 (Data Leakage)",
)
def leak_check() -> Choice:
    """Decides what happens to rows that are both in training and in evaluation or test: they leave training.

    001 asks for strict separation. Removing them from evaluation would change what is measured from one version of
    the training data to the next; removing them from training keeps the yardstick.
    """
    return Choice("remove-from-train", "the evaluation rows stay the same from one version of the data to the next")
