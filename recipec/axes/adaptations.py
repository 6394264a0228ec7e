"""The adaptations: which weights train, on which base. One row each, the smallest change first."""

from __future__ import annotations

from msgspec import Struct

from recipec.axes.bases import AS_IS

# What serves preference methods as the frozen start: a second copy of the model, the model without adapter, nothing.
REFERENCES = MODEL_COPY, ADAPTER_OFF, NO_REFERENCE = "model", "adapter-off", "none"

# Values of train.lora.targets beside lists of names.
ALL_LINEAR, ATTENTION = "all-linear", "attention"

# What is trained: every weight; a low-rank pair of matrices beside a module's weight; a vector that scales what it
# gives or takes; embeddings that stand before every row; keys and values that stand before every row in each layer; a
# small network behind a module; how several such networks, which are frozen, are mixed.
WEIGHTS, MATRICES, SCALES, PROMPTS, PREFIXES = "weights", "matrices", "scales", "prompts", "prefixes"
BOTTLENECKS, FUSIONS = "bottlenecks", "fusions"
TRAINED = WEIGHTS, MATRICES, SCALES, PROMPTS, PREFIXES, BOTTLENECKS, FUSIONS
VIRTUAL = PROMPTS, PREFIXES  # tokens that no row has
BEHIND = BOTTLENECKS, FUSIONS  # what stands behind a module
# The table of a recipe that combines adapters of several tasks -> what these may train.
COMBINED = {"adapters": (MATRICES, BOTTLENECKS), "fusion": (BOTTLENECKS,)}
STAYING = *VIRTUAL, *BEHIND  # no weight of the base can take them in
WITHOUT_PROMPTS = "soft prompts were run with supervised fine-tuning alone"  # why methods leave them out
KEYS_VALUES, KEYS_VALUES_MLP = "keys-values", "keys-values-mlp"  # what such vectors scale
BEHIND_MLP, BEHIND_BOTH = "mlp", "attention-and-mlp"  # where such networks stand: values of train.bottleneck.after


class Adaptation(Struct, frozen=True, kw_only=True):
    """What is trained, and what follows from it for a run and for what it leaves."""

    name: str
    title: str  # for people: "QLoRA"
    family: str  # the value of train.adaptation
    base: str  # the value of train.quantization
    elsewhere: tuple[str, ...]  # what people type for it who come from other tools
    means: str  # for editors
    summary: str  # in a sentence: "a LoRA adapter on a 4-bit base"
    trains: str  # of TRAINED
    tables: str  # the adaptation whose values in a method's tables it takes: itself, where they name it
    rate: float  # its learning rate, as a share of the one in these tables
    rate_because: str  # behind "because"; "" where it is the same
    reference: str  # of REFERENCES
    config: str  # the class of peft, or of `module`; "" where there is none
    module: str  # of the bundle, where peft has no such class; "" where it has
    table: str  # of [train] and of a stage in it, that shapes what is trained; "" where there is nothing to shape
    own_key: str  # of this table, which no other adaptation of the table has: set, it asks for this one; "" for none
    asked_in: str  # the table of a recipe that asks for it behind other stages; "" where train.adaptation does
    encodes: bool  # a network that is trained, and not saved, always makes what stands before the rows
    recomputes: bool  # layers may be recomputed in the backward pass
    packages: tuple[str, ...]  # that a bundle needs for it
    saves: tuple[str, ...]  # files that a save must have left
    weights: str  # where they are: a glob
    toy_learning_rate: float  # AdamW's, at which some 100,000 random weights learn one batch by heart
    toy_share: float  # of its first value, what is left of their loss then, at most
    result: str  # what they are, at the start of a sentence: "A LoRA adapter"
    merges: bool  # into one model that loads without PEFT
    unasked: bool  # the planner may take it where the recipe leaves it open
    above: str  # the next larger one; "" for the largest
    asked_by: str  # the line of [train] that asks for it against the rules' order
    because: str  # why it is taken
    source: str

    @property
    def trains_all(self) -> bool:
        """Whether every weight is trained, not an adapter beside them."""
        return self.trains == WEIGHTS

    @property
    def copies_reference(self) -> bool:
        """Whether the frozen start is a second model."""
        return self.reference == MODEL_COPY

    @property
    def why_base(self) -> str:
        """Why its base is stored as it is."""
        if self.trains_all:
            return "every weight is trained, which a quantized model does not allow"
        return f"{self.title} trains an adapter on {'a quantized' if self.quantized else 'the unquantized'} base model"

    @property
    def quantized(self) -> bool:
        """Whether its base is stored in fewer bits than it computes in."""
        return self.base != AS_IS


