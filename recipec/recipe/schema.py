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
    NewTokens,
    OneOrMany,
    Prose,
    Revision,
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
from recipec.recipe.schema_adapters import LEAST_ADAPTERS, MOST_ADAPTERS, Fusion, TaskAdapter
from recipec.recipe.schema_alignment import Alignment
from recipec.recipe.schema_data import Data, Evaluate
from recipec.recipe.schema_hardware import Hardware
from recipec.recipe.schema_registry import Registry
from recipec.recipe.schema_training import Train

Task = one_of(tasks())
Priority = one_of(
    {
        "quality": "full fine-tuning where data and memory allow it; with `auto`, the largest model that fits",
        "speed": "short training: adapters before all weights, and of equal adaptations the fastest layout",
        "memory": "little GPU memory: a 4-bit base first, recomputed layers, and of layouts about as fast the one that "
        "takes least",
    }
)
LOCAL, NO_SCRIPT = "local", "none"
# The values of launch.with and what each means; recipec/backends/launchers/ has a script for all but the last.
LAUNCH_WITH = {
    LOCAL: "a script in the bundle: `launch/local.sh`, or `launch/nodes.sh` for several nodes",
    NO_SCRIPT: "no script, for teams with their own launcher",
}
Launcher = one_of(LAUNCH_WITH)
Tracker = one_of(
    {
        "tensorboard": "TensorBoard files in the output folder",
        "wandb": "Weights & Biases",
        "mlflow": "an MLflow server or folder",
        "none": "no tracker",
    }
)
# The trackers that know projects, and the variable that the Trainer reads the project from.
PROJECT_VARIABLES = {"wandb": "WANDB_PROJECT", "mlflow": "MLFLOW_EXPERIMENT_NAME"}
MOST_USD_PER_GPU_HOUR = 10_000  # our decision: over 1,000 times the dearest price of the catalog
_Names = Annotated[list[Line], Field(min_length=1, max_length=256)]


class Header(Section):
    """Name, description and inheritance of the recipe."""

    name: Annotated[str, Field(pattern=RECIPE_NAME)] = required(
        "Name",
        "Name of the recipe, for the run in the tracker, the bundle's README and the registry entry. Not inherited "
        "through `extends`.",
        "support-assistant",
    )
    description: Prose | None = key(
        "Description",
        "Free text for the bundle's README and the registry entry.",
        "Answers support tickets.",
        absent="none",
    )
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = key(
        "Seed",
        "Random seed for the data split, the order of rows, the initial weights of adapters or random models, and "
        "dropout. Set it to repeat a run or to measure variance.",
        17,
    )
    extends: Annotated[list[Line], OneOrMany, Field(max_length=16)] | None = key(
        "Extends",
        "Recipe to inherit from: a path that ends in `.toml`, relative to this file, or the name of a shipped recipe. "
        "In a list of recipes, later ones override earlier ones; a recipe that is reached in several ways counts once, "
        "at its first place. Tables are merged key by key; lists, such as `launch.setup` and `data.ignore`, and "
        "sources of data are replaced as a whole.",
        "team.toml",
        ["team.toml", "./a100.toml"],
        absent="none",
    )
    allow: Annotated[list[WarningCode], Field(max_length=64)] | None = key(
        "Silenced warnings",
        "Codes of warnings to silence. A code that no longer applies raises W0502.",
        ["W0503"],
        absent="all warnings are shown",
    )


class Goal(Section):
    """The training task and what matters most."""

    task: Task = required(
        "Task", "The kind of training. It decides the stages and the rows that each of them reads.", "instruct"
    )
    priority: Priority | None = key(
        "Priority",
        "What matters most if several training methods fit.",
        "speed",
        absent="no preference; the amount of data, the GPU memory and the task decide",
    )
    new_domain: bool | None = key(
        "New domain",
        "Set it if the data differ strongly from general text (own vocabulary, language or notation), and name raw "
        "text of the domain in `data.domain_text`, which is then learned first. Without such text it raises the LoRA "
        "rank, makes full fine-tuning more likely, and is warned about (W0540).",
        True,
        default=False,
    )
    first_time: bool | None = key(
        "First time",
        "Set it for your first training of this model. With less than 16 GB of GPU memory, QLoRA is then tried first. "
        'With `priority = "quality"`, 10,000 to 100,000 rows and 48 GB or more, full fine-tuning is tried first. In '
        "other cases it changes nothing.",
        True,
        default=False,
    )


