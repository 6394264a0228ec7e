"""Which model, where the recipe leaves it open: acceptable ones in order, each one tried by planning it."""
