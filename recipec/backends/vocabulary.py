"""vocabulary.py: the recipe's model with room for new tokens, as a folder that stages load; and what learns them."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.backends.dequantized import CONFIG, loaded_whole, own_names
from recipec.backends.job import Job, StageJob
from recipec.backends.models import (
    EXTENDED,
    NEW_TOKENS,
    RECORD,
    TEXT_PART,
    base_model,
    extended_from,
    from_hub,
    is_below_root,
)
from recipec.backends.parts import Import, Part, lines
from recipec.catalog.architecture import HEAD
from recipec.facts.new_tokens import ROWS_MULTIPLE
from recipec.render.artifact import Artifact
from recipec.render.call import Arg, Call
from recipec.render.environment import snippet
from recipec.render.traced import Raw, fragment

SCRIPT = "vocabulary.py"
IDS = "new_tokens.json"  # the file of the extended model's folder that has the new tokens and their numbers
# TRL's loss reads the bias of the head, which PEFT's wrapper around it hides: PEFT #3688.
_NO_BIAS = "trainer.model.get_output_embeddings().bias = None  # PEFT's wrapper has none, and TRL's loss reads it"
_READ = f'''\
def new_tokens() -> dict[str, int]:
    """The tokens that vocabulary.py added to the model, and their numbers."""
    return json.loads((BUNDLE / "{EXTENDED}" / "{IDS}").read_text(encoding="utf-8"))'''


def vocabulary_artifacts(job: Job) -> list[Artifact]:
    """The script that adds the tokens, and the tokens; nothing where the vocabulary stays as it is."""
    if not job.facts.new_tokens:
        return []
    first = job.stages[0]
    ids, stored = first.ids("model", "new_tokens"), job.facts.model.stored is not None
    source = Raw(f'str(BUNDLE / "{TEXT_PART}")') if stored else base_model(first)
    load = from_hub(first, "AutoModelForCausalLM", Raw("MODEL"), whole=not stored)
    names = {
        "name": first.traced("model"),
        "model": source,
        "local_model": first.because(is_below_root(job.facts.model.name) and not stored, "model"),
        "extended_from": fragment(extended_from(first), ids),
        "folder": EXTENDED,
        "tokens": NEW_TOKENS,
        "record": RECORD,
        "numbers": IDS,
        "multiple": ROWS_MULTIPLE,
        "load": Call(load.target, [*load.args, Arg("dtype", "auto", ids), *loaded_whole(first)]),
        "also_loads": Raw(f", {CONFIG}" if loaded_whole(first) else ""),
        "own_names": own_names(first, "model"),
        "tokenizer": from_hub(first, "AutoTokenizer", Raw("MODEL"), whole=not stored),
    }
    text = "".join(f"{token}\n" for token in job.facts.new_tokens)
    return [
        Artifact(SCRIPT, ids, "vocabulary.py.j2", names),
        Artifact(NEW_TOKENS, ids, "new_tokens.txt.j2", {"tokens": Raw(text)}),
    ]


def new_tokens_part(stage: StageJob) -> Part:
    """What train.py needs to learn new tokens: it trains their rows beside adapters, and looks whether rows have any.

    Of several stages that learn them the first looks, and refuses nothing: rows of a later one may have them.
    """
    if not (stage.job.facts.new_tokens and stage.method.learns_tokens):
        return Part()
    ids, beside = stage.ids("new_tokens", "stage"), not stage.adapts.trains_all
    no_bias = lines(stage.ids("trained_rows"), _NO_BIAS) if beside else ()
    if stage.start is not None:
        needed = (Import("json", "", ids),), (fragment(_READ, ids),)
        return Part(imports=needed[0], functions=needed[1], after_trainer=no_bias) if beside else Part()
    alone = sum(other.method.learns_tokens for other in stage.job.stages) == 1
    check = snippet("trl/new_tokens.py.j2", {"alone": alone}, ids)
    return Part(
        imports=(Import("json", "", ids), Import("datasets", "Dataset", ids)),
        functions=(fragment(_READ, ids), check),
        after_trainer=no_bias,
        before_training=lines(ids, "check_new_tokens(trainer.train_dataset)"),
    )


def trained_rows(stage: StageJob) -> Iterator[Arg]:
    """The rows of the embedding, and of a head that is no copy of it, that train beside adapters."""
    if "trained_rows" not in stage.plan.decisions:
        return
    shape = stage.job.facts.model.architecture
    matrices = [shape.modules.embedding, *[HEAD] * (not shape.tie_embeddings)]
    rows = ", ".join(f'"{name}": [*new_tokens().values()]' for name in matrices)
    why = (
        "of these tokens alone" if len(matrices) > 1 else "of these tokens alone, and of the head, which is tied to it"
    )
    yield Arg("trainable_token_indices", Raw(f"{{{rows}}}"), stage.ids("trained_rows", "model"), why)
