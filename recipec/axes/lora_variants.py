"""The variants of LoRA: what each changes of the adapter, and what it does not go with. One row each."""

from __future__ import annotations

from msgspec import Struct

from recipec.axes.bases import AS_IS, BASES

BY_RANK, BY_ROOT = "rank", "root"  # what alpha is divided by: the rank, or its square root


class LoraVariant(Struct, frozen=True, kw_only=True):
    """How an adapter differs from plain LoRA. Only a recipe asks for one: no plan takes it by itself."""

    name: str  # the value of train.lora.variant
    title: str  # for people: "DoRA"
    elsewhere: tuple[str, ...]  # keys of other tools that turn it on, and other spellings
    means: str  # for editors
    arguments: tuple[tuple[str, bool | str], ...]  # of peft.LoraConfig, beside those of every adapter
    own_code: bool  # a file in backends/adaptations brings more to train.py
    divides_alpha_by: str  # of BY_RANK, BY_ROOT
    rate: float  # its learning rate, as a share of LoRA's
    toy_rate: float  # of the rate at which verification learns a batch by heart, as a share of LoRA's
    rate_because: str  # behind "because"; "" where it is LoRA's
    magnitudes: bool  # trains one number for each output of an adapted module, and builds W + BA for it in each forward
    moves_base: bool  # takes its start out of the base's weights: without the adapter the model is not the base
    whole_weights: bool  # reads whole weights when the adapter is made
    own_optimizer: bool  # makes the optimizer itself, with another rate for one of the matrices
    drops: bool  # may have dropout
    on_experts: bool  # goes with adapters on fused experts
    bases: tuple[str, ...]  # names of BASES that it goes with
    because: str
    source: str

    def serves(self, has_reference: bool) -> bool:
        """Whether a method can use it, which compares with the model without the adapter or does not."""
        return not (has_reference and self.moves_base)


STANDARD = LoraVariant(
    name="standard",
    title="LoRA",
    elsewhere=(),
    means="the original LoRA",
    arguments=(),
    own_code=False,
    divides_alpha_by=BY_RANK,
    rate=1.0,
    toy_rate=1.0,
    rate_because="",
    magnitudes=False,
    moves_base=False,
    whole_weights=False,
    own_optimizer=False,
    drops=True,
    on_experts=True,
    bases=tuple(BASES),
    because="the rule books, the published rates and ranks are for plain LoRA",
    source="LoRA (arXiv 2106.09685, 2021)",
)
RSLORA = LoraVariant(
    name="rslora",
    title="rsLoRA",
    elsewhere=("use_rslora", "peft_use_rslora", "rs-lora"),
    means="rank-stabilized LoRA: scales with alpha / sqrt(rank), for high ranks",
    arguments=(("use_rslora", True),),
    own_code=False,
    divides_alpha_by=BY_ROOT,
    rate=1.0,
    toy_rate=1.0,
    rate_because="",
    magnitudes=False,
    moves_base=False,
    whole_weights=False,
    own_optimizer=False,
    drops=True,
    on_experts=False,
    bases=tuple(BASES),
    because="dividing alpha by the root of the rank keeps the size of the updates the same for every rank, where "
    "dividing by the rank lets those of high ranks shrink",
    source="rsLoRA (arXiv 2312.03732, 2023); PEFT 0.21.2 lora/layer.py (scaling)",
)
DORA = LoraVariant(
    name="dora",
    title="DoRA",
    elsewhere=("use_dora", "peft_use_dora", "qdora"),
    means="weight-decomposed LoRA (DoRA): trains magnitude and direction separately; slower, needs more memory",
    arguments=(("use_dora", True),),
    own_code=False,
    divides_alpha_by=BY_RANK,
    rate=0.75,
    toy_rate=1.0,
    rate_because="its authors train with slightly lower rates than LoRA",
    magnitudes=True,
    moves_base=False,
    whole_weights=False,
    own_optimizer=False,
    drops=False,
    on_experts=False,
    bases=(AS_IS, "nf4"),
    because="DoRA trains the direction of the weights with LoRA and their size by itself; every forward builds the "
    "adapted weights of each module to measure them, which the plan counts",
    source="DoRA (arXiv 2402.09353, 2024); github.com/NVlabs/DoRA (README: a slightly lower rate); PEFT 0.21.2 "
    "lora/dora.py; recipec's choice (three quarters)",
)
PISSA = LoraVariant(
    name="pissa",
    title="PiSSA",
    elsewhere=("pissa_init", "pissa_convert"),
    means="starts from the principal singular vectors of the weights; converted to plain LoRA at the end",
    arguments=(("init_lora_weights", "pissa"),),
    own_code=True,
    divides_alpha_by=BY_RANK,
    rate=0.1,
    toy_rate=1.0,
    rate_because="PiSSA trains the largest parts of the weights themselves",
    magnitudes=False,
    moves_base=True,
    whole_weights=True,
    own_optimizer=False,
    drops=False,
    on_experts=False,
    bases=(AS_IS,),
    because="PiSSA trains the largest singular directions of each weight and freezes the rest; the result is written "
    "as a plain LoRA adapter of twice the rank, which fits the untouched base",
    source="PiSSA (arXiv 2404.02948, 2024); PEFT 0.21.2 examples/pissa_finetuning (2e-5, no dropout)",
)
LORA_PLUS = LoraVariant(
    name="lora-plus",
    title="LoRA+",
    elsewhere=("loraplus_lr_ratio", "loraplus", "lora_plus", "lora+"),
    means="a 16 times larger learning rate for the matrices B",
    arguments=(),
    own_code=True,
    divides_alpha_by=BY_RANK,
    rate=0.5,
    toy_rate=0.1,
    rate_because="the matrices B learn 16 times faster",
    magnitudes=False,
    moves_base=False,
    whole_weights=False,
    own_optimizer=True,
    drops=True,
    on_experts=False,
    bases=tuple(BASES),
    because="the matrices B begin at zero and learn 16 times faster than A, which LoRA+ found to train wide models "
    "better",
    source="LoRA+ (arXiv 2402.12354, 2024: ratio 16); PEFT 0.21.2 optimizers/loraplus.py (half the rate)",
)

LORA_VARIANTS = {row.name: row for row in (STANDARD, RSLORA, DORA, PISSA, LORA_PLUS)}