class BaseModelChoice(Section):
    """The model to start from. For the task `pretrain`, only its architecture and tokenizer are used."""

    name: Line = required(
        "Model",
        "Model to train: a name of `recipec list models`, a Hugging Face Hub id (with `like` if the catalog does not "
        "have it), a local folder that starts with `./`, or `auto` to let recipec choose from the catalog.",
        "Qwen/Qwen3-8B",
        "./my-model",
        AUTO,
    )
    like: Line | None = key(
        "Like",
        "For a model outside the catalog: a catalog model with the same architecture, or the ./folder of its "
        "config.json.",
        "Qwen/Qwen3-8B",
        absent="the architecture comes from the catalog or from the folder's config.json",
    )
    revision: Revision | None = key(
        "Revision",
        "Branch, tag or commit of the model on the Hugging Face Hub.",
        "main",
        absent="the default branch on the Hub",
    )
    new_tokens: NewTokens | None = key(
        "New tokens",
        "Tokens that the tokenizer lacks, for continued pretraining and supervised fine-tuning: a list of texts, or a "
        "UTF-8 text file with one token per line. Each starts as the mean of its former tokens. LoRA also trains their "
        "embeddings. A padding, begin or end token that the tokenizer has needs no line.",
        ["<|question|>", "<|answer|>"],
        "tokens.txt",
        absent="no tokens",
    )
    init_from: Line | None = key(
        "Initial adapter",
        "The ./folder of a LoRA adapter of this model to continue training from.",
        "./sft",
        absent="a new adapter",
    )
    trust_remote_code: bool | None = key(
        "Trust remote code",
        "Allow Python code from the model repository to run on your machine. Set it only for repositories you trust.",
        True,
        default=False,
    )
    family: Annotated[list[Line], OneOrMany, Field(min_length=1, max_length=64)] | None = key(
        "Family",
        'Only with `name = "auto"`: families to choose from, with the generation (`qwen3`) or without it (`qwen`, all '
        "generations). Naming a family accepts its license.",
        "qwen",
        ["llama-3.1", "llama-3.2"],
        absent="all families with an accepted license",
    )
    licenses: Annotated[list[Line], Field(min_length=1, max_length=64)] | None = key(
        "Licenses",
        'Only with `name = "auto"`: licenses that the chosen model may have.',
        ["Apache-2.0", "Llama 3.1 Community License"],
    )
    max_params_billion: Annotated[float, Field(gt=0, le=10_000)] | None = key(
        "Maximum size",
        'Only with `name = "auto"`: upper limit in billions of parameters, for example for the hardware that serves '
        "the model.",
        8.5,
        absent="no limit other than the training hardware",
    )


class Launch(Section):
    """The launch script and its environment."""

    with_: Launcher | None = key(
        "With",
        "What starts the run: a script in the bundle, or your own launcher.",
        NO_SCRIPT,
        default=LOCAL,
        alias="with",
    )
    env: Annotated[dict[Variable, VariableValue], Field(max_length=256)] | None = key(
        "Environment",
        "Environment variables that the launch script sets: no secrets, and no names that bash or the script uses.",
        {"NCCL_DEBUG": "WARN"},
        absent="no variables",
    )
    setup: Annotated[list[Line], Field(max_length=256)] | None = key(
        "Set-up",
        "Shell commands that the launch script runs first, one line per entry; bash must be able to read them.",
        ["source env.sh"],
        absent="no commands",
    )


class Track(Section):
    """Experiment tracking."""

    to: Annotated[list[Tracker], OneOrMany, Field(min_length=1, max_length=4)] | None = key(
        "To",
        "Tracker, or list of trackers, that receives the metrics of the run.",
        "wandb",
        ["tensorboard", "mlflow"],
        default="tensorboard",
    )
    project: Line | None = key(
        "Project", "W&B project or MLflow experiment of the run.", "assistants", absent="the tracker's own default"
    )
    run: Line | None = key(
        "Run",
        "Name of the run in the tracker. With several stages, each adds `-` and its own name. TensorBoard shows it "
        "among the run's arguments: it names runs after their folders.",
        "second-try",
        absent="the recipe's name",
    )


class Budget(Section):
    """Limits on time and cost, and the price of a GPU. A plan above a limit is an error (E0403)."""

    max_hours: Annotated[float, Field(gt=0, le=87_600)] | None = key(
        "Hours",
        "Upper limit on the predicted hours of the whole run: data preparation, training, evaluation and saving.",
        12,
        absent="no limit",
    )
    max_gpu_hours: Annotated[float, Field(gt=0, le=10_000_000)] | None = key(
        "GPU hours",
        "Upper limit on the predicted GPU hours: hours of the run times all GPUs of all nodes, including idle GPUs.",
        96,
        absent="no limit",
    )
    max_cost_usd: Usd | None = key(
        "Cost", "Upper limit on the predicted cost of the run in US dollars.", 200, absent="no limit"
    )
    price_per_gpu_hour: Annotated[float, Field(ge=0, le=MOST_USD_PER_GPU_HOUR)] | None = key(
        "Price",
        "Price of one GPU per hour in US dollars.",
        2.5,
        absent="the price of the price list, if it has the GPU",
    )
    prices: Line | None = key(
        "Prices",
        "TOML file with prices that replace the shipped price list: one table per GPU with `usd_per_hour`.",
        "./prices.toml",
        absent="the shipped list, with the date and source of each price",
    )


