def exact(completions, answer, **kwargs):
    return [float(right in said) for said, right in zip(completions, answer, strict=True)]
