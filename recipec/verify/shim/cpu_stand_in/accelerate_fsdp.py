"""accelerate 1.15 wraps with FSDP on accelerators only; on a CPU it silently falls back to DDP."""

from __future__ import annotations


def fsdp_state(module, value):
    """A CPU process group with an FSDP plugin becomes DistributedType.FSDP."""
    state = module.AcceleratorState
    initialise = state.__init__

    def __init__(self, *args, **kwargs):
        initialise(self, *args, **kwargs)
        plugin = kwargs.get("fsdp_plugin")
        if plugin is not None and self.distributed_type == module.DistributedType.MULTI_CPU:
            self.distributed_type = module.DistributedType.FSDP
            module.PartialState._shared_state["distributed_type"] = self.distributed_type
            if self._mixed_precision != "no":
                plugin.set_mixed_precision(self._mixed_precision)
            self.fsdp_plugin = plugin

    state.__init__ = __init__


PATCHES = {
    "fsdp-state": ("accelerate.state", fsdp_state),
}
