"""PiSSA: the adapter begins with the principal parts of the weights, and is written as a plain one at the end."""

from __future__ import annotations

from recipec.backends.job import StageJob
from recipec.backends.parts import Import, Part, lines
from recipec.render.traced import fragment

_KEEP = '''\
def keep_start(trainer: Trainer) -> str:
    """Save the untrained adapter: what training has changed is told from it."""
    start = os.path.join(trainer.args.output_dir, "pissa-start")
    if trainer.args.should_save:
        trainer.model.save_pretrained(start)
    return start'''
_CONVERT = '''\
def save_plain(trainer: Trainer, start: str) -> None:
    """Write the result as plain LoRA of twice the rank, which fits the base as it was before PiSSA changed it."""
    if trainer.args.should_save:
        model = trainer.accelerator.unwrap_model(trainer.model)
        model.save_pretrained(trainer.args.output_dir, path_initial_model_for_weight_conversion=start)
    trainer.accelerator.wait_for_everyone()'''


def part(stage: StageJob) -> Part:
    """What keeps the start, and what converts the result."""
    ids = stage.ids("lora_variant")
    return Part(
        imports=(Import("transformers", "Trainer", ids),),
        functions=(fragment(_KEEP, ids), fragment(_CONVERT, ids)),
        after_trainer=lines(ids, "start = keep_start(trainer)"),
        after_model=lines(ids, "save_plain(trainer, start)"),
    )
