"""The section [alignment]: what the model is brought near to, and what each method has of its own.

Methods, models beside the one that is trained, and hyperparameters are taken from the rows of recipec/axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from pydantic import Field, create_model, model_validator

from recipec.axes import METHODS, NAMED_MODELS, Own
from recipec.axes.method import ENVIRONMENT, PRECOMPUTE, REWARDS, TOOL_FUNCTIONS
from recipec.axes.tasks import KL_CONTROLS, NO_ALIGNMENT
from recipec.recipe.fields import AUTO, Line, OneOrMany, Revision, Section, key, one_of, required, table


def _own_keys() -> Iterator[tuple[str, tuple[Any, Any]]]:
    """The keys of [alignment] that set the methods' own hyperparameters; several methods can share one.

    "generation.temperature" is a key of the table `generation`.
    """
    rows = [(method.alignment or method.name, own) for method in METHODS.values() for own in method.keys]
    names = dict.fromkeys(own.key for _, own in rows)
    found = {name: _own_key([(method, own) for method, own in rows if own.key == name]) for name in names}
    yield from ((name, value) for name, value in found.items() if "." not in name)
    for name in dict.fromkeys(own.partition(".")[0] for own in found if "." in own):
        keys = {own.partition(".")[2]: value for own, value in found.items() if own.startswith(f"{name}.")}
        title, described, example = _TABLES[name]
        yield (
            name,
            (
                create_model(name.title(), __base__=Section, __doc__=f"{title}.", **keys),
                table(title, described, example),
            ),
        )


_TABLES = {  # of [alignment]: title, description, example
    "generation": (
        "Generation of answers",
        "How answers are generated during training, for methods that train on their own answers.",
        {"per_prompt": 8, "max_new_tokens": 512},
    )
}


def _own_key(shared: list[tuple[str, Own]]) -> tuple[Any, Any]:
    rows = [own for _, own in shared]
    return _value_of(rows) | None, key(rows[0].title, _described(shared), rows[0].value)


def _described(shared: list[tuple[str, Own]]) -> str:
    """What the key does; what it does in each method, where that differs."""
    methods: dict[str, list[str]] = {}
    for method, own in shared:
        methods.setdefault(own.description, []).append(f"`{method}`")
    if len(methods) == 1:
        return shared[0][1].description
    lines = (f"- {', '.join(names)}: {description}" for description, names in methods.items())
    return "\n".join(["The meaning depends on `alignment.method` or the task.", "", *lines])


def _value_of(shared: list[Own]) -> Any:
    """All values that the methods take between them: what belongs to another method is refused by name later."""
    kinds = {own.values is None for own in shared}
    assert len(kinds) == 1, f"{' and '.join(own.id for own in shared)} share a key: a number and a name"
    if kinds == {True}:
        least, most = min((own.above, not own.closed) for own in shared), max(own.most for own in shared)
        number = int if all(own.whole for own in shared) else float
        return Annotated[number, Field(**{"gt" if least[1] else "ge": least[0]}, le=most)]
    values = dict.fromkeys(value for own in shared for value in own.values)
    return one_of({value: _meanings(own.values.get(value) for own in shared) for value in values})


def _meanings(meanings: Iterable[str | None]) -> str:
    return "; ".join(dict.fromkeys(filter(None, meanings)))


class ModelSource(Section):
    """Another model beside the trained one, with the keys of [model]."""

    name: Line = required(
        "Model",
        "A name of `recipec list models`, a Hugging Face Hub id, or a local folder that starts with `./`.",
        "./teacher",
    )
    like: Line | None = key(
        "Like",
        "For a model outside the catalog: a catalog model with the same architecture, or the ./folder of its "
        "config.json.",
        "Qwen/Qwen3-8B",
        absent="the shape is that of the catalog, or of the folder's config.json",
    )
    revision: Revision | None = key(
        "Revision",
        "Branch, tag or commit of the model on the Hugging Face Hub.",
        "main",
        absent="the default branch on the Hub",
    )

    @model_validator(mode="before")
    @classmethod
    def _name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        source = handler.resolve_ref_schema(handler(schema))
        return {"anyOf": [{"type": "string", "title": "Model", "description": "The name of the model."}, dict(source)]}


class RewardSource(Section):
    """A Python function or a reward model that scores answers, and its weight."""

    function: Line | None = key(
        "Function",
        "A Python file and a function in it, as FILE:NAME. The function receives the arguments that its parameters "
        "name, "
        "such as `completions`, and returns one number per answer. As in TRL, a completion is a list of messages: its "
        'text is `completion[-1]["content"]`.',
        "rewards.py:is_right",
        absent="none; `model` is then required",
    )
    model: Line | None = key(
        "Model",
        "A reward model that gives each answer one score: a Hugging Face Hub id, or the ./folder of a model trained "
        "with "
        "the task `reward`. Use either this or `function`.",
        "./reward-model",
        absent="none; `function` is then required",
    )
    like: Line | None = key(
        "Like",
        "For a reward model outside the catalog: a catalog model with the same architecture, for its memory.",
        "Qwen/Qwen3-0.6B",
        absent="the shape is that of the catalog, or of the folder's config.json",
    )
    revision: Revision | None = key(
        "Revision",
        "Branch, tag or commit of the reward model on the Hugging Face Hub.",
        "main",
        absent="the default branch on the Hub",
    )
    weight: Annotated[float, Field(ge=-1000, le=1000)] | None = key(
        "Weight", "Factor of its rewards before the rewards of all entries are added.", 0.5, default=1
    )

    @model_validator(mode="before")
    @classmethod
    def _function(cls, value: Any) -> Any:
        return {"function": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        source = handler.resolve_ref_schema(handler(schema))
        return {
            "anyOf": [{"type": "string", "title": "Function", "description": "A function, as FILE:NAME."}, dict(source)]
        }


Rewards = Annotated[list[RewardSource], OneOrMany, Field(min_length=1, max_length=16)]


def _named_models() -> Iterator[tuple[str, tuple[Any, Any]]]:
    """The keys of [alignment] that name the models which methods run beside their own."""
    for name in dict.fromkeys(name for method in METHODS.values() for name in method.named_models):
        row = NAMED_MODELS[name]
        needed = "none; required if a method needs it"
        yield name, (ModelSource | None, key(row.title, row.description, *row.examples, absent=needed))


_NAMED = {row.alignment: row.means for row in METHODS.values() if row.alignment}
_ALIGNED = " or ".join(dict.fromkeys(f"`{row.task}`" for row in METHODS.values() if row.is_set_in_alignment))
_AlignmentMethod = one_of({AUTO: "decided from the task and the data", NO_ALIGNMENT: "no preference stage"} | _NAMED)

Alignment = create_model(
    "Alignment",
    __base__=Section,
    __doc__="Method and hyperparameters of preference training, reinforcement learning and distillation; for the task "
    f"{_ALIGNED}.",
    method=(
        _AlignmentMethod | None,
        key("Method", "The training method of the task, such as DPO or GRPO.", *_NAMED, default=AUTO),
    ),
    kl_control=(
        one_of(KL_CONTROLS) | None,
        key(
            "KL control",
            "How closely the KL to the model's start must be controlled while it learns from preference pairs: it "
            "chooses the method, in place of `alignment.method`.",
            "high",
            default="low",
        ),
    ),
    **dict(_named_models()),
    **{
        REWARDS: (
            Rewards | None,
            key(
                "Reward",
                "What scores the generated answers: a Python function such as `def is_right(completions, answer)`, a "
                "reward model, or a list of these, each with a weight. `answer` is a column of the rows, and the "
                "function returns one number per answer.",
                "rewards.py:is_right",
                ["rewards.py:is_right", {"model": "./reward-model", "weight": 0.2}],
                absent="for PPO, a reward model is trained first from `data.preferences`; required for other methods "
                "that "
                "generate answers",
            ),
        ),
        ENVIRONMENT: (
            Line | None,
            key(
                "Environment",
                "A Python file and a class in it, as FILE:CLASS, that answers act in: `reset` begins an episode for "
                "each answer, its other public methods are the tools that the model calls, and `get_reward` judges.",
                "shop.py:Shop",
                absent="none; answers are of one turn",
            ),
        ),
        TOOL_FUNCTIONS: (
            Annotated[list[Line], OneOrMany, Field(min_length=1, max_length=32)] | None,
            key(
                "Tools",
                "Python functions that the model may call while it writes an answer, each as FILE:NAME. They keep no "
                "state between calls; for tools with a state set `environment`.",
                "tools.py:search",
                ["tools.py:search", "tools.py:calculate"],
                absent="none; answers are of one turn",
            ),
        ),
    },
    **dict(_own_keys()),
    **{
        PRECOMPUTE: (
            bool | None,
            key(
                "Precompute the reference",
                "Compute the log-probabilities of the reference model once before training instead of in every epoch. "
                "Full fine-tuning then needs no second copy of the model.",
                True,
                absent="decided from the epochs, the adaptation and the strategy",
            ),
        )
    },
)
