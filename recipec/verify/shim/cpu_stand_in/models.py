"""Models and data sets: kernels that a CPU lacks, and data that is not at hand."""

from __future__ import annotations


def attention(module, replacement):
    """A flash kernel asked for by name is loaded as `replacement`."""
    loader = module.PreTrainedModel
    load = loader.from_pretrained.__func__

    def from_pretrained(cls, *args, **kwargs):
        if "flash" in str(kwargs.get("attn_implementation")):
            kwargs["attn_implementation"] = replacement
        return load(cls, *args, **kwargs)

    loader.from_pretrained = classmethod(from_pretrained)


def hub_data(module, files):
    """A data set of the hub is read from a local file: {name: path of a .jsonl file}."""
    load = module.load_dataset

    def load_dataset(path, *args, **kwargs):
        if path in files:
            return load("json", data_files=files[path], split="train")
        return load(path, *args, **kwargs)

    module.load_dataset = load_dataset


PATCHES = {
    "attention": ("transformers.modeling_utils", attention),
    "hub-data": ("datasets.load", hub_data),
}
