def is_right(completions, answer):
    return [float(expected in said[-1]["content"]) for said, expected in zip(completions, answer, strict=True)]
