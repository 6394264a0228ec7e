"""The model that an emitted train.py trains: from its configuration, adapted, with TRL's head, without weights."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import transformers
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, AutoConfig, PreTrainedModel
from trl.trainer.utils import add_fused_lm_head

from recipec.axes.attention import BOUNDARIES
from recipec.catalog.architecture import Architecture
from recipec.estimate.codepath import code_path
from recipec.estimate.head import loss_code
from recipec.estimate.workload import ALL_LINEAR, LoraShape, Workload
from recipec.layout import Layout
from recipec.render.artifact import Artifact
from recipec.render.environment import render
from recipec.simulate.config import config_fields
from recipec.simulate.device import flash_attention

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
PACKED_KERNEL = "simulated-varlen"  # stands in for the flash-attn package, which needs a GPU to import
ROUTER_COEFFICIENT = 0.001  # what the emitted train.py sets


def policy_model(architecture: Architecture, layout: Layout, work: Workload) -> nn.Module:
    """The model that trains; call it under FakeTensorMode."""
    method, model = work.method, _base(architecture, layout, work)
    if method.loss_outputs:
        add_fused_lm_head(model, outputs=method.loss_outputs)
    if layout.adapts.quantized:
        from recipec.simulate.packed import quantize

        quantize(model, layout.adapts.base, work.double_quant, DTYPES[layout.precision])
    if work.lora is not None:
        model = _adapted(model, work.lora, method.peft_task, layout.checkpointing, architecture.modules.mlp_out)
    if layout.checkpointing:
        model.activation_checkpointing_enable(
            {"use_reentrant": False}, every_n_layers=layout.recompute_every, offload=layout.activation_offload
        )
    return model.train()


def reference_model(architecture: Architecture, layout: Layout, work: Workload) -> PreTrainedModel:
    """The frozen start: TRL loads the copy in the policy's own type."""
    model = _base(architecture, layout, work)
    add_fused_lm_head(model)
    return model.requires_grad_(False).eval()


def distiller(student: nn.Module, teacher: Architecture, layout: Layout) -> Any:
    """The trainer that bundles bring, as it is, with a teacher in the compute type; `student` answers with losses."""
    sides = ("adapter", "dtensors", "shards_teacher")  # its loss is the same for all of them
    emitted: dict[str, Any] = {}
    file = Artifact("distillation.py", template="trl/distillation.py.j2", names=dict.fromkeys(sides, False))
    exec(render(file).text, emitted)
    trainer = object.__new__(emitted["SupervisedDistillationTrainer"])
    model = _named("AutoModelForCausalLM", teacher, layout, DTYPES[layout.precision], {}).requires_grad_(False).eval()
    trainer.beta, trainer.temperature, trainer.label_weight = 0.0, 1.0, 0.0
    trainer.teacher, trainer.teacher_head = model.base_model, model.get_output_embeddings()
    trainer.teacher_config = model.config
    trainer.replace_loss(student.get_base_model() if hasattr(student, "get_base_model") else student)
    return trainer


def decoder(model: nn.Module) -> nn.Module:
    """The module that holds the decoder layers, below PEFT's and the head's."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    return base.base_model


def _base(architecture: Architecture, layout: Layout, work: Workload) -> PreTrainedModel:
    """The model without weights; a sequence classifier gives one score."""
    fields: dict[str, Any] = {} if loss_code(work).to_vocabulary else {"num_labels": 1}
    if architecture.balanced and work.method.loss_outputs:
        fields |= {"output_router_logits": True, "router_aux_loss_coef": ROUTER_COEFFICIENT}
    path = code_path(layout, work)
    dtype = torch.float32 if (path.frozen or path.trained) == 4 else DTYPES[layout.precision]
    return _named(work.method.auto_class, architecture, layout, dtype, fields)


def _named(
    auto_class: str, architecture: Architecture, layout: Layout, dtype: torch.dtype, fields: dict[str, Any]
) -> PreTrainedModel:
    AttentionInterface.register(PACKED_KERNEL, flash_attention)
    AttentionMaskInterface.register(PACKED_KERNEL, lambda **options: None)
    config = AutoConfig.for_model(**config_fields(architecture), **fields)
    attention = PACKED_KERNEL if layout.attends.apart == BOUNDARIES else layout.attention
    return getattr(transformers, auto_class).from_config(config, dtype=dtype, attn_implementation=attention)


def _adapted(model: PreTrainedModel, lora: LoraShape, task: str, checkpoints: bool, mlp_out: str) -> nn.Module:
    """PEFT's adapters as they train: in fp32, on a 4-bit base too."""
    from peft import get_peft_model

    model.requires_grad_(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adapted = get_peft_model(model, _configured(lora, task, mlp_out))
    if checkpoints:
        adapted.enable_input_require_grads()
    return adapted


def _configured(lora: LoraShape, task: str, mlp_out: str) -> Any:
    if lora.virtual_tokens:
        from peft import PromptTuningConfig

        return PromptTuningConfig(num_virtual_tokens=lora.virtual_tokens, task_type=task)
    return _scales(lora, task, mlp_out) if lora.scaled else _low_rank(lora, task)


def _scales(lora: LoraShape, task: str, mlp_out: str) -> Any:
    from peft import IA3Config

    inputs = [name for name in lora.scaled if name == mlp_out]
    return IA3Config(target_modules=list(lora.scaled), feedforward_modules=inputs, task_type=task)


def _low_rank(lora: LoraShape, task: str) -> Any:
    from peft import LoraConfig

    return LoraConfig(
        r=lora.rank,
        lora_dropout=0.05 if lora.dropout else 0.0,
        target_modules=lora.targets if lora.targets == ALL_LINEAR else list(lora.targets),
        target_parameters=list(lora.experts) or None,
        rank_pattern=dict.fromkeys(lora.experts, lora.expert_rank),
        use_dora=lora.magnitudes,
        task_type=task,
    )
