def fine(completions):
    return [1.0 for _ in completions]