_LORA = {
    "family": "lora",
    "trains": MATRICES,
    "rate": 1.0,
    "rate_because": "",
    "reference": ADAPTER_OFF,
    "config": "LoraConfig",
    "module": "",
    "table": "lora",
    "own_key": "",
    "asked_in": "",
    "encodes": False,
    "recomputes": True,
    "saves": ("adapter_config.json",),
    "weights": "adapter_model*.safetensors",
    "toy_learning_rate": 1e-2,  # at twice the rate some shapes learn no more than how frequent each token is
    "toy_share": 0.5,
    "result": "A LoRA adapter",
    "merges": True,
    "unasked": True,
}

LORA = Adaptation(
    **_LORA,
    name="lora",
    tables="lora",
    title="LoRA",
    elsewhere=("peft", "adapter"),
    base=AS_IS,
    means="LoRA: train low-rank adapters",
    summary="a LoRA adapter",
    packages=("peft",),
    above="full",
    asked_by='train.quantization = "none"',
    because="LoRA trains a small share of the parameters, and its adapter merges exactly into the unquantized base "
    "model",
    source="docs/rule-books/001.md, Step 1; docs/rule-books/003.md, Stack defaults; LoRA (arXiv 2106.09685, 2021)",
)
QLORA = Adaptation(
    **_LORA,
    name="qlora",
    tables="qlora",
    title="QLoRA",
    elsewhere=("4bit", "4-bit", "int4"),
    base="nf4",
    means="QLoRA: LoRA on a 4-bit base model (NF4)",
    summary="a LoRA adapter on a 4-bit base",
    packages=("peft", "bitsandbytes"),
    above="lora",
    asked_by='train.adaptation = "qlora"',
    because="QLoRA stores the base model in a quarter of its bf16 size; its adapter merges into these weights, "
    "dequantized",
    source="docs/rule-books/001.md, Step 1; docs/rule-books/003.md, Stack defaults; QLoRA (arXiv 2305.14314, 2023)",
)
LORA_INT8 = Adaptation(
    **_LORA | {"unasked": False},
    name="lora-int8",
    tables="lora",
    title="8-bit LoRA",
    elsewhere=("8bit", "8-bit", "int8", "llm.int8", "llm-int8", "llm_int8", "bnb-int8"),
    base="int8",
    means="8-bit LoRA: LoRA on an 8-bit base model (LLM.int8())",
    summary="a LoRA adapter on an 8-bit base",
    packages=("peft", "bitsandbytes"),
    above="lora",
    asked_by='train.adaptation = "lora-int8"',
    because="8-bit LoRA stores the base model in half of its bf16 size and computes close to it; its steps are slower "
    "than those of LoRA and QLoRA",
    source="LLM.int8() (arXiv 2208.07339, 2022); huggingface.co/docs/peft/developer_guides/quantization",
)
IA3 = Adaptation(
    name="ia3",
    title="IA3",
    elsewhere=("(ia)3", "(ia)^3", "ia-3"),
    family="ia3",
    base=AS_IS,
    means="IA3: train vectors that scale keys, values and inner activations",
    summary="IA3 vectors",
    trains=SCALES,
    tables="lora",
    rate=40.0,
    rate_because="a vector that begins at 1 must move farther than the matrices of LoRA",
    reference=ADAPTER_OFF,
    config="IA3Config",
    module="",
    table="",
    own_key="",
    asked_in="",
    encodes=False,
    recomputes=True,
    packages=("peft",),
    saves=("adapter_config.json",),
    weights="adapter_model*.safetensors",
    toy_learning_rate=0.2,
    toy_share=0.8,
    result="An IA3 adapter",
    merges=True,
    unasked=False,
    above="lora",
    asked_by='train.adaptation = "ia3"',
    because="IA3 trains one number for each feature of keys, values and inner activations, a hundredth of what LoRA "
    "trains, and merges exactly into the unquantized base model; it can learn less",
    source="IA3 (arXiv 2205.05638, 2022); PEFT 0.21.2 tuners/ia3; huggingface.co/docs/peft/task_guides/ia3 (8e-3)",
)
_VIRTUAL = {
    "base": AS_IS,
    "tables": "lora",
    "reference": ADAPTER_OFF,
    "module": "",
    "packages": ("peft",),
    "saves": ("adapter_config.json",),
    "weights": "adapter_model*.safetensors",
    "merges": False,
    "unasked": False,
    "above": "lora",
}

