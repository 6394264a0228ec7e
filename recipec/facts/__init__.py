"""What is given before anything is decided: the model, the hardware and the data, each with its origin."""

from recipec.facts.gather import Facts, gather

__all__ = ["Facts", "gather"]
