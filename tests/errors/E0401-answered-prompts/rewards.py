def exact(completions, answer, **kwargs):
    return [float(said[-1]["content"] == right) for said, right in zip(completions, answer, strict=True)]