PROMPT_TUNING = Adaptation(
    **_VIRTUAL,
    name="prompt-tuning",
    title="prompt tuning",
    elsewhere=("prompt_tuning", "prompt tuning", "prompttuning", "soft-prompt", "soft_prompt"),
    family="prompt-tuning",
    means="prompt tuning: train embeddings that precede each row",
    summary="a soft prompt",
    trains=PROMPTS,
    rate=150.0,
    rate_because="a few embeddings before a frozen model must move farther than the matrices of LoRA",
    config="PromptTuningConfig",
    table="prompt",
    own_key="",
    asked_in="",
    encodes=False,
    recomputes=True,
    toy_learning_rate=0.3,
    toy_share=0.85,
    result="A soft prompt",
    asked_by='train.adaptation = "prompt-tuning"',
    because="prompt tuning trains a few embeddings that stand before every row, a ten-thousandth of what LoRA trains; "
    "small models learn less from it than from LoRA",
    source="Prompt tuning (arXiv 2104.08691, 2021); PEFT 0.21.2 tuners/prompt_tuning; "
    "huggingface.co/docs/peft/task_guides/prompt_based_methods (3e-2)",
)
P_TUNING = Adaptation(
    **_VIRTUAL,
    name="p-tuning",
    title="P-tuning",
    elsewhere=("p_tuning", "ptuning", "p tuning", "prompt-encoder", "prompt_encoder"),
    family="p-tuning",
    means="P-tuning: train a small network that makes the embeddings that precede each row",
    summary="a soft prompt from a network",
    trains=PROMPTS,
    rate=5.0,
    rate_because="the network that makes the prompt is new and begins at random",
    config="PromptEncoderConfig",
    table="prompt",
    own_key="encoder_hidden_size",
    asked_in="",
    encodes=True,
    recomputes=True,
    toy_learning_rate=2e-2,
    toy_share=0.85,
    result="A soft prompt",
    asked_by='train.adaptation = "p-tuning"',
    because="P-tuning trains a small network that makes the embeddings before every row; only these embeddings are "
    "saved, and small models learn less from them than from LoRA",
    source="P-tuning (arXiv 2103.10385, 2021); PEFT 0.21.2 tuners/p_tuning; "
    "github.com/huggingface/peft/blob/bcde4c33/docs/source/task_guides/ptuning-seq-classification.md (1e-3); "
    "github.com/huggingface/peft/tree/main/method_comparison/MetaMathQA (1e-3 and 5e-3 answer 37% and 35%)",
)
PREFIX_TUNING = Adaptation(
    **_VIRTUAL,
    name="prefix-tuning",
    title="prefix tuning",
    elsewhere=("prefix", "prefix_tuning", "prefix tuning", "prefixtuning", "p-tuning-v2", "p_tuning_v2", "ptuning_v2"),
    family="prefix-tuning",
    means="prefix tuning: train keys and values that precede each row in every layer",
    summary="a prefix of keys and values",
    trains=PREFIXES,
    rate=25.0,
    rate_because="keys and values that begin near 0 must move farther than the matrices of LoRA",
    config="PrefixTuningConfig",
    table="prefix",
    own_key="",
    asked_in="",
    encodes=False,
    recomputes=False,
    toy_learning_rate=0.3,
    toy_share=0.85,
    result="A prefix",
    asked_by='train.adaptation = "prefix-tuning"',
    because="prefix tuning trains keys and values that every layer finds before a row, less than a tenth of what LoRA "
    "trains; it takes no positions of a row, and learns more than a prompt before the first layer",
    source="Prefix-tuning (arXiv 2101.00190, 2021); PEFT 0.21.2 tuners/prefix_tuning; "
    "github.com/huggingface/peft/tree/main/method_comparison/MetaMathQA (5e-3 from a start at 0 answers 36%, 1e-3 from "
    "a random one 15%)",
)
BOTTLENECK = Adaptation(
    name="bottleneck",
    title="bottleneck adapter",
    elsewhere=("bottleneck-adapter", "bottleneck_adapter", "houlsby", "pfeiffer", "seq_bn", "double_seq_bn"),
    family="bottleneck",
    base=AS_IS,
    means="bottleneck adapters: train a small network behind each feed-forward block",
    summary="bottleneck adapters",
    trains=BOTTLENECKS,
    tables="lora",
    rate=0.5,
    rate_because="bottleneck adapters were published with 1e-4",
    reference=ADAPTER_OFF,
    config="BottleneckConfig",
    module="bottleneck_adapters",  # pandas imports a package of the name bottleneck where it finds one
    table="bottleneck",
    own_key="",
    asked_in="",
    encodes=False,
    recomputes=True,
    packages=("peft",),
    saves=("adapter_config.json",),
    weights="adapter_model*.safetensors",
    toy_learning_rate=5e-2,
    toy_share=0.75,
    result="Bottleneck adapters",
    merges=False,
    unasked=False,
    above="lora",
    asked_by='train.adaptation = "bottleneck"',
    because="bottleneck adapters train a small network behind each feed-forward block; its activation keeps it from "
    "being merged, so it costs time at inference, which LoRA does not",
    source="Houlsby adapters (arXiv 1902.00751, 2019); AdapterFusion (arXiv 2005.00247, 2021); "
    "docs.adapterhub.ml/training.html (1e-4)",
)
FUSION = Adaptation(
    name="fusion",
    title="AdapterFusion",
    elsewhere=("adapter-fusion", "adapter_fusion", "adapterfusion"),
    family="fusion",
    base=AS_IS,
    means="AdapterFusion: train how frozen bottleneck adapters are mixed",
    summary="a mix of bottleneck adapters",
    trains=FUSIONS,
    tables="lora",
    rate=0.25,
    rate_because="AdapterFusion was published with 5e-5",
    reference=ADAPTER_OFF,
    config="FusionConfig",
    module="adapter_fusion",
    table="",
    own_key="",
    asked_in="fusion",
    encodes=False,
    recomputes=True,
    packages=("peft",),
    saves=("adapter_config.json",),
    weights="adapter_model*.safetensors",
    toy_learning_rate=2e-2,
    toy_share=0.95,
    result="A learned mix of adapters",
    merges=False,
    unasked=False,
    above="",
    asked_by="[fusion]",
    because="AdapterFusion learns, in every layer and for every token, how much each frozen adapter adds",
    source="AdapterFusion (arXiv 2005.00247, 2021, sections 3.2 and 4.2)",
)
FULL = Adaptation(
    name="full",
    title="full fine-tuning",
    elsewhere=("full-finetune", "full_finetune", "none", "sft"),
    family="full",
    base=AS_IS,
    means="full fine-tuning: train all weights",
    summary="all weights",
    trains=WEIGHTS,
    tables="full",
    rate=1.0,
    rate_because="",
    reference=MODEL_COPY,
    config="",
    module="",
    table="",
    own_key="",
    asked_in="",
    encodes=False,
    recomputes=True,
    packages=(),
    saves=("config.json",),
    weights="model*.safetensors",
    toy_learning_rate=5e-3,
    toy_share=0.5,
    result="A whole model with its tokenizer",
    merges=False,
    unasked=True,
    above="",
    asked_by='train.adaptation = "full"',
    because="full fine-tuning changes the model most; it is for large data sets and new knowledge",
    source="docs/rule-books/001.md, Step 1; Llama 2 (arXiv 2307.09288, 2023, section 3.1)",
)

_ADAPTERS = IA3, LORA, QLORA, LORA_INT8, PROMPT_TUNING, P_TUNING, PREFIX_TUNING, BOTTLENECK, FUSION
ADAPTATIONS = {row.name: row for row in (*_ADAPTERS, FULL)}


def adaptation_of(family: str, base: str) -> Adaptation:
    """The row of a pair of recipe values; raises StopIteration where no row has it."""
    return next(row for row in ADAPTATIONS.values() if (row.family, row.base) == (family, base))