class Policy(Section):
    """Limits for all recipes that extend this file. They can tighten these limits, not relax them."""

    models: _Names | None = key(
        "Models", "Patterns of the model names that a recipe may use.", ["Qwen/*"], absent="any model"
    )
    licenses: _Names | None = key(
        "Licenses", "Licenses that the model of a recipe may have.", ["apache-2.0", "mit"], absent="any license"
    )
    max_gpus: Annotated[int, Field(ge=1, le=65_536)] | None = key(
        "GPUs", "Maximum number of GPUs of a run, over all its nodes.", 4, absent="no limit"
    )
    max_usd: Usd | None = key(
        "Cost",
        "Upper limit on the predicted cost in US dollars, at the catalog's price or one that the same file states.",
        500,
        absent="no limit",
    )


class Recipe(Section):
    """A recipe states what to train, on which data and on which hardware. recipec decides everything else."""

    recipe: Header = table(
        "Recipe",
        "Name, description, seed and inheritance of the recipe, and silenced warnings.",
        {"name": "support-assistant"},
    )
    goal: Goal = table("Goal", "The training task, and what matters most if several methods fit.", {"task": "instruct"})
    model: BaseModelChoice = table(
        "Model",
        "The model to start from. For the task `pretrain`, only its architecture and tokenizer are used.",
        {"name": "Qwen/Qwen3-8B"},
    )
    data: Data = table(
        "Data", "Training, evaluation and test data, and how rows are read.", {"train": "data/train.jsonl"}
    )
    adapters: Annotated[list[TaskAdapter], Field(min_length=LEAST_ADAPTERS, max_length=MOST_ADAPTERS)] | None = key(
        "Adapters",
        "Several tasks: one `[[adapters]]` table for each. recipec trains one LoRA or bottleneck adapter per task, all "
        "from the same base model, and writes combine.py, which compares, ensembles and routes them, and merges those "
        "of LoRA. Replaces `data.train`; all other keys hold for every adapter.",
        [{"name": "billing", "train": "data/billing.jsonl"}, {"name": "sales", "train": "data/sales.jsonl"}],
        absent="one result, trained on `data.train`",
    )
    fusion: Fusion | None = key(
        "Fusion",
        "AdapterFusion: behind the stages of `[[adapters]]`, one more loads all of them, frozen, and learns how much "
        "each adds in every layer, for every token. The adapters are then bottleneck adapters. An empty `[fusion]` "
        "decides everything.",
        {"learning_rate": 5e-5},
        absent="the adapters stay apart, and combine.py combines them without further training",
    )
    hardware: Hardware = table(
        "Hardware", "The hardware to plan for. Either `gpu` or `vram_gib` is required.", {"gpu": "rtx-4090"}
    )
    launch: Launch = table(
        "Launch", "The launch script, its environment variables and its setup commands.", {"with": "local"}
    )
    alignment: Alignment = table(
        "Alignment",
        "Method and hyperparameters of preference training, reinforcement learning and distillation.",
        {"method": AUTO},
    )
    train: Train = table(
        "Train",
        "Values that recipec would otherwise decide. Your value is used; outside the usual range it raises W0501.",
        {"epochs": 2},
    )
    evaluate: Evaluate = table(
        "Evaluate", "Sample answers that evaluate.py writes before and after training.", {"samples": 50}
    )
    track: Track = table(
        "Track", "Experiment tracking: the trackers, and the names of project and run.", {"to": "wandb"}
    )
    registry: Registry = table(
        "Registry", "The draft of a registry entry for the result (`registry/entry.json`).", {"status": "experimental"}
    )
    budget: Budget = table(
        "Budget",
        "Limits on time and cost, and the price of a GPU. A plan above a limit is an error (E0403).",
        {"max_hours": 12},
    )
    policy: Policy = table(
        "Policy",
        "Limits for all recipes that extend this file. They can tighten these limits, not relax them.",
        {"max_gpus": 4},
    )


# Keys that say the same thing in two ways, of which a recipe writes one.
STEERING = (("model", "family"), ("model", "licenses"), ("model", "max_params_billion"))  # what only `auto` reads
_NAMED = ("like", "revision", "trust_remote_code", "init_from", "new_tokens")
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
