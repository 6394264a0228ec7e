"""What a model acts with while it learns: tools.py, arguments of the trainer, and how evaluate.py plays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from recipec.backends.job import StageJob
from recipec.backends.methods.backend import Gain, Measure
from recipec.backends.parts import Import, Part, import_lines, lines
from recipec.backends.wrapped import CLAMP, SECONDS, copy_artifact
from recipec.facts.acting import Environment
from recipec.facts.tool_schemas import CHARACTERS_PER_RESULT_TOKEN
from recipec.render.artifact import Artifact
from recipec.render.call import Arg
from recipec.render.traced import Raw

TOOLS = "tools"  # the file of the bundle that has the environment and the functions as they are trained with
_PROMPTS = "config.generation_batch_size // config.num_generations, "


def acting_arguments(stage: StageJob) -> Iterator[Arg]:
    """After how many rounds of tool calls an answer ends."""
    if stage.acts:
        yield stage.arg("max_tool_calling_iterations", "tool_rounds", note=True)


def acting_part(stage: StageJob) -> Part:
    """The environment and the functions, tried before a model is loaded and described before step 1."""
    if not stage.acts:
        return Part()
    acting, ids = stage.job.facts.acting, stage.ids("tools", "tool_files")
    names = [*_trained_with(stage), "check_shown", "check_tools"]
    prompts = "" if has_rewards(stage) else _PROMPTS
    given = [Arg("tools", Raw("TOOLS"), ids)] * bool(acting.functions)
    if acting.environment:
        given.append(Arg("environment_factory", Raw(acting.environment.name), ids))
    return Part(
        own_imports=tuple(Import(TOOLS, name, ids) for name in names),
        before_trainer=lines(ids, f'check_tools(rows["train"], {prompts}DATA / "train.jsonl")'),
        arguments=tuple(given),
        before_training=lines(ids, "check_shown(trainer)"),
    )


def _trained_with(stage: StageJob) -> list[str]:
    acting = stage.job.facts.acting
    return [*["TOOLS"] * bool(acting.functions), *([acting.environment.name] if acting.environment else [])]


def has_rewards(stage: StageJob) -> bool:
    """Whether something beside the environment judges: the bundle then has rewards.py."""
    rewards = stage.job.facts.rewards
    return bool(stage.judge or rewards.functions or rewards.models)


def has_judge(stage: StageJob) -> bool:
    """Whether a model judges the answers, the recipe's or a result of a stage: the bundle then has judge.py."""
    return bool(stage.judge or stage.job.facts.rewards.models)


def evaluated_with(stage: StageJob) -> Raw | None:
    """The statement of evaluate.py that imports what answers act with; None where they do not act."""
    if not stage.acts:
        return None
    environment = stage.job.facts.acting.environment
    names = [environment.name, "tools_of"] if environment else ["TOOLS"]
    return import_lines(Import(TOOLS, name, stage.ids("tools")) for name in names)[0]


def acting_artifacts(stage: StageJob) -> list[Artifact]:
    """tools.py, and copies of the user's files that no reward has brought already."""
    if not stage.acts:
        return []
    acting, ids = stage.job.facts.acting, stage.ids("tools", "tool_files")
    entries = [*acting.functions, *filter(None, [acting.environment])]
    file_of = {entry.module: entry.file for entry in entries}
    own = {name: text for name, text in acting.files.items() if name not in stage.job.facts.rewards.files}
    copies = [copy_artifact(stage, name, text, file_of[name], ids) for name, text in own.items()]
    return [Artifact(f"{stage.folder}{TOOLS}.py", ids, "trl/tools.py.j2", _names(stage)), *copies]


