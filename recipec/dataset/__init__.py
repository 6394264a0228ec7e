"""What the compiler learns from the user's data files: their format, columns and size, from a bounded sample."""

from recipec.dataset.files import files_of
from recipec.dataset.formats import DataShape, UnknownFormat, recognise
from recipec.dataset.rows import Unreadable
from recipec.dataset.sample import Sample, read_sample

__all__ = ["DataShape", "Sample", "UnknownFormat", "Unreadable", "files_of", "read_sample", "recognise"]
