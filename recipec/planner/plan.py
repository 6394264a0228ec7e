"""The plan: for every stage what was decided, how it lies on the hardware, and what was rejected."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from recipec.estimate.basis import Basis
from recipec.estimate.cost import Cost
from recipec.estimate.evaluation import Evaluation
from recipec.estimate.memory import MemoryEstimate
from recipec.estimate.storage import HostMemory, Storage
from recipec.estimate.throughput import TimeEstimate
from recipec.estimate.whole_run import DOWNLOAD, EVALUATIONS, PREPARATION, SCORING, TOKENIZATION, RunPart
from recipec.estimate.workload import Workload
from recipec.layout import Layout, Machines
from recipec.rules.core import Decision


class Stage(Struct, frozen=True):
    """What is trained, before anything is known of how."""

    name: str  # of its row in METHODS; also its folder, and [train.NAME]
    starts_from: str | None  # the stage whose result it continues; None: the recipe's model
    judge: str = ""  # the stage whose result judges its answers; "" where nobody trains what does
    task: str = ""  # the adapter of [[adapters]] that it trains, or the mix of them; "" where there are none
    mixes: tuple[str, ...] = ()  # the adapters, results of earlier stages, that it learns to mix
    combined: str = ""  # the table that combines its adapter with those of other tasks: a key of COMBINED

    @property
    def label(self) -> str:
        """What tells it from the other stages of the plan: the name of its folder, and of its result."""
        return self.task or self.name


class Rejected(Struct, frozen=True):
    """The best layout of a family that was not taken, and why."""

    family: str  # "full fine-tuning, fsdp"
    layout: Layout
    reason: str
    peak_allocated_bytes: int | None  # None where a rule left it out before it was estimated
    seconds: float | None = None  # predicted duration of the stage; None when it does not fit
    can_be_asked: bool = True  # whether keys of a recipe ask for it

    @property
    def is_open(self) -> bool:
        """Whether a recipe can ask for it, and gets it: it fits, and can be built."""
        return self.seconds is not None and self.layout.can_be_built and self.can_be_asked


class NextBetter(Struct, frozen=True):
    """A better option that does not fit, and what each way to it would take."""

    what: str  # "full fine-tuning", or "nothing in host memory" where the same would be trained
    family: str  # "full fine-tuning, fsdp", on the present number of GPUs
    needs_gib: float  # memory that each of the present GPUs would have to have
    change: str | None  # "`hardware.gpus_per_node = 8`": the smallest that fits with the present kind of GPU
    asks: str  # "set `train.adaptation = "full"`", where the rules prefer what is chosen; else empty


class Needs(Struct, frozen=True):
    """What a stage needs of the node around its GPUs; host memory and cores are those of one node."""

    read_bytes: int  # weights that train.py and evaluate.py read: the model's, a teacher's and reward models'
    reference_under_fsdp: bool  # the trainer reads a copy of the start, to be sharded by FSDP
    first_reads: bool  # one rank of a node reads the weights for the others
    storage: Storage
    saving_seconds: float  # the longest save: the one that is tried before step 1, or a checkpoint
    merged_bytes: int  # what merge_adapter.py writes: part of `storage` where another stage follows; 0: nothing merges
    merging_bytes: int  # host memory while it runs: part of `host` where another stage follows; 0: nothing merges
    host: HostMemory
    evaluation: Evaluation
    loader_cores_per_gpu: int
    waiting_share: float  # of a step's time, in communication that no computation hides
    basis: Basis | None  # which figures were measured; None where the recipe names no measurements


class OnFewer(Struct, frozen=True):
    """A stage on fewer GPUs of its recipe."""

    pins: tuple[tuple[str, str], ...] = ()  # keys that keep the adaptation, where recipec would decide another
    otherwise: str = ""  # what it trains instead, where no key keeps it
    machines: Machines | None = None
    cost: Cost | None = None  # of the whole run; None where no bundle can train there
    whole_run: str = ""  # the same beside the run of the plan
    takes: str = ""  # what it then takes that it does not take now: "with adamw-8bit"
    refused: str = ""  # why it is not advised: "on 4 GPUs the whole run takes 5 h 2 min instead of 2 h 35 min"


class Unquantized(Struct, frozen=True):
    """An adapter that a plan trains on a quantized base, on the base as it is."""

    fits: str  # "LoRA fits only with data in host memory"; "" where it fits as well without
    effect: str  # what `train.quantization = "none"` gives


class StagePlan(Struct, frozen=True):
    """One stage, settled."""

    stage: Stage
    layout: Layout
    work: Workload  # one step of it, as the estimates and the simulation see it
    decisions: Mapping[str, Decision]
    memory: MemoryEstimate
    usable_bytes: int
    capacity_bytes: int
    tight: str  # what is to be heeded where almost nothing of it is left free; else empty
    time: TimeEstimate
    steps: int
    seconds: float  # of the steps and the reference; layouts are compared by it
    reference_seconds: float  # of them, before step 1: the reference scores all rows; 0 where it does in training
    parts: tuple[RunPart, ...]  # the whole run, in its order
    cost_usd: float | None  # of the whole run
    cost_because: str
    needs: Needs
    crowds_host: bool  # it may need more host memory than a node has, or than is assumed to be usable
    work_for_idle: tuple[str, ...]  # where GPUs are idle: "set `train.global_batch_size = 64`: …", each one planned
    idle_because: str  # why nothing that fits on more of them was taken
    on_used: OnFewer  # on the GPUs that have work
    on_one_node: OnFewer
    on_fewer_nodes: tuple[OnFewer, ...]  # that are hardly slower, where the nodes wait for each other; the most first
    roomier: tuple[str, ...]  # where it crowds the host: what to leave to recipec, planned
    more_host_memory: str  # what would be chosen with more, where it is assumed and decides; else empty
    other_networks: tuple[str, ...]  # what would be chosen with them, where the network is assumed and decides
    shorter_waits: tuple[str, ...]  # where most of a step waits for the network: "`hardware.nodes = 1` takes …"
    avoiding: Mapping[str, tuple[str, ...]]  # row that advises against the plan -> changes that avoid it
    verbatim: Mapping[str, object]  # trainer arguments that the recipe passes through
    rejected: tuple[Rejected, ...]
    next_micro_batch: str  # what the next larger one would take; "" where there is none
    next_better: NextBetter | None = None  # what it would take to train more of the model
    options: tuple[str, ...] = ()  # what a recipe may also choose, each with what it gives
    less_waiting: tuple[
        str, ...
    ] = ()  # where it mostly waits for the network: what to train or batch otherwise, planned
    unquantized: Unquantized | None = None  # where the recipe asks for an adapter, and its base is quantized to fit

    @property
    def run_seconds(self) -> float:
        """Of all parts: data, loading, training, evaluations, saves and scoring."""
        return sum(part.seconds for part in self.parts)

    @property
    def told_seconds(self) -> int:
        """Seconds of the whole run as the plan and README.md tell them."""
        return round(self.run_seconds)

    @property
    def preparation_seconds(self) -> float:
        """Of prepare_data.py, which needs no GPU."""
        return sum(part.seconds for part in self.parts if part.name == PREPARATION)

    @property
    def tokenizing_seconds(self) -> float:
        """Of the trainer's own pass over the rows, before its first step."""
        return self._seconds_of(TOKENIZATION)

    @property
    def downloading_seconds(self) -> float:
        """Of weights that come from the Hub, by each node that has a cache of its own."""
        return self._seconds_of(DOWNLOAD)

    @property
    def writing_seconds(self) -> float:
        """The longest that a rank of the training may write answers: those of a generation, or of an evaluation."""
        if not self.work.written_tokens:
            return 0.0
        evaluations = self.decisions["eval_every"].value * self._seconds_of(EVALUATIONS)  # there are about 1 / share
        return max(self.work.steps_taught * self.time.terms.get("generation", 0.0), evaluations)

    @property
    def scoring_seconds(self) -> float:
        """Of evaluate.py, all its times."""
        return self._seconds_of(SCORING)

    def _seconds_of(self, name: str) -> float:
        return sum(part.seconds for part in self.parts if part.name == name)

    def value(self, id: str) -> object:
        return self.decisions[id].value


class RunnerUp(Struct, frozen=True):
    """A model that was not taken, and why."""

    model: str
    params_billion: float
    reason: str


class Selection(Struct, frozen=True):
    """The model that was taken from the catalog."""

    model: str
    params_billion: float
    because: str
    acceptable: int  # models that the recipe and the rules allow
    known: int  # models of the catalog
    runners_up: tuple[RunnerUp, ...]


class Plan(Struct, frozen=True):
    """All stages, in the order they run."""

    stages: tuple[StagePlan, ...]
    selection: Selection | None = None  # how the model was chosen; None where the recipe names it

    @property
    def seconds(self) -> float:
        """Of the whole run of all stages."""
        return sum(stage.run_seconds for stage in self.stages)

    @property
    def gpu_hours(self) -> float:
        """Of all GPUs for the time of all stages: idle ones are paid too."""
        return self.seconds / 3600 * self.stages[0].decisions["gpus"].value

    @property
    def cost_usd(self) -> float | None:
        costs = [stage.cost_usd for stage in self.stages]
        return None if None in costs else sum(cost for cost in costs if cost is not None)
