def is_right(completions, answer):
    return [1.0 if expected in said else 0.0 for said, expected in zip(completions, answer, strict=True)]
