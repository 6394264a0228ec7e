"""What is given before anything is decided: the model, the hardware and the data, each with its origin."""

from recipec.facts.gather import (
    Facts,
    Given,
    gather,
    look_up_names,
    rows_read_by,
    unmeasured,
    with_hardware,
    with_model,
)

__all__ = ["Facts", "Given", "gather", "look_up_names", "rows_read_by", "unmeasured", "with_hardware", "with_model"]
