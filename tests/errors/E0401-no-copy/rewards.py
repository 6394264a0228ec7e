def is_right(completions, answer):
    return [1.0 for _ in completions]


async def later(completions):
    return [1.0 for _ in completions]


def blind(answer):
    return [1.0 for _ in answer]
