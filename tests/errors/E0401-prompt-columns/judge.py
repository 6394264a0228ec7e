def is_right(completions, sum):
    return [float(str(wanted) in said[-1]["content"]) for said, wanted in zip(completions, sum, strict=True)]
