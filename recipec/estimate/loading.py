"""Host memory of a node while a run reads its weights: pages of the file that ranks share, and copies of their own."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes.strategies import DEEPSPEED, TORCH_FSDP
from recipec.catalog.architecture import Architecture
from recipec.catalog.layer_parts import MXFP4
from recipec.estimate.codepath import code_path
from recipec.estimate.device import GIB
from recipec.estimate.evaluation import stored_bytes
from recipec.estimate.experts import converted_bytes, published_bytes, working_bytes
from recipec.estimate.workload import Workload
from recipec.layout import Layout


class Loading(Struct, frozen=True):
    """What a node holds while weights are read, or made."""

    shared_bytes: int  # once, whatever the ranks
    own_bytes: int = 0  # of each copy
    copies: int = 0
    of: str = "weights"  # what is copied
    made: bool = False  # random weights, which no file holds

    @property
    def peak_bytes(self) -> int:
        """Of all ranks together."""
        return self.shared_bytes + self.copies * self.own_bytes

    @property
    def once_bytes(self) -> int:
        """Of the weights once, as they stay where the device has no room for them."""
        return self.shared_bytes + min(self.copies, 1) * self.own_bytes

    @property
    def because(self) -> str:
        """What it is made of, in words; "" where it is nothing."""
        kinds = ((self.shared_bytes, 1, "weights"), (self.own_bytes, self.copies, self.of))
        parts = [f"{n} x {size / GIB:.1f} GiB of {what}" for size, n, what in kinds if size and n]
        return f"{' and '.join(parts)} while they are {'made' if self.made else 'loaded'}" if parts else ""


def loading(architecture: Architecture, layout: Layout, work: Workload, ranks: int) -> Loading:
    """What a node with so many ranks holds while weights are read, or made."""
    found = _by_each(architecture, layout, work, ranks)
    return replace(found, copies=1) if first_reads(architecture, layout, work, ranks) else found


def first_reads(architecture: Architecture, layout: Layout, work: Workload, ranks: int) -> bool:
    """Whether train.py has the first rank of a node read weights of which every rank would have a copy: FSDP hands out
    those of rank 0 (accelerate 1.15 fsdp_utils.py, `fsdp2_load_full_state_dict`). A checkpoint that counts as quantized
    is read by all; a reference model is read by the trainer."""
    if layout.spreads.engine != TORCH_FSDP or not work.loads_itself or layout.shares_packed:
        return False
    if _dequantized(_as_read(architecture, work)) or _reads_reference_beside(layout, work):
        return False
    return _by_each(architecture, layout, work, ranks).copies > 1


def _by_each(architecture: Architecture, layout: Layout, work: Workload, ranks: int) -> Loading:
    """The same where every rank reads what it needs, as the libraries do it.

    Random ones are made by every rank, but under ZeRO-3, which shards each layer as it is made, and where a plan
    spreads layers as the model is made. A quantized base goes to the device tensor by tensor (transformers 5.23
    quantizers/quantizer_bnb_*.py, `update_device_map`). One that ranks share is mapped from its files (two ranks with
    284 MB of them: 20 to 32 MiB their own), and a save gathers all of it once (accelerate 1.15 accelerator.py,
    `get_state_dict`).
    """
    architecture = _as_read(architecture, work)
    if layout.adapts.quantized:
        return Loading(stored_bytes(architecture, layout, work) if layout.shares_packed else 0)
    path = code_path(layout, work)
    each = path.trained if layout.adapts.trains_all else path.frozen
    whole = architecture.params * each
    if work.method.random_weights:
        return Loading(0, whole, ranks * _made_whole(layout, work), made=True)
    if layout.spreads.one_rank or (_first_reads(layout) and not _dequantized(architecture)):
        return Loading(whole)
    beside = _reads_reference_beside(layout, work)
    of = "{}, those of the reference model among them," if beside else "{}"
    if each == 2 and layout.precision == "bf16":  # as nearly all models are published
        return _of_a_file(architecture, whole, ranks * (1 + beside), of)
    return Loading(0, whole, ranks * (1 + beside), of.format("weights"))


def read_bytes(architecture: Architecture, work: Workload) -> int:
    """The files that a stage reads its model from; of random weights as many as it makes."""
    return published_bytes(_as_read(architecture, work))


def _as_read(architecture: Architecture, work: Workload) -> Architecture:
    """The model as the files of a stage hold it: a run saves in 16 bits what was published in MXFP4.

    Experts that were published one by one are saved so again (transformers 5.23 core_model_loading.py,
    `revert_weight_conversion`).
    """
    moe = architecture.moe
    if work.published or moe is None or moe.stored != MXFP4:
        return architecture
    return replace(architecture, moe=replace(moe, stored=""))


def _of_a_file(architecture: Architecture, whole: int, copies: int, of: str) -> Loading:
    """Weights that stay in bf16, as they are published, are pages of the file, which the ranks of a node share: two
    ranks with 512 MiB of them have 522 MiB resident each, 2 MiB its own (transformers 5.23, 2026-11). In fp16 or fp32
    each rank has tensors of its own: 255 MiB in bf16 took 18, in fp16 272, in fp32 511 MiB of anonymous memory.

    Those that it converts on the way are new tensors of every rank: experts that the file holds one by one and the
    model as one, and those in MXFP4. Under FSDP too: it does not look at accelerate's `cpu_ram_efficient_loading` where
    it reads values (its core_model_loading.py). Anonymous memory of a process that reads 600 MiB of them grew by 664
    MiB for qwen3_moe, 568 for glm4_moe and 816 for gpt_oss; by 87 for a dense model (2026-11).
    """
    converted = converted_bytes(architecture)
    own = converted + working_bytes(architecture)
    return Loading(whole - converted, own, copies if converted else 0, of.format("experts"))


def _made_whole(layout: Layout, work: Workload) -> bool:
    """Whether every rank makes all random weights."""
    spread = layout.mesh.ranks_per_layer > 1 and not work.capacity_factor  # DeepSpeed-MoE spreads what is made
    return not (_first_reads(layout) or spread)


def _first_reads(layout: Layout) -> bool:
    """Whether only the first rank reads values: under ZeRO-3 (transformers 5.23 modeling_utils.py)."""
    return layout.spreads.engine == DEEPSPEED and layout.spreads.shards_weights


def _dequantized(architecture: Architecture) -> bool:
    """Whether transformers counts the checkpoint as quantized: under ZeRO-3 every rank then reads all of it."""
    return architecture.moe is not None and architecture.moe.stored == MXFP4


def _reads_reference_beside(layout: Layout, work: Workload) -> bool:
    """Whether a copy of the start is read while the policy is in host memory still.

    Under FSDP and DeepSpeed transformers 5.23 leaves the policy there until training begins (its trainer.py,
    `place_model_on_device`), and TRL 1.16 reads the reference before that; in other runs the policy is on the device by
    then. What a reference scores before training needs no copy under DeepSpeed; under FSDP it does (dpo_trainer.py and
    kto_trainer.py, `is_fsdp_enabled`). A teacher goes straight to the device.
    """
    hosted = layout.spreads.engine == DEEPSPEED and not layout.precomputes and _has_copy(layout, work)
    return hosted or reference_under_fsdp(layout, work)


def _has_copy(layout: Layout, work: Workload) -> bool:
    """Whether a copy of the start is the reference; adapters that are switched off need none."""
    return work.method.has_reference and layout.adapts.copies_reference


def reference_under_fsdp(layout: Layout, work: Workload) -> bool:
    """Whether the trainer reads a reference under FSDP: TRL 1.16 spreads it over all GPUs of a node in every rank,
    unless it is told not to: it looks for DDP and DeepSpeed alone where it clears `device_map` (dpo_trainer.py,
    kto_trainer.py, grpo_trainer.py and rloo_trainer.py; trainer/utils.py, `create_model_from_path`)."""
    return layout.spreads.engine == TORCH_FSDP and _has_copy(layout, work)


def teacher_read(layout: Layout, work: Workload) -> int:
    """Of a teacher that ZeRO-3 shards: the first rank has all of its files in one dictionary before any value is put
    into the model, which is sharded as it is made (transformers 5.23 modeling_utils.py, `_load_pretrained_model`)."""
    return 2 * work.teacher.params if work.teacher and _first_reads(layout) else 0
