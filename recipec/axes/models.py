"""The models that a method may need beside the one it trains, and that a recipe names in [alignment]. One row each."""

from __future__ import annotations

from msgspec import Struct

POLICY, REFERENCE, TEACHER = "policy", "reference", "teacher"


class NamedModel(Struct, frozen=True, kw_only=True):
    """A model that is neither what is trained nor its frozen start."""

    name: str  # of the model of a pass, of the decision that names it, and the key of [alignment]
    title: str  # for editors
    description: str  # for editors and the reference of keys
    examples: tuple[str, ...]  # of what a recipe writes there
    goes_with: str  # a model to train beside the first example


NAMED_MODELS = {
    row.name: row
    for row in (
        NamedModel(
            name=TEACHER,
            title="Teacher",
            description="Teacher model of distillation: a name of `recipec list models`, a Hugging Face Hub id, or a "
            "local "
            "folder that starts with `./`. It must have the same vocabulary as `model.name`.",
            examples=("Qwen/Qwen3-14B", "./my-teacher"),
            goes_with="Qwen/Qwen3-1.7B",
        ),
    )
}

MODELS = (POLICY, REFERENCE, *NAMED_MODELS)  # of a pass
