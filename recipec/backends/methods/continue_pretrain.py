"""Continued pretraining: supervised training on every token of plain text."""

from recipec.backends.methods import sft

BACKEND = sft.BACKEND