def _names(stage: StageJob) -> dict[str, Any]:
    acting, functions = stage.job.facts.acting, bool(stage.job.facts.rewards.functions)
    entries = [*acting.functions, *filter(None, [acting.environment])]
    shared = [*["number"] * (functions and bool(acting.judges)), *["within"] * functions]
    result = stage.value("result_tokens")
    return {
        "stage": stage.traced("stage"),
        "modules": [Raw(name) for name in sorted({entry.module for entry in entries})],
        "shared": Raw(", ".join(shared)),
        "own_number": bool(acting.judges) and not functions,
        "own_within": not functions,
        "seconds": SECONDS,
        "clamp": CLAMP,
        "characters": stage.because(result * CHARACTERS_PER_RESULT_TOKEN, "result_tokens"),
        "result_tokens": stage.traced("result_tokens"),
        "shown": stage.traced("schema_tokens"),
        "functions": [{"call": Raw(f"{tool.module}.{tool.name}"), "name": tool.name} for tool in acting.functions],
        "counts_prompts": not has_rewards(stage),
        "any_tools": Raw(f"tools_of({acting.environment.name}())" if acting.environment else "TOOLS"),
        **(_names_of(stage, acting.environment) if acting.environment else _NO_ENVIRONMENT),
    }


def _names_of(stage: StageJob, environment: Environment) -> dict[str, Any]:
    columns = environment.reads.handed(stage.shape.handed)
    arguments = [f"{name}=row[{name!r}]".replace("'", '"') for name in columns]
    if sum(map(len, arguments)) > _ROOM:
        listed = ", ".join(f'"{name}"' for name in columns)
        arguments = [f"**{{name: row[name] for name in ({listed},)}}"]
    prompt, functions = "prompt" in environment.reads.given, stage.job.facts.acting.functions
    return {
        "environment": stage.because(Raw(environment.name), "environment"),
        "parent": Raw(f"{environment.module}.{environment.name}"),
        "methods": [Raw(name) for name in environment.tools],
        "offered": Raw(", ".join([*["*TOOLS"] * bool(functions), *(f"episode.{name}" for name in environment.tools)])),
        "judges": environment.judges,
        "columns": bool(columns),
        "asks_prompt": prompt,
        "reset_arguments": Raw(", ".join([*["prompt=prompt"] * prompt, *arguments])),
    }


_NO_ENVIRONMENT: Mapping[str, Any] = {
    "environment": None,
    "parent": None,
    "methods": [],
    "offered": None,
    "judges": False,
    "columns": False,
    "asks_prompt": False,
    "reset_arguments": None,
}
_ROOM = 80  # columns of a line that the arguments of reset may take


def _played_with(stage: StageJob) -> Mapping[str, Any]:
    """What the template of the measure reads."""
    acting = stage.job.facts.acting
    return {
        "merges": stage.because(stage.adapts.merges, "adaptation"),
        "rewards": stage.because(has_rewards(stage), "rewards"),
        "environment": Raw(acting.environment.name) if acting.environment else None,
        "judges": bool(acting.judges),
        "thinks_not": stage.because(stage.thinks_not, "reasoning"),
        "tools": Raw("tools_of(episode)" if acting.environment else "TOOLS"),
        "earned": Raw(_earned(stage)),
    }


def _earned(stage: StageJob) -> str:
    """What the answers of some rows earn, as code."""
    acting = stage.job.facts.acting
    if has_rewards(stage):
        return f"rewards_of(rows, messages{', episodes' * bool(acting.judges)})"
    return f'[{{"{acting.judges}": episode.get_reward()}} for episode in episodes]'


def played(stage: StageJob) -> Measure:
    """How evaluate.py plays and judges the models of a stage."""
    state = [Import("transformers", "TrainerState", stage.ids("rewards"))] * has_rewards(stage)
    reads = (*_PLAYED.reads, *["told"] * stage.thinks_not)
    return replace(_PLAYED, imports=(*_PLAYED.imports, *state), reads=reads)


_PLAYED = Measure(
    template="measures/played.py.j2",
    answers_all=True,
    names=_played_with,
    by_row=False,
    metrics=("mean_reward", "prompt_loss", "mean_length", "cut_share", "calls", "failed_calls"),
    loss="prompt_loss",
    gain=Gain(metric="mean_reward", noise="0.2"),
    imports=(
        *(Import("trl.chat_template_utils", name) for name in ("add_response_schema", "get_training_chat_template")),
        *(Import("trl.chat_template_utils", name) for name in ("is_chat_template_prefix_preserving", "parse_response")),
        Import("collections.abc", "Callable"),
        Import("statistics", "fmean"),
    ),
    reads=("encode", "opening"),
    same="the rewards of the same prompts, played with the same tools",
    unit="Rewards are means over the prompts, of one greedy answer to each, played with the tools of the training.",
)
