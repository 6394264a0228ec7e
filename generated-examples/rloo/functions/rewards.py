"""What a good answer to a word problem is: the right number, and few words around it."""

import re


def is_right(completions, answer):
    """1 where the last number of the answer is the expected one."""
    numbers = [re.findall(r"-?\d+", completion[-1]["content"]) for completion in completions]
    return [float(bool(found) and found[-1] == expected) for found, expected in zip(numbers, answer, strict=True)]


def is_short(completions):
    """0 for an answer of 200 words or more, 1 for none."""
    return [max(0.0, 1 - len(completion[-1]["content"].split()) / 200) for completion in completions]
