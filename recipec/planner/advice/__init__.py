"""Advice: what to say of a plan: why the others lost, what would help, what it needs, what to warn about."""
