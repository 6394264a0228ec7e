"""Estimates: memory, time, cost and storage of one layout, as plain arithmetic. No torch."""
