"""Odds ratio preference optimization: DPOTrainer with another loss, in a file of the bundle.

Why not TRL's own: ORPOTrainer is experimental. It holds the logits of both answers at every position, in fp32 under
autocast; it logs no count of tokens and keeps no lengths of rows; it loads a model with device_map="auto", which
distributed runs refuse; it reads no router_aux_loss_coef; a prompt that fills max_length makes its loss NaN; and it
learns the prompts too.
"""

from recipec.backends.methods.unreferenced import unreferenced

BACKEND = unreferenced("odds_ratio", "OddsRatioTrainer", per_token=True)
