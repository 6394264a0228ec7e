"""Contrastive preference optimization: DPOTrainer with another loss, in a file of the bundle.

Why not TRL's own: CPOTrainer is experimental. It holds the logits of both answers at every position; it logs no count
of tokens and keeps no lengths of rows; it loads a model with device_map="auto", which distributed runs refuse; and it
reads no router_aux_loss_coef from its configuration.
"""

from recipec.backends.methods.unreferenced import unreferenced

BACKEND = unreferenced("contrastive", "ContrastiveTrainer", per_token=False)
