"""What every back end is given: the recipe, the facts, the plan; and how a decision becomes a traced value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from recipec import __version__
from recipec.axes import KINDS, LORA_VARIANTS, ROW_FORMATS, Adaptation, Kind, LoraVariant, Method, RowFormat, Strategy
from recipec.axes.loops import LOOPS, TRAINER, Loop
from recipec.axes.lora_variants import STANDARD
from recipec.axes.method import SIMILAR
from recipec.backends import engines
from recipec.backends.engines import EngineBackend, Placement
from recipec.catalog.templates import BY_TURNS
from recipec.dataset import DataShape
from recipec.facts import Facts
from recipec.facts.converting import OFF, WITHOUT
from recipec.planner import Plan, StagePlan
from recipec.recipe import LoadedRecipe
from recipec.recipe.schema_data import GENERAL, DataSource
from recipec.render.call import Arg
from recipec.render.traced import Traced, columns

MOST_NAME_COLUMNS = 38  # of the recipe's file, in the line of a script that names it


class Task(Struct, frozen=True):
    """What is given of one of several tasks."""

    loaded: LoadedRecipe
    facts: Facts


class Job(Struct, frozen=True):
    """One compilation, as the back ends see it."""

    loaded: LoadedRecipe
    facts: Facts
    plan: Plan
    plan_digest: str
    tasks: Mapping[str, Task] = field(default_factory=dict)  # [[adapters]]: name -> what is given of it alone
    out: Path | None = None  # the folder that the bundle is for, where that is known

    @property
    def name(self) -> str:
        return self.loaded.recipe.recipe.name

    @property
    def stages(self) -> list[StageJob]:
        return [StageJob(self.of(plan.stage.task), plan, index) for index, plan in enumerate(self.plan.stages)]

    def of(self, task: str) -> Job:
        """The compilation as a stage of the task sees it: with its own rows."""
        given = self.tasks.get(task)
        return replace(self, loaded=given.loaded, facts=given.facts) if given else self

    @property
    def apart(self) -> list[Job]:
        """The compilation as each task sees it; only itself where the recipe has one task."""
        return [self.of(task) for task in self.tasks or ("",)]

    @property
    def last(self) -> StageJob:
        return self.stages[-1]

    @property
    def nodes(self) -> int:
        """Nodes that the run takes: those of its largest stage."""
        return max(stage.nodes for stage in self.stages)

    def ids(self, *names: str) -> tuple[str, ...]:
        """The ids of decisions in every stage that makes them."""
        made = ((stage, name) for stage in self.stages for name in names if name in stage.plan.decisions)
        return tuple(id for stage, name in made for id in stage.ids(name))

    def because(self, value: Any, *names: str) -> Traced:
        """A value made from the decisions of all stages."""
        return Traced(value, ",".join(self.ids(*names)))


class StageJob(Struct, frozen=True):
    """One stage of a compilation."""

    job: Job
    plan: StagePlan
    index: int

    @property
    def name(self) -> str:
        """What tells it from the other stages: its method's, or its task's."""
        return self.plan.stage.label

    @property
    def named(self) -> Traced:
        """Its name, for folders of the bundle."""
        return self.traced("stage", self.name)

    @property
    def method(self) -> Method:
        """Its row, as its own hyperparameters have it."""
        return self.plan.work.method

    @property
    def adapts(self) -> Adaptation:
        return self.plan.layout.adapts

    @property
    def variant(self) -> LoraVariant:
        """What is done otherwise than in plain LoRA."""
        return LORA_VARIANTS[self.value("lora_variant")] if "lora_variant" in self.plan.decisions else STANDARD

    @property
    def init_from(self) -> str:
        """The folder of the adapter that it goes on with; "" where it makes its own."""
        return self.value("init_from") if "init_from" in self.plan.decisions else ""

    @property
    def virtual_tokens(self) -> Traced | int:
        """How many stand before every row; 0 where none do."""
        found = [name for name in ("virtual_tokens", "prefix_tokens") if name in self.plan.decisions]
        return self.traced(found[0]) if found else 0

    @property
    def loop(self) -> Loop:
        """Who runs its steps: a Trainer, where the recipe does not say."""
        return LOOPS[self.value("loop")] if "loop" in self.plan.decisions else TRAINER

    @property
    def strategy(self) -> Strategy:
        return self.plan.layout.spreads

    @property
    def engine(self) -> EngineBackend:
        return engines.BACKENDS[self.strategy.engine]

    @property
    def start(self) -> StageJob | None:
        """The stage whose result it begins with; None where it begins with the recipe's model."""
        return self._stage(self.plan.stage.starts_from)

    @property
    def judge(self) -> StageJob | None:
        """The stage whose result judges its answers; None where no stage does."""
        return self._stage(self.plan.stage.judge)

    @property
    def mixed(self) -> list[StageJob]:
        """The stages whose results, adapters of other tasks, it learns to mix."""
        return [stage for stage in self.job.stages if stage.name in self.plan.stage.mixes]

    def _stage(self, name: str | None) -> StageJob | None:
        return next((stage for stage in self.job.stages if stage.name == name), None)

    @property
    def judges(self) -> bool:
        """Whether a later stage has its answers judged by the result."""
        return any(stage.plan.stage.judge == self.name for stage in self.job.stages)

    @property
    def result(self) -> str:
        """The folder of the bundle with the model that later stages load."""
        return f"outputs/{self.name}" + "/merged" * self.merges

    @property
    def folder(self) -> str:
        """Where the stage's scripts are, "" or "stages/1-sft/"."""
        return f"stages/{self.index + 1}-{self.name}/" if len(self.job.plan.stages) > 1 else ""

    @property
    def variable(self) -> str:
        """Its name at the start of a shell variable."""
        return self.name.upper().replace("-", "_")

    @property
    def section(self) -> str:
        """The part of [data] that its rows come from."""
        return self.method.rows_in(self.job.facts.data)

    @property
    def shape(self) -> DataShape:
        return self.job.facts.data[self.section].shape

    @property
    def format(self) -> RowFormat:
        """The format that the rows of all its sources become."""
        return ROW_FORMATS[self.shape.format]

    def sources(self, part: str = "") -> list[tuple[DataSource, DataShape]]:
        """The sources of its rows, or of those held out as eval or test, each with its shape."""
        facts, data = self.job.facts.data[self.section], self.job.loaded.recipe.data
        if part and part not in facts.held_out:
            return []
        shapes = facts.held_out[part].shapes if part else facts.shapes
        return list(zip(getattr(data, part or self.section), shapes, strict=True))

    @property
    def brought(self) -> tuple[str, ...]:
        """The parts beside the rows that are learned, which files of the recipe bring."""
        parts = ("eval", "test", *(GENERAL,) * (self.elastic or self.replays))
        return tuple(part for part in parts if self.value(f"has_{part}_file"))

    @property
    def shapes(self) -> list[DataShape]:
        """Those of all that it reads."""
        return [shape for part in ("", *self.brought) for _, shape in self.sources(part)]

    @property
    def unrolls(self) -> bool:
        """Whether every answer becomes a row of its own: the trainer reads no others, or no mask tells them apart."""
        unmasked = KINDS[self.format.kind].masked and self.value("loss_on") != self.format.loss_on
        return bool(self.format.unrolled) and (self.format.kind not in self.method.kinds or unmasked)

    @property
    def kind(self) -> Kind:
        """What preparation makes of its rows."""
        return KINDS[self.format.unrolled if self.unrolls else self.format.kind]

    @property
    def marks_turns(self) -> bool:
        """Whether the bundle marks what the assistant says in the model's own chat template."""
        own = self.value("template") == "model" and self.value("template_marks") == BY_TURNS
        return self.kind.masked and own

    @property
    def eos_token(self) -> str:
        """The end token to train with; "" where the model that the stage begins with has it."""
        decided = self.value("eos_token")
        given = self.start is not None and self.start.ends_otherwise
        return "" if decided == "none" or given else str(decided)

    @property
    def turn_end(self) -> str:
        """The token that ends a turn of the chat template; "" where that of this very model is not known."""
        own, like = self.value("template") == "model", self.job.loaded.recipe.model.like
        return "" if own and like is not None else str(self.value("template_end"))

    @property
    def ends_otherwise(self) -> bool:
        """Whether it, or a stage that it goes on from, gave the model another end token."""
        return bool(self.eos_token) or (self.start is not None and self.start.ends_otherwise)

    @property
    def carries_tools(self) -> bool:
        """Whether rows offer tools, and messages call them."""
        return "tools" in self.shape.carries

    @property
    def keeps_thoughts(self) -> bool:
        """Whether messages have thoughts in a field of their own that the chat template is given."""
        return "reasoning" in self.shape.carries and self.value("reasoning") not in WITHOUT

    @property
    def thinks_not(self) -> bool:
        """Whether answers are learned in the chat template's mode without thinking."""
        return bool(self.value("reasoning") == OFF)

    @property
    def acts(self) -> bool:
        """Whether the model calls tools while it learns."""
        return "tools" in self.plan.decisions

    @property
    def served_by(self) -> int:
        """GPUs that do not train, and write the answers that it learns from."""
        return self.plan.layout.served_by

    @property
    def mixes_fields(self) -> bool:
        """Whether prepared messages differ in their fields, so that no column of one type holds them."""
        return self.carries_tools or self.keeps_thoughts

    @property
    def ordered(self) -> bool:
        """Whether the recipe has a curriculum for it."""
        return "curriculum_parts" in self.plan.decisions

    @property
    def fp8(self) -> bool:
        """Whether linear layers multiply in FP8."""
        return bool("fp8" in self.plan.decisions and self.value("fp8"))

    @property
    def elastic(self) -> bool:
        """Whether weights that matter for general rows are held near their start."""
        return "ewc_strength" in self.plan.decisions

    @property
    def dispatches(self) -> bool:
        """Whether its experts are in layers of DeepSpeed-MoE."""
        return "capacity_factor" in self.plan.decisions

    @property
    def replays(self) -> bool:
        """Whether general rows are among those that it learns."""
        return "replay_rows" in self.plan.decisions

    @property
    def hardness_column(self) -> str:
        """The column that says how hard a row is; empty where no curriculum reads one."""
        return str(self.value("curriculum_column")) if "curriculum_column" in self.plan.decisions else ""

    @property
    def groups_by_length(self) -> bool:
        """Whether rows of similar length share a batch."""
        return bool(self.value("sampling") == SIMILAR)

    @property
    def packs_examples(self) -> bool:
        """Whether several whole examples share a row, which must not attend to each other."""
        return bool(self.value("packing")) and self.method.packs == "examples"

    @property
    def routes(self) -> bool:
        """Whether the loss has a part for the balance of the model's experts; scores are compared without it."""
        return self.method.writes and self.job.facts.model.architecture.balanced

    @property
    def on_cpu(self) -> bool:
        return self.job.facts.gpu.kind == "cpu"

    @property
    def merges(self) -> bool:
        """Whether the adapter must be merged because another stage loads the result."""
        others = (plan.stage for plan in self.job.plan.stages)
        return self.adapts.merges and any(self.name in (other.starts_from, other.judge) for other in others)

    @property
    def stored_again(self) -> bool:
        """Whether a stage that starts from the merged model stores it as this one does its base, in few bits.

        Weights that were stored so lie on the very values that they would be rounded to, with what was learned.
        """
        following = (plan for plan in self.job.plan.stages if plan.stage.starts_from == self.name)
        return self.adapts.quantized and any(plan.layout.adapts.base == self.adapts.base for plan in following)

    @property
    def nodes(self) -> int:
        """Nodes that the stage runs on."""
        return -(-self.plan.layout.mesh.world_size // self.job.facts.machines.gpus_per_node)

    @property
    def run(self) -> Placement:
        """The stage as its engine sees it."""
        shape, norm = self.job.facts.model.architecture, self.value("max_grad_norm")
        first = self.plan.needs.first_reads
        return Placement(self.plan.layout, shape, norm, self.ids, self.nodes, "configs", self.loop.own, first)

    def value(self, id: str) -> Any:
        return self.plan.decisions[id].value

    @property
    def values(self) -> dict[str, Any]:
        """Every decision's value, by its id."""
        return {id: decision.value for id, decision in self.plan.decisions.items()}

    def ids(self, *names: str) -> tuple[str, ...]:
        """Decision ids as the source map knows them: "sft.learning_rate"."""
        return tuple(f"{self.name}.{name}" for name in names)

    def traced(self, id: str, value: Any = None) -> Traced:
        """A decision's value (or something made from it) that marks what it prints."""
        return Traced(self.value(id) if value is None else value, f"{self.name}.{id}")

    def because(self, value: Any, *names: str) -> Traced:
        """A value made from several decisions."""
        return Traced(value, ",".join(self.ids(*names)))

    def own(self, argument: str) -> str:
        """The decision that fills an argument of the trainer: one of the method's own hyperparameters."""
        return next(own.name for own in self.method.own if own.argument == argument)

    def own_args(self, of_trainer: bool = False) -> Iterator[Arg]:
        """The method's own hyperparameters that its configuration class takes, or those that its trainer takes."""
        for own in self.method.own:
            if own.of_trainer == of_trainer:
                yield self.arg(own.argument, own.name, note=bool(own.formula))

    def arg(self, name: str, id: str, value: Any = None, note: bool = False) -> Arg:
        """An argument whose value is a decision; `note` prints the reason, unless the user set the value."""
        decision = self.plan.decisions[id]
        shown = decision.because if note and decision.origin != "recipe" else ""
        return Arg(name, decision.value if value is None else value, self.ids(id), shown)


def compiled(job: Job) -> str:
    """What a script says of where it comes from; a long name of the recipe's file is cut, so that the line fits."""
    name = job.loaded.path.name
    if columns(name) > MOST_NAME_COLUMNS:
        name = f"{name[: MOST_NAME_COLUMNS - 1 if name.isascii() else MOST_NAME_COLUMNS // 2 - 1]}…"
    return f"Compiled by recipec {__version__} from {name}. Edit freely: `recipec build` keeps your edits."
