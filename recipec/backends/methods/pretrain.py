"""Pretraining: as continued pretraining; the random weights follow from its row."""

from recipec.backends.methods import continue_pretrain

BACKEND = continue_pretrain.BACKEND
