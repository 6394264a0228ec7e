"""The stand-in for an adapter that training goes on from: of the same shape, on the stand-in of its base."""

from __future__ import annotations

from pathlib import Path

from recipec.verify.bundle import Bundle
from recipec.verify.stand_in import SEED, NoStandIn, models_of

_SPREAD = 0.02  # of its matrices B, which begin at zero in a new adapter


def place_adapter(bundle: Bundle, root: Path) -> None:
    """Put it where train.py looks for it, below the private data root; raises NoStandIn for an absolute path."""
    stage, base = bundle.stages[0], models_of(bundle)[0]
    path = stage.decisions.get("init_from")
    if not path:
        return
    if Path(path).is_absolute():
        raise NoStandIn(f"the adapter {path} is named by an absolute path, which nothing can stand in for")
    import peft
    import torch
    from transformers import AutoModelForCausalLM

    config = peft.LoraConfig(
        r=stage.decisions["lora_rank"],
        lora_alpha=stage.decisions["lora_alpha"],
        lora_dropout=stage.decisions["lora_dropout"],
        target_modules=list(stage.decisions["lora_targets"]),
        task_type=stage.method.peft_task,
        **dict(stage.variant.arguments),
    )
    torch.manual_seed(SEED)
    model = peft.get_peft_model(AutoModelForCausalLM.from_pretrained(base.folder(root)), config)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=_SPREAD)
    model.peft_config["default"].base_model_name_or_path = base.name
    model.save_pretrained(root / "data" / path)
