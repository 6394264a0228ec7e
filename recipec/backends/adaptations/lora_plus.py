"""LoRA+: the optimizer that was decided, with another rate for the second matrix of each adapter."""

from __future__ import annotations

from recipec.backends.job import StageJob
from recipec.backends.parts import Import, Part, lines
from recipec.render.traced import fragment

RATIO = 16  # LoRA+ (arXiv 2402.12354, 2024)
_OPTIMIZER = f'''\
def lora_plus(trainer: Trainer, model: torch.nn.Module | None = None) -> torch.optim.Optimizer:
    """The optimizer of the trainer, in which the matrices B learn {RATIO} times faster than A."""
    if trainer.optimizer is None:
        model = trainer.model if model is None else model
        optimizer, options = trainer.get_optimizer_cls_and_kwargs(trainer.args, model)
        options |= {{"loraplus_lr_ratio": {RATIO}, "loraplus_weight_decay": trainer.args.weight_decay}}
        trainer.optimizer = create_loraplus_optimizer(model, optimizer, **options)
        used = [group for group in trainer.optimizer.param_groups if group["params"]]
        trainer.optimizer.param_groups = used  # FSDP resumes no group that is empty
    return trainer.optimizer'''


def part(stage: StageJob) -> Part:
    """What makes the trainer's optimizer."""
    ids = stage.ids("lora_variant")
    return Part(
        imports=(
            Import("functools", "partial", ids),
            Import("torch", "", ids),
            Import("peft.optimizers", "create_loraplus_optimizer", ids),
            Import("transformers", "Trainer", ids),
        ),
        functions=(fragment(_OPTIMIZER, ids),),
        after_trainer=lines(ids, "trainer.create_optimizer = partial(lora_plus, trainer)"),
    )
