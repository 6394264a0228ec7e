"""Emitted bundles on a real GPU: predicted beside measured. `python -m benchmarks.gpu --help`."""
