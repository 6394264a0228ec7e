"""What a method says of the rows that it learns from, of when it runs, and of the models that it needs."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.axes.adaptations import ADAPTATIONS, NO_REFERENCE, Adaptation
from recipec.axes.agreement.hyperparameters import of_hyperparameters
from recipec.axes.agreement.names import repeated, unknown
from recipec.axes.method import (
    AUTO_CLASSES,
    HEADS,
    LOSS_OUTPUTS,
    LOSSES,
    PACKINGS,
    PROOFS,
    SAMPLINGS,
    SCORES,
    Method,
)
from recipec.axes.methods import METHODS
from recipec.axes.models import MODELS, POLICY
from recipec.axes.row_formats import KINDS, ROW_FORMATS
from recipec.axes.sections import SECTIONS


def of_method(method: Method) -> Iterator[str]:
    """The contradictions of one method."""
    row = f"method `{method.name}`"
    yield from _of_names(row, method)
    yield from _of_rows(row, method)
    yield from _of_order(row, method)
    yield from _of_passes(row, method)
    yield from _of_loss(row, method)
    yield from _of_result(row, method)
    for name in method.adaptations:
        if name in ADAPTATIONS:
            yield from _of_pair(method, ADAPTATIONS[name])
    yield from of_hyperparameters(row, method)


def _of_names(row: str, method: Method) -> Iterator[str]:
    """What it names is there, and once."""
    yield from unknown(row, "section", [method.section], SECTIONS, "the sections of [data]")
    yield from unknown(row, "formats", method.formats, ROW_FORMATS, "the formats of rows")
    yield from unknown(row, "kinds", method.kinds, KINDS, "the kinds of rows")
    yield from unknown(row, "after", method.after, METHODS, "the methods")
    yield from unknown(row, "adaptations", method.adaptations, ADAPTATIONS, "the adaptations")
    yield from unknown(row, "preferred", method.preferred, method.adaptations, "its adaptations")
    yield from unknown(row, "packs", [method.packs], PACKINGS, "the ways to pack")
    yield from unknown(row, "sampling", [method.sampling], SAMPLINGS, "the ways to sample")
    yield from unknown(row, "head", [method.head], HEADS, "the heads")
    yield from unknown(row, "loss", [method.loss], LOSSES, "the losses")
    yield from unknown(row, "loss_outputs", method.loss_outputs, LOSS_OUTPUTS, "the outputs of TRL's fused head")
    yield from unknown(row, "auto_class", [method.auto_class], AUTO_CLASSES, "the classes that load a result")
    yield from unknown(row, "proof", method.proof, PROOFS, "the proofs")
    for field in ("formats", "kinds", "after", "adaptations", "preferred", "loss_outputs", "metrics", "proof"):
        yield from repeated(row, field, getattr(method, field))


def _of_rows(row: str, method: Method) -> Iterator[str]:
    """Each format becomes a kind that the trainer reads, and only text is cut into blocks."""
    for name in method.formats:
        made = ROW_FORMATS.get(name)
        if made and not {made.kind, made.unrolled} & set(method.kinds):
            yield f"{row} takes the format `{name}`, and its trainer does not read its kind, `{made.kind}`"
    if method.of_text != (method.packs == "blocks"):
        yield f"{row} packs `{method.packs}`, and its block_tokens are {method.block_tokens}"
    if method.least_micro_batch < 1:
        yield f"{row}: least_micro_batch is {method.least_micro_batch}, and a micro batch has one example at least"


def _of_order(row: str, method: Method) -> Iterator[str]:
    """What may run before it is above it in the table of methods, and has rows of its own."""
    place = {other.name: index for index, other in enumerate(METHODS.values())}
    for name in method.after:
        if place.get(name, -1) >= place[method.name]:
            yield f"{row} runs after method `{name}`, which METHODS does not have above it"
        if name in METHODS and METHODS[name].section == method.section:
            yield f"{row} runs after method `{name}`, and both learn from data.{method.section}"


def _of_passes(row: str, method: Method) -> Iterator[str]:
    yield from unknown(row, "passes", [part.model for part in method.passes], MODELS, "the models of a pass")
    yield from unknown(row, "passes", [part.gives for part in method.passes], SCORES, "what a pass gives")
    learned = [part.model for part in method.passes if part.gradient]
    if learned != [POLICY]:
        yield f"{row} learns from the passes of {learned}, and recipec from exactly one, of the `{POLICY}`"
    for part in method.passes:
        if part.sequences < 1:
            yield f"{row}: a pass of the `{part.model}` is over {part.sequences} sequences"


def _of_loss(row: str, method: Method) -> Iterator[str]:
    """The loss is computed by the head that it needs, from the models that it compares, on the same sequences."""
    if method.loss not in LOSSES:
        return
    loss = LOSSES[method.loss]
    if method.head != loss.head:
        yield f"{row}: its loss `{method.loss}` needs the head `{loss.head}`, and its head is `{method.head}`"
    compared = dict.fromkeys(part.model for part in method.passes if part.model != POLICY)
    if loss.compares_with and loss.compares_with not in compared:
        yield f"{row}: its loss `{method.loss}` compares with the `{loss.compares_with}`, and passes has none of it"
    for model in compared:
        if model != loss.compares_with:
            yield f"{row}: passes has one of the `{model}`, with which its loss `{method.loss}` does not compare"
        elif (theirs := _results(method, model)) != (ours := _results(method, POLICY)):
            yield f"{row}: of an example the `{model}` gives {theirs}, and the `{POLICY}` it is compared with {ours}"


def _results(method: Method, model: str) -> str:
    """What all passes of a model give together."""
    passes = [part for part in method.passes if part.model == model]
    given = " and ".join(dict.fromkeys(part.gives for part in passes))
    return f"{given} for {sum(part.sequences for part in passes)} sequences"


def _of_result(row: str, method: Method) -> Iterator[str]:
    """Head, class, adapters and new modules are all those of a model that writes, or all of one that scores."""
    given = " and ".join(dict.fromkeys(part.gives for part in method.passes if part.gradient))
    made, task = AUTO_CLASSES.get(method.auto_class, ("", method.peft_task))
    if method.head in HEADS and HEADS[method.head] != given:
        yield f"{row}: its head `{method.head}` is for {HEADS[method.head]}, and its passes learn from {given}"
    if made and made != given:
        yield f"{row}: its auto_class `{method.auto_class}` gives {made}, and its passes learn from {given}"
    if method.peft_task != task:
        yield f"{row}: its auto_class `{method.auto_class}` is PEFT's `{task}`, and its peft_task `{method.peft_task}`"
    if bool(method.new_head) != (given == "score"):
        yield f"{row}: its passes learn from {given}, and its new_head is `{method.new_head}`"


def _of_pair(method: Method, adaptation: Adaptation) -> Iterator[str]:
    """What an adaptation must give a method that can run with it."""
    if method.has_reference and adaptation.reference == NO_REFERENCE:
        yield (
            f"method `{method.name}` compares with the model as it was at the start, and adaptation "
            f"`{adaptation.name}`, which it can run with, has no such model"
        )
    if method.random_weights and not adaptation.trains_all:
        yield f"method `{method.name}` starts from random weights, which adaptation `{adaptation.name}` leaves frozen"
