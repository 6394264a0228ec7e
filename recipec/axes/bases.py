"""The bases: how the frozen weights below an adapter are stored. One row each."""

from __future__ import annotations

from msgspec import Struct

AS_IS = "none"  # the base whose weights are stored in the compute type
# What a quantized base multiplies its integers with: one scale for each block of weights, or for each row of a matrix.
SCALED_BY = NOTHING, BLOCK, ROW = "nothing", "block", "row"


class Base(Struct, frozen=True, kw_only=True):
    """How the frozen weights below an adapter are stored."""

    name: str  # the value of train.quantization
    title: str  # for people: "4-bit (NF4)"
    elsewhere: tuple[str, ...]  # what people type for it who come from other tools
    switches: tuple[str, ...]  # keys of other tools that turn it on or shape it
    means: str
    bits: int | None  # None: those of the compute type
    scaled_by: str  # of SCALED_BY
    rounds_inputs: bool  # its products are of integers: each input is rounded to as many bits, and kept for backward
    not_on_cpu: str  # why no run on a CPU can have it; "" where it can
    merge_costs: float  # nats per token that a merge may add to the loss
    merge_because: str  # where that limit comes from
    again_costs: float  # the same, where the next stage stores the merged model in as many bits
    again_because: str


BASES = {
    row.name: row
    for row in (
        Base(
            name=AS_IS,
            title="unquantized",
            elsewhere=(),
            switches=(),
            means="the base model without quantization",
            bits=None,
            scaled_by=NOTHING,
            rounds_inputs=False,
            not_on_cpu="",
            merge_costs=0.01,
            merge_because="a merge rounds each weight once more, which moves a loss by thousandths at most",
            again_costs=0.01,
            again_because="a merge rounds each weight once more, which moves a loss by thousandths at most",
        ),
        Base(
            name="nf4",
            title="4-bit (NF4)",
            elsewhere=("4", "4bit", "4-bit", "int4", "bnb", "nf4-double"),
            switches=(
                *("load_in_4bit", "bnb_4bit_quant_type", "bnb_4bit_compute_dtype", "bnb_4bit_use_double_quant"),
                *("use_bnb_nested_quant", "double_quant"),
            ),
            means="the base model in 4 bits (NormalFloat)",
            bits=4,
            scaled_by=BLOCK,
            rounds_inputs=False,
            not_on_cpu="on a CPU no gradient passes a 4-bit layer after an evaluation",
            merge_costs=0.01,
            merge_because="the adapter is merged into the 4-bit weights that it was trained on, dequantized, and what "
            "is lost is one rounding of each weight, which moves a loss by thousandths at most",
            again_costs=0.05,
            again_because="the model is scored as the next stage stores it, in 4 bits: its weights are rounded anew, "
            "and the adapter was trained beside other errors of rounding",
        ),
        Base(
            name="int8",
            title="8-bit (LLM.int8())",
            elsewhere=("8", "8bit", "8-bit", "llm.int8", "llm-int8", "llm_int8", "bnb-int8"),
            switches=("load_in_8bit", "llm_int8_threshold", "llm_int8_skip_modules", "llm_int8_has_fp16_weight"),
            means="the base model in 8 bits (LLM.int8())",
            bits=8,
            scaled_by=ROW,
            rounds_inputs=True,
            not_on_cpu="",
            merge_costs=0.02,
            merge_because="the adapter is merged into the 8-bit weights that it was trained on, and what is lost is "
            "one rounding of each weight, less than 1% of the perplexity; 8-bit products round their inputs too, "
            "which changes the perplexity by less than 1% (arXiv 2208.07339, table 1)",
            again_costs=0.02,
            again_because="the model is scored as the next stage stores it, in 8 bits: its weights are rounded anew, "
            "which changes the perplexity by less than 1% (arXiv 2208.07339, table 1)",
        ),
    )
}
