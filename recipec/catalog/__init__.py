"""Facts as data: one TOML file per model and per GPU, each with its source and the date it was checked."""
