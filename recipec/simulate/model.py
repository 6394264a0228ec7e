"""The model that an emitted train.py trains: from its configuration, adapted, with TRL's head, without weights."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import transformers
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, AutoConfig, PreTrainedModel
from trl.trainer.utils import add_fused_lm_head

from recipec.axes import ADAPTATIONS, BASES
from recipec.axes.adaptations import BOTTLENECKS, FUSIONS
from recipec.axes.attention import BOUNDARIES
from recipec.catalog.architecture import HEAD, Architecture
from recipec.catalog.model_types import MODEL_TYPES
from recipec.estimate.codepath import code_path
from recipec.estimate.head import loss_code
from recipec.estimate.workload import ALL_LINEAR, LoraShape, Workload
from recipec.layout import Layout
from recipec.render.artifact import Artifact
from recipec.render.environment import render
from recipec.simulate.config import config_fields
from recipec.simulate.device import flash_attention

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
_OF_TEACHER = ("shards_teacher", "leaves_buffers")  # what engines change, none of which is simulated
PACKED_KERNEL = "simulated-varlen"  # stands in for the flash-attn package, which needs a GPU to import
ROUTER_COEFFICIENT = 0.001  # what the emitted train.py sets


def policy_model(architecture: Architecture, layout: Layout, work: Workload) -> nn.Module:
    """The model that trains; call it under FakeTensorMode."""
    method, model = work.method, _base(architecture, layout, work)
    if method.loss_outputs:
        add_fused_lm_head(model, outputs=method.loss_outputs)
    if layout.adapts.quantized:
        _quantize(model, layout, work)
    if work.lora is not None:
        model = _adapted(model, work.lora, method.peft_task, layout.checkpointing, architecture)
    if layout.checkpointing:
        model.activation_checkpointing_enable(
            {"use_reentrant": layout.spreads.reenters(layout.adapts)},
            every_n_layers=layout.recompute_every,
            offload=layout.activation_offload,
        )
    return model.train()


def _quantize(model: nn.Module, layout: Layout, work: Workload) -> None:
    from recipec.simulate import packed, rounded

    if BASES[layout.adapts.base].rounds_inputs:
        rounded.quantize(model)
    else:
        packed.quantize(model, layout.adapts.base, work.double_quant, DTYPES[layout.precision])


def reference_model(architecture: Architecture, layout: Layout, work: Workload) -> PreTrainedModel:
    """The frozen start: TRL loads the copy in the policy's own type."""
    model = _base(architecture, layout, work)
    add_fused_lm_head(model)
    return model.requires_grad_(False).eval()


def distiller(student: nn.Module, teacher: Architecture, layout: Layout, loss: str) -> Any:
    """The trainer that bundles bring, as it is, with a teacher in the compute type."""
    model = _named("AutoModelForCausalLM", teacher, layout, DTYPES[layout.precision], {}).requires_grad_(False).eval()
    return _DISTILLERS[loss](student, model)


def _of_rows(student: nn.Module, teacher: PreTrainedModel) -> Any:
    """Of supervised distillation: `student` answers with losses from now on."""
    without = dict.fromkeys(("adapter", "dtensors", *_OF_TEACHER), False)
    trainer = _emitted("distillation", "SupervisedDistillationTrainer", **without)
    trainer.beta, trainer.temperature, trainer.label_weight = 0.0, 1.0, 0.0
    trainer.teacher, trainer.teacher_head = teacher.base_model, teacher.get_output_embeddings()
    trainer.teacher_config = teacher.config
    trainer.replace_loss(student.get_base_model() if hasattr(student, "get_base_model") else student)
    trainer.teacher_modules = nn.ModuleList([trainer.teacher, trainer.teacher_head])
    return trainer


def _of_answers(student: nn.Module, teacher: PreTrainedModel) -> Any:
    """Of on-policy distillation."""
    trainer = _emitted("on_policy", "OnPolicyDistillationTrainer", casts=True, **dict.fromkeys(_OF_TEACHER, False))
    trainer.beta, trainer.temperature, trainer.teacher_model = 1.0, 1.0, teacher
    trainer.model_kwarg_keys, trainer._is_vlm = (), False
    trainer.teacher_modules = teacher
    return trainer


