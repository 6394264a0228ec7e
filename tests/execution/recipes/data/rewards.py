"""Rewards for tests: one reads a column of the rows, the other only the answers."""


def repeats(completions, word, **kwargs):
    return [float(wanted in completion[-1]["content"]) for completion, wanted in zip(completions, word, strict=True)]


def brevity(completions, completion_ids):
    assert len(completions) == len(completion_ids)
    return [-len(ids) / 100 for ids in completion_ids]
