"""What several floors ask of the optimizers, by the values of train.optimizer."""

PAGED = ("paged-adamw", "paged-adamw-8bit")  # states that the driver moves to host memory where there is no room
