"""What the compiler learns from the user's data files: their format, columns and size, from a bounded sample."""

from recipec.dataset.carried_checks import check_carried
from recipec.dataset.contents import (
    ASSISTANT,
    NOTHING,
    BadContent,
    carried,
    fields_of,
    flag_of,
    thoughts,
    turns_of,
)
from recipec.dataset.faults import RowFault, TwoReadings, UnknownFormat, told
from recipec.dataset.files import ENDINGS, endings_in, files_of, may_be_on_hub
from recipec.dataset.formats import BadRows, DataShape, flag_columns, recognise
from recipec.dataset.rows import MAX_DEPTH, Row, Unreadable
from recipec.dataset.sample import Sample, first_rows, read_sample
from recipec.dataset.suggested import misnamed, suggested_columns

__all__ = [
    "ASSISTANT",
    "ENDINGS",
    "MAX_DEPTH",
    "NOTHING",
    "BadContent",
    "BadRows",
    "DataShape",
    "Row",
    "RowFault",
    "Sample",
    "TwoReadings",
    "UnknownFormat",
    "Unreadable",
    "carried",
    "check_carried",
    "endings_in",
    "fields_of",
    "files_of",
    "first_rows",
    "flag_columns",
    "flag_of",
    "may_be_on_hub",
    "misnamed",
    "read_sample",
    "recognise",
    "suggested_columns",
    "thoughts",
    "told",
    "turns_of",
]
