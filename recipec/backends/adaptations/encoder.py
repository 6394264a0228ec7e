"""The network that makes what stands before the rows: checkpoints keep it, and training goes on with it."""

from __future__ import annotations

from recipec.axes.strategies import DEEPSPEED
from recipec.backends.job import StageJob
from recipec.backends.parts import Import, Part, lines
from recipec.render.traced import fragment

_KEPT = '''\
class KeepEncoder(TrainerCallback):
    """Adds the encoder to each checkpoint: PEFT saves what it makes, from which no training can go on."""

    def on_save(self, args, state, control, model, **kwargs) -> None:
        if args.should_save:
            checkpoint = Path(args.output_dir, f"checkpoint-{state.global_step}")
            save_file(model.prompt_encoder.state_dict(), checkpoint / ENCODER)'''
_LOADED = '''\
def load_encoder(model: PeftModel, checkpoint: str, adapter: str, is_trainable: bool = False) -> None:
    """What the trainer loads to resume, and of the best checkpoint: the encoder itself, not what it made."""
    model.prompt_encoder.load_state_dict(load_file(Path(checkpoint, ENCODER)))'''


def kept_encoder(stage: StageJob) -> Part:
    """What writes and reads it; DeepSpeed's own checkpoints have every trained weight."""
    if stage.strategy.engine == DEEPSPEED:
        return Part()
    ids = stage.ids("adaptation")
    return Part(
        imports=(
            Import("functools", "partial", ids),
            Import("peft", "PeftModel", ids),
            Import("safetensors.torch", "load_file", ids),
            Import("safetensors.torch", "save_file", ids),
            Import("transformers", "TrainerCallback", ids),
        ),
        constants=lines(ids, 'ENCODER = "prompt_encoder.safetensors"'),
        functions=(fragment(_KEPT, ids), fragment(_LOADED, ids)),
        after_trainer=lines(ids, "trainer.model.load_adapter = partial(load_encoder, trainer.model)"),
        before_training=lines(
            ids, "trainer.callback_handler.callbacks.insert(0, KeepEncoder())  # before guard.on_save counts the files"
        ),
    )
