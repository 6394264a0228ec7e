"""DeepSpeed: values of the JSON configuration that change with the machine, and the collectives of a CPU."""

from __future__ import annotations


def deepspeed_limits(module, values):
    """Lower top-level numbers of the configuration that are above these values."""
    config_class = module.HfDeepSpeedConfig
    initialise = config_class.__init__

    def __init__(self, source):
        initialise(self, source)
        for name, most in values.items():
            if isinstance(self.config.get(name), int):
                self.config[name] = min(self.config[name], most)

    config_class.__init__ = __init__


def expert_ranks(module, value):
    """How many ranks share the experts of a layer, where there are fewer ranks than planned."""
    module.RANKS = value


def plain_collectives(module, value):
    """PyTorch's alone: DeepSpeed adds an all-reduce for CPUs, which it compiles at the first start."""
    module.build_shm_op = lambda: None


PATCHES = {
    "plain-collectives": ("deepspeed.comm.torch", plain_collectives),
    "deepspeed-limits": ("accelerate.utils.deepspeed", deepspeed_limits),
    "expert-ranks": ("experts", expert_ranks),
}
