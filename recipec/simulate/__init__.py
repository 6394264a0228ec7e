"""The exact memory simulation: the real modules run one training step on fake tensors, and live bytes are counted.

The only package beside `verify` that imports torch and transformers; `recipec plan --exact` imports it lazily. No GPU
is needed and no weights are read: about ten seconds and half a gigabyte of memory for a model of any size.
"""
