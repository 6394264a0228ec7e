"""The recipe language: its sections in the order a recipe writes them.

An absent key is None, which means "decided". An absent table is an empty table.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from recipec.axes import METHODS, tasks
from recipec.recipe.fields import (
    AUTO,
    RECIPE_NAME,
    Line,
    OneOrMany,
    Prose,
    Section,
    Usd,
    Variable,
    VariableValue,
    WarningCode,
    key,
    one_of,
    required,
    table,
)
from recipec.recipe.schema_alignment import Alignment
from recipec.recipe.schema_data import Data
from recipec.recipe.schema_training import Train

Task = one_of(tasks())
Priority = one_of(
    {
        "quality": "the best result that fits",
        "speed": "the shortest time",
        "memory": "the smallest peak memory",
    }
)
Link = one_of(
    {
        AUTO: "what this GPU usually has",
        "pcie": "PCI Express only",
        "nvlink": "NVLink between the GPUs",
        "infinity-fabric": "AMD Infinity Fabric",
    }
)
LOCAL, NO_SCRIPT = "local", "none"
# The values of launch.with and what each means; recipec/backends/launchers/ has a script for all but the last.
LAUNCH_WITH = {
    LOCAL: "a script that runs on this machine",
    NO_SCRIPT: "no script: the team has its own launcher",
}
Launcher = one_of(LAUNCH_WITH)
Tracker = one_of(
    {
        "tensorboard": "files in the output folder",
        "wandb": "Weights & Biases",
        "mlflow": "an MLflow server or folder",
        "none": "no tracking",
    }
)
# The trackers that know projects, and the variable that the Trainer reads the project from.
PROJECT_VARIABLES = {"wandb": "WANDB_PROJECT", "mlflow": "MLFLOW_EXPERIMENT_NAME"}
Status = one_of(
    {
        "experimental": "a try",
        "staging": "a candidate under test",
        "production": "in use",
        "archived": "kept, no longer used",
    }
)
MOST_USD_PER_GPU_HOUR = 10_000  # our decision: over 1,000 times the dearest price of the catalog
_Names = Annotated[list[Line], Field(min_length=1, max_length=256)]


class Header(Section):
    """Who this recipe is."""

    name: Annotated[str, Field(pattern=RECIPE_NAME)] = required(
        "Name",
        "Names the run for its tracker, the bundle's README and the registry entry. Never inherited.",
        "support-assistant",
    )
    description: Prose | None = key(
        "Description",
        "Free text for the bundle's README and the registry entry.",
        "Answers support tickets.",
        absent="README and registry entry have none",
    )
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = key(
        "Seed", "Fixes the shuffling, the split and the initial adapter weights.", 17
    )
    extends: Annotated[list[Line], OneOrMany, Field(max_length=16)] | None = key(
        "Extends",
        "Recipes to start from: a path ending in .toml, a shipped recipe's name, or a list in which later ones win.",
        "team.toml",
        ["team.toml", "./a100.toml"],
        absent="the recipe stands alone",
    )
    allow: Annotated[list[WarningCode], Field(max_length=64)] | None = key(
        "Allowed warnings",
        "Codes of warnings that this recipe accepts and that are not shown.",
        ["W0503"],
        absent="every warning is shown",
    )


class Goal(Section):
    """What the model should learn to do."""

    task: Task = required("Task", "The kind of training, which decides the stages and the rows they read.", "instruct")
    priority: Priority | None = key(
        "Priority",
        "What matters most where several ways of training would fit.",
        "speed",
        absent="no preference; the amount of data, the memory of the GPUs and the task decide",
    )
    new_domain: bool | None = key(
        "New domain",
        "The data is far from what the model has seen, or has its own vocabulary.",
        True,
        default=False,
    )
    first_time: bool | None = key(
        "First time",
        "This is your first training of this model. On less than 16 GB of GPU memory QLoRA is then tried first; with "
        "priority `quality`, 10,000 to 100,000 rows and 48 GB or more, full fine-tuning is, whatever the size of the "
        "model. Otherwise it changes nothing.",
        True,
        default=False,
    )


class BaseModelChoice(Section):
    """The model to start from; for the task `pretrain` only its architecture and its tokenizer."""

    name: Line = required(
        "Model",
        "A name or alias of the catalog, a hub id, the ./folder of a model, or `auto`: chosen from the catalog for the "
        "goal, the data and the hardware.",
        "Qwen/Qwen3-8B",
        "./my-model",
        AUTO,
    )
    like: Line | None = key(
        "Like",
        "For a model outside the catalog: a catalog name, or the ./folder of a config.json, of the same shape.",
        "Qwen/Qwen3-8B",
        absent="the shape is that of the catalog, or of the folder's config.json",
    )
    revision: Line | None = key(
        "Revision",
        "Branch, tag or commit of the model on the Hugging Face Hub.",
        "main",
        absent="the default branch on the Hub",
    )
    init_from: Line | None = key(
        "First adapter", "The ./folder of a LoRA adapter of this model to train on.", "./sft", absent="a new one"
    )
    trust_remote_code: bool | None = key(
        "Trust remote code", "Run Python code that comes with the model.", True, default=False
    )
    family: Annotated[list[Line], OneOrMany, Field(min_length=1, max_length=64)] | None = key(
        "Family",
        "For `auto`: families of the catalog to choose from (`qwen3`), or all generations of one (`qwen`). Naming a "
        "family accepts its license.",
        "qwen",
        ["llama-3.1", "llama-3.2"],
        absent="every family of the catalog",
    )
    licenses: Annotated[list[Line], Field(min_length=1, max_length=64)] | None = key(
        "Licenses",
        "For `auto`: the licenses that the model may have.",
        ["Apache-2.0", "Llama 3.1 Community License"],
    )
    max_params_billion: Annotated[float, Field(gt=0, le=10_000)] | None = key(
        "Most parameters",
        "For `auto`: the largest model in billions of parameters, say for where it will serve.",
        8.5,
        absent="any size that fits",
    )


class Hardware(Section):
    """The machine that trains: a GPU by name, or any GPU by its memory."""

    gpu: Line | None = key(
        "GPU",
        "A GPU of the catalog, or `cpu`. Excludes vram_gib.",
        "rtx-4090",
        "h100",
        "cpu",
        absent="vram_gib is needed",
    )
    vram_gib: Annotated[float, Field(ge=1, le=1024)] | None = key(
        "GPU memory", "Memory of one GPU in GiB, when its name is not known. Excludes gpu.", 24, absent="gpu is needed"
    )
    gpus_per_node: Annotated[int, Field(ge=1, le=8)] | None = key(
        "GPUs", "How many GPUs each node (machine) has for the run.", 4, default=1
    )
    nodes: Annotated[int, Field(ge=1, le=1024)] | None = key(
        "Nodes", "How many nodes (machines) of this kind train together.", 4, default=1
    )
    gpu_link: Link | None = key(
        "GPU link", "How the GPUs of a node are connected to each other.", "nvlink", default=AUTO
    )
    network_gbps: Annotated[float, Field(ge=1, le=100_000)] | None = key(
        "Network",
        "Gigabits per second that one node sends to the others, all its adapters together.",
        3200,
        absent="what most machines with this GPU have is assumed, and W0523 says where it decides",
    )
    host_memory_gib: Annotated[float, Field(ge=1, le=65_536)] | None = key(
        "Host memory",
        "Main memory of each node in GiB, which bounds what is offloaded to it.",
        256,
        absent="as `measured` has it; else what most machines with this GPU have, and 16 GiB where a CPU trains",
    )
    cpu_cores: Annotated[int, Field(ge=1, le=4096)] | None = key(
        "CPU cores",
        "Physical CPU cores of each node, for the processes that load data and for offloaded optimizers.",
        64,
        absent="as `measured` has it; else the data loader has 4 processes for each GPU, and offload is timed with "
        "what most machines have",
    )
    measured: Line | None = key(
        "Measured",
        "A TOML file that `recipec probe` wrote on this machine: its rates, memory and links replace assumed ones.",
        "./my-node.toml",
        absent="rates are shares of the catalog's peaks, which the plan says",
    )


class Launch(Section):
    """How the run is started."""

    with_: Launcher | None = key(
        "With",
        "What starts the run: a script of the bundle, or your own launcher.",
        NO_SCRIPT,
        default=LOCAL,
        alias="with",
    )
    env: Annotated[dict[Variable, VariableValue], Field(max_length=256)] | None = key(
        "Environment",
        "Variables to set before the run; never secrets.",
        {"NCCL_DEBUG": "WARN"},
        absent="the environment is left as it is",
    )
    setup: Annotated[list[Line], Field(max_length=256)] | None = key(
        "Set-up",
        "Shell commands that the launch script runs first, one a line.",
        ["source env.sh"],
        absent="the script starts with the checks",
    )


class Evaluate(Section):
    """How the model is compared before and after."""

    samples: Annotated[int, Field(ge=1, le=100_000)] | None = key(
        "Samples", "How many rows are shown with their answers, or with their scores.", 50, absent="5"
    )
    max_new_tokens: Annotated[int, Field(ge=1, le=131_072)] | None = key(
        "Answer length", "The most tokens of an answer that evaluate.py generates.", 256, absent="128"
    )


class Track(Section):
    """Where the run is recorded."""

    to: Annotated[list[Tracker], OneOrMany, Field(min_length=1, max_length=4)] | None = key(
        "To",
        "The tracker that receives the metrics of the run, or a list of them.",
        "wandb",
        ["tensorboard", "mlflow"],
        default="tensorboard",
    )
    project: Line | None = key(
        "Project",
        "The project of W&B, or the experiment of MLflow, that the run belongs to.",
        "assistants",
        absent="the tracker's own default",
    )
    run: Line | None = key(
        "Run",
        "The name of the run in the tracker; of several stages each adds `-` and its own name.",
        "second-try",
        absent="the recipe's name",
    )


class Registry(Section):
    """The entry that describes the result."""

    status: Status | None = key(
        "Status", "How far the result is on its way into use.", "staging", default="experimental"
    )
    tags: Annotated[list[Line], Field(max_length=64)] | None = key(
        "Tags", "Words that the registry entry can be found by.", ["support"], absent="no tags"
    )


class Budget(Section):
    """What the run may cost; a plan that exceeds it is an error that names the cheapest plan."""

    max_hours: Annotated[float, Field(gt=0, le=87_600)] | None = key(
        "Hours",
        "The longest run that is accepted, in predicted hours: data, training, evaluations and saves.",
        12,
        absent="no limit",
    )
    max_gpu_hours: Annotated[float, Field(gt=0, le=10_000_000)] | None = key(
        "GPU hours",
        "The most GPU hours of the run, in prediction: its hours times all GPUs of all nodes, idle ones too.",
        96,
        absent="no limit",
    )
    max_cost_usd: Usd | None = key("Cost", "The highest cost of the run, in US dollars.", 200, absent="no limit")
    price_per_gpu_hour: Annotated[float, Field(ge=0, le=MOST_USD_PER_GPU_HOUR)] | None = key(
        "Price", "What one GPU costs for an hour, in US dollars.", 2.5, absent="the price list's, where it has the GPU"
    )
    prices: Line | None = key(
        "Prices",
        "A TOML file of prices in place of the shipped ones: a table for each GPU, with `usd_per_hour`.",
        "./prices.toml",
        absent="the shipped list, with the date and source of each price",
    )


class Policy(Section):
    """Limits in a shared recipe that the recipes extending it may narrow but not break."""

    models: _Names | None = key("Models", "Patterns of the models that may be used.", ["Qwen/*"], absent="any model")
    licenses: _Names | None = key(
        "Licenses", "The licenses that the model of a recipe may have.", ["apache-2.0", "mit"], absent="any license"
    )
    max_gpus: Annotated[int, Field(ge=1, le=65_536)] | None = key(
        "GPUs", "The most GPUs of one run, of all its nodes together.", 4, absent="no limit"
    )
    max_usd: Usd | None = key("Cost", "The highest cost of one run, in US dollars.", 500, absent="no limit")


class Recipe(Section):
    """A recipe says what to train, on what hardware, with what data; recipec compiles it to training code."""

    recipe: Header = table(
        "Recipe", "The name of this recipe, and the recipes that it extends.", {"name": "support-assistant"}
    )
    goal: Goal = table("Goal", "What the model should learn, and what matters on the way.", {"task": "instruct"})
    model: BaseModelChoice = table(
        "Model", "The model that training starts from, by name or folder.", {"name": "Qwen/Qwen3-8B"}
    )
    data: Data = table(
        "Data", "The rows that the model learns from, and how they are split and read.", {"train": "data/train.jsonl"}
    )
    hardware: Hardware = table(
        "Hardware", "The GPUs that train, their nodes and the network between those.", {"gpu": "rtx-4090"}
    )
    launch: Launch = table("Launch", "How the run is started, and what is set up before.", {"with": "local"})
    alignment: Alignment = table(
        "Alignment", "What people prefer, or another model, that is learned from.", {"method": AUTO}
    )
    train: Train = table(
        "Train", "Decisions that you make yourself, in place of the rules and the planner.", {"epochs": 2}
    )
    evaluate: Evaluate = table("Evaluate", "How the model is compared before and after.", {"samples": 50})
    track: Track = table("Track", "Where the metrics of the run are recorded, and under which name.", {"to": "wandb"})
    registry: Registry = table(
        "Registry", "The entry of a model registry that describes the result.", {"status": "experimental"}
    )
    budget: Budget = table(
        "Budget", "What the run may cost in time and money, and the price of a GPU.", {"max_hours": 12}
    )
    policy: Policy = table("Policy", "Limits that recipes extending this one may not break.", {"max_gpus": 4})


# Keys that say the same thing in two ways, of which a recipe writes one.
STEERING = (("model", "family"), ("model", "licenses"), ("model", "max_params_billion"))  # what only `auto` reads
_NAMED = ("like", "revision", "trust_remote_code", "init_from")
NAMED_ONLY = tuple(("model", name) for name in _NAMED)  # what `auto` has no use for
EXCLUSIVE: tuple[tuple[tuple[str, ...], ...], ...] = (
    (("hardware", "gpu"), ("hardware", "vram_gib")),
    *((("data", part), ("data", f"{part}_fraction")) for part in ("eval", "test")),
    (("data", "split", "stratify"), ("data", "split", "group"), ("data", "split", "time")),
    (("alignment", "method"), ("alignment", "kl_control")),
    (("train", "epochs"), ("train", "max_steps")),
    (("train", "curriculum", "by"), ("train", "curriculum", "column")),
    *((("train", stage, "epochs"), ("train", stage, "max_steps")) for stage in METHODS),
    *((("train", stage, "curriculum", "by"), ("train", stage, "curriculum", "column")) for stage in METHODS),
)


def rivals(path: tuple[str | int, ...], value: Any = None) -> list[tuple[str, ...]]:
    """Return the keys that the key at `path` excludes; what model.name excludes depends on its value."""
    if path == ("model", "name"):
        return list(NAMED_ONLY if value == AUTO else STEERING)
    return [key for group in EXCLUSIVE if path in group for key in group if key != path]
