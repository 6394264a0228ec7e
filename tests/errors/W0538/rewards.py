import re

import numpy
from math_verify import parse, verify

try:
    import faster_parser as parser
except ImportError:
    parser = re


def is_right(completions, answer):
    import helpers

    said = [helpers.text_of(completion) for completion in completions]
    return numpy.array([verify(parse(right), parse(text)) for text, right in zip(said, answer, strict=True)], float)