_DISTILLERS = {"divergence": _of_rows, "written_divergence": _of_answers}  # by the loss of the method


def _emitted(file: str, name: str, **sides: bool) -> Any:
    """The trainer of a file of the bundle, not yet set up; but for `casts`, its loss is that of all sides."""
    return object.__new__(emitted(file, **sides)[name])


def emitted(file: str, **sides: bool) -> dict[str, Any]:
    """What a file of the bundle defines."""
    made: dict[str, Any] = {}
    exec(render(Artifact(f"{file}.py", template=f"trl/{file}.py.j2", names=sides)).text, made)
    return made


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
    model = getattr(transformers, auto_class).from_config(config, dtype=dtype, attn_implementation=attention)
    if MODEL_TYPES[architecture.model_type].causal_class:
        type(model).base_model_prefix = "model"  # as the emitted train.py does
    return model


def _adapted(
    model: PreTrainedModel, lora: LoraShape, task: str, checkpoints: bool, architecture: Architecture
) -> nn.Module:
    """PEFT's adapters as they train: in fp32, on a quantized base too."""
    from peft import get_peft_model

    model.requires_grad_(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adapted = get_peft_model(model, _configured(lora, task, architecture))
    if lora.new_rows:
        adapted.get_output_embeddings().bias = None  # which TRL's head reads and the wrapper of PEFT lacks
    if checkpoints:
        adapted.enable_input_require_grads()
    return adapted


def _configured(lora: LoraShape, task: str, architecture: Architecture) -> Any:
    if lora.virtual_tokens or lora.prefix_tokens:
        return _before_rows(lora, task)
    if lora.bottleneck:
        return _behind(lora, task, architecture)
    return _scales(lora, task, architecture.modules.mlp_out) if lora.scaled else _low_rank(lora, task, architecture)


def _before_rows(lora: LoraShape, task: str) -> Any:
    from peft import PrefixTuningConfig, PromptEncoderConfig, PromptTuningConfig

    tokens, width = lora.virtual_tokens or lora.prefix_tokens, lora.encoder or None
    if lora.prefix_tokens:
        projects = width is not None
        options = {"prefix_projection": projects, "encoder_hidden_size": width, "task_type": task}
        return PrefixTuningConfig(num_virtual_tokens=tokens, **options)
    if width:
        return PromptEncoderConfig(num_virtual_tokens=tokens, encoder_hidden_size=width, task_type=task)
    return PromptTuningConfig(num_virtual_tokens=tokens, task_type=task)


def _behind(lora: LoraShape, task: str, architecture: Architecture) -> Any:
    trains = FUSIONS if lora.mixed else BOTTLENECKS
    row = next(row for row in ADAPTATIONS.values() if row.trains == trains)
    factor = architecture.hidden_size // lora.bottleneck
    shape = {"target_modules": list(lora.behind), "reduction_factor": factor, "task_type": task}
    mixed = {"adapters": [f"task-{number}" for number in range(lora.mixed)]} if lora.mixed else {}
    return emitted(row.module)[row.config](**shape, **mixed)


def _scales(lora: LoraShape, task: str, mlp_out: str) -> Any:
    from peft import IA3Config

    inputs = [name for name in lora.scaled if name == mlp_out]
    return IA3Config(target_modules=list(lora.scaled), feedforward_modules=inputs, task_type=task)


def _low_rank(lora: LoraShape, task: str, architecture: Architecture) -> Any:
    from peft import LoraConfig

    matrices = (architecture.modules.embedding, *(HEAD,) * (not architecture.tie_embeddings))
    return LoraConfig(
        r=lora.rank,
        lora_dropout=0.05 if lora.dropout else 0.0,
        target_modules=lora.targets if lora.targets == ALL_LINEAR else list(lora.targets),
        target_parameters=list(lora.experts) or None,
        rank_pattern=dict.fromkeys(lora.experts, lora.expert_rank),
        use_dora=lora.magnitudes,
        trainable_token_indices={name: [*range(lora.new_rows)] for name in matrices} if lora.new_rows else None,
        task_type=task,
    )
