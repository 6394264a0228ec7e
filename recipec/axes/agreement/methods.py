"""What a method says of the rows that it learns from, of when it runs, and of the models that it needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import chain, combinations

from recipec.axes.adaptations import ADAPTATIONS, NO_REFERENCE, Adaptation
from recipec.axes.agreement.hyperparameters import not_changeable, of_all_own, of_hyperparameters
from recipec.axes.agreement.names import repeated, unknown
from recipec.axes.generators import GENERATORS
from recipec.axes.kinds import KINDS
from recipec.axes.method import AUTO_CLASSES, HEADS, LOSS_OUTPUTS, LOSSES, PACKINGS, PROOFS, SAMPLINGS, SCORES, Method
from recipec.axes.methods import METHODS
from recipec.axes.models import MODELS, POLICY, REFERENCE
from recipec.axes.row_formats import ROW_FORMATS
from recipec.axes.sections import SECTIONS
from recipec.axes.tasks import SHARED_TASKS


def of_methods() -> Iterator[str]:
    """The contradictions of all methods, each also as the values of its own hyperparameters change it."""
    for method in METHODS.values():
        yield from dict.fromkeys(chain.from_iterable(map(of_method, (method, *_changed(method)))))
    yield from of_all_own()
    yield from _of_tasks()


def _changed(method: Method) -> Iterator[Method]:
    """The row as each value of its own hyperparameters changes it; what it may not change is told of the row itself."""
    for own in method.own:
        for value in own.changes:
            if not any(not_changeable(own)):
                yield method.under({own.name: value})


def _of_tasks() -> Iterator[str]:
    """Of several methods that fulfil a task, alignment.method names each, and none of them twice."""
    for one, other in combinations(METHODS.values(), 2):
        names = f"methods `{one.name}` and `{other.name}`"
        if one.alignment and one.alignment == other.alignment:
            yield f"{names} have the same alignment, `{one.alignment}`"
        if one.task != other.task:
            continue
        for row in (one, other):
            if not row.alignment:
                yield f"{names} both fulfil the task `{one.task}`, and `{row.name}` has no alignment to be named by"
        if one.task not in SHARED_TASKS:
            yield f"{names} both fulfil the task `{one.task}`, and SHARED_TASKS does not say what that means"


def of_method(method: Method) -> Iterator[str]:
    """The contradictions of one method."""
    row = f"method `{method.name}`"
    yield from _of_names(row, method)
    yield from _of_reasons(row, method)
    yield from _of_rows(row, method)
    yield from _of_order(row, method)
    yield from _of_judge(row, method)
    yield from _of_passes(row, method)
    yield from _of_loss(row, method)
    yield from _of_result(row, method)
    yield from _of_proofs(row, method)
    yield from _of_adaptations(row, method)
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
    yield from unknown(row, "judge", [method.judge] * bool(method.judge), METHODS, "the methods")
    yield from unknown(row, "adaptations", method.adaptations, ADAPTATIONS, "the adaptations")
    yield from unknown(row, "preferred", method.preferred, method.adaptations, "its adaptations")
    yield from unknown(row, "generator", [method.generator] * method.generates, GENERATORS, "the generators")
    yield from unknown(row, "packs", [method.packs], PACKINGS, "the ways to pack")
    yield from unknown(row, "sampling", [method.sampling], SAMPLINGS, "the ways to sample")
    yield from unknown(row, "loss", [method.loss], LOSSES, "the losses")
    yield from unknown(row, "loss_outputs", method.loss_outputs, LOSS_OUTPUTS, "the outputs of TRL's fused head")
    yield from unknown(row, "auto_class", [method.auto_class], AUTO_CLASSES, "the classes that load a result")
    yield from unknown(row, "proof", method.proof, PROOFS, "the proofs")
    for field in ("formats", "kinds", "after", "adaptations", "preferred", "loss_outputs", "metrics", "proof"):
        yield from repeated(row, field, getattr(method, field))


# Texts that are there where, and only where, something is to be explained; a sentence for either way.
_REASONS: dict[str, Callable[[Method], str]] = {
    "adaptations_because": lambda method: _listed(
        "it leaves out adaptation", set(ADAPTATIONS) - set(method.adaptations)
    ),
    "preferred_because": lambda method: _listed("it prefers adaptation", method.preferred),
    "packs_because": lambda method: f"it packs `{method.packs}`" * (method.packs != "examples"),
    "least_micro_batch_because": lambda method: (
        f"its least_micro_batch is {method.least_micro_batch}" * (method.least_micro_batch > 1)
    ),
}


def _of_reasons(row: str, method: Method) -> Iterator[str]:
    for field, asks in _REASONS.items():
        explained, said = asks(method), getattr(method, field).strip()
        if explained and not said:
            yield f"{row}: {explained}, and {field} is empty"
        if said and not explained:
            yield f"{row}: {field} explains what the row does not say: {said}"


def _listed(what: str, names: Collection[str]) -> str:
    """The names after what is said of them; "" where there are none."""
    return f"{what} {', '.join(f'`{name}`' for name in sorted(names))}" if names else ""


def _of_rows(row: str, method: Method) -> Iterator[str]:
    """Each format becomes a kind that the trainer reads, and only text is cut into blocks."""
    for name in method.formats:
        made = ROW_FORMATS.get(name)
        if made and not {made.kind, made.unrolled} & set(method.kinds):
            yield f"{row} takes the format `{name}`, and its trainer does not read its kind, `{made.kind}`"
    columns = {name for kind in method.kinds if kind in KINDS for name in KINDS[kind].columns}
    for column in method.unread:
        if column in columns:
            yield f"{row}: unread has the column `{column}`, which a kind of row that its trainer reads has"
    for name in (name for name in method.kinds if name in KINDS and bool(KINDS[name].taught) == method.generates):
        learned = "holds answers" if method.generates else "holds nothing that is learned"
        yield f"{row} reads the kind `{name}`, which {learned}, and its generates is {method.generates}"
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


def _of_judge(row: str, method: Method) -> Iterator[str]:
    """What judges answers gives scores, is trained before, and from rows of its own."""
    judge = METHODS.get(method.judge)
    if judge is None:
        return
    order = list(METHODS)
    if not method.generates:
        yield f"{row}: its judge is `{judge.name}`, and it writes no answers"
    if judge.writes:
        yield f"{row}: its judge `{judge.name}` writes text, and gives no scores"
    if order.index(judge.name) >= order.index(method.name):
        yield f"{row}: its judge `{judge.name}` is not above it in METHODS"
    if judge.section == method.section:
        yield f"{row}: its judge `{judge.name}` learns from data.{judge.section} too"


def _of_passes(row: str, method: Method) -> Iterator[str]:
    yield from unknown(row, "passes", [part.model for part in method.passes], MODELS, "the models of a pass")
    yield from unknown(row, "passes", [part.gives for part in method.passes], SCORES, "what a pass gives")
    learned = [part.model for part in method.passes if part.gradient]
    if learned != [POLICY]:
        yield f"{row} learns from the passes of {learned}, and recipec from exactly one, of the `{POLICY}`"
    if method.precomputes and not method.has_reference:
        yield f"{row}: `{method.precomputes}` is of the `{REFERENCE}`, and passes has none of it"
    for part in method.passes:
        if part.sequences < 1:
            yield f"{row}: a pass of the `{part.model}` is over {part.sequences} sequences"


def _of_loss(row: str, method: Method) -> Iterator[str]:
    """The loss is computed by the head that it needs, from the models that it compares, on the same sequences."""
    if method.loss not in LOSSES:
        return
    loss = LOSSES[method.loss]
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
    """Head, class and new modules are all those of a model that writes, or all of one that scores."""
    given = " and ".join(dict.fromkeys(part.gives for part in method.passes if part.gradient))
    made, _ = AUTO_CLASSES.get(method.auto_class, ("", ""))
    if made and made != given:
        yield f"{row}: its auto_class `{method.auto_class}` gives {made}, and its passes learn from {given}"
    if bool(method.new_head) != (given == "score"):
        yield f"{row}: its passes learn from {given}, and its new_head is `{method.new_head}`"
    if method.loss not in LOSSES:
        return
    head = f"its loss `{method.loss}` has the head `{method.head}`"
    if method.head in HEADS and HEADS[method.head] != given:
        yield f"{row}: {head}, which is for {HEADS[method.head]}, and its passes learn from {given}"
    if HEADS.get(method.head) == "score" and method.loss_outputs:
        yield f"{row}: {head}, which gives scores, and loss_outputs asks for {', '.join(method.loss_outputs)}"
    asked = bool(method.loss_outputs)  # of TRL's fused head, which a trainer need not use
    if HEADS.get(method.head) == "tokens" and asked and "log_probs" not in method.loss_outputs:
        yield f"{row}: {head}, which is computed from `log_probs`, and loss_outputs does not ask for them"


def _of_proofs(row: str, method: Method) -> Iterator[str]:
    """A proof looks at what the method logs, and at a loss that compares with what the proof is about."""
    compared = LOSSES[method.loss].compares_with if method.loss in LOSSES else ""
    if not method.proof:
        yield f"{row}: proof is empty, so that nothing shows that it learns"
    for name, needs in ((name, PROOFS[name]) for name in method.proof if name in PROOFS):
        for metric in needs.metrics:
            if metric not in method.metrics:
                yield f"{row}: its proof `{name}` looks at `{metric}`, which its metrics do not have"
        if needs.compares_with not in ("", compared):
            yield f"{row}: its proof `{name}` is of the `{needs.compares_with}`, with which its loss does not compare"


def _of_adaptations(row: str, method: Method) -> Iterator[str]:
    """There is one, and where there is no other the row says so itself: the rules order those of several."""
    if not method.adaptations:
        yield f"{row}: adaptations is empty"
    if len(method.adaptations) == 1 and not method.preferred:
        yield f"{row}: it runs with adaptation `{method.adaptations[0]}` alone, and preferred is empty"


def _of_pair(method: Method, adaptation: Adaptation) -> Iterator[str]:
    """What an adaptation must give a method that can run with it."""
    if method.has_reference and adaptation.reference == NO_REFERENCE:
        yield (
            f"method `{method.name}` compares with the model as it was at the start, and adaptation "
            f"`{adaptation.name}`, which it can run with, has no such model"
        )
    if method.random_weights and not adaptation.trains_all:
        yield f"method `{method.name}` starts from random weights, which adaptation `{adaptation.name}` leaves frozen"
