"""What the compiler learns from the user's data files: their format, columns and size, from a bounded sample."""

from recipec.dataset.contents import (
    ASSISTANT,
    NOTHING,
    OF_RESULTS,
    SPEAKERS,
    TOOL_SPEAKERS,
    BadContent,
    Unanswered,
    carried,
    fields_of,
    flag_of,
    thoughts,
    turns_of,
    written_in,
)
from recipec.dataset.conversion import Converted, converted
from recipec.dataset.faults import RowFault, TwoReadings, UnknownFormat, told
from recipec.dataset.files import ENDINGS, endings_in, files_of, may_be_on_hub, walks_everything
from recipec.dataset.formats import DIGITS, WORDS, BadRows, DataShape, flag_columns, recognise
from recipec.dataset.messages import Message, RowReading
from recipec.dataset.rows import MAX_DEPTH, Row, Unreadable
from recipec.dataset.sample import ReadAs, Sample, first_rows, read_sample
from recipec.dataset.suggested import misnamed, suggested_columns, transcripts

__all__ = [
    "ASSISTANT",
    "DIGITS",
    "ENDINGS",
    "MAX_DEPTH",
    "NOTHING",
    "OF_RESULTS",
    "SPEAKERS",
    "TOOL_SPEAKERS",
    "WORDS",
    "BadContent",
    "BadRows",
    "Converted",
    "DataShape",
    "Message",
    "ReadAs",
    "Row",
    "RowFault",
    "RowReading",
    "Sample",
    "TwoReadings",
    "Unanswered",
    "UnknownFormat",
    "Unreadable",
    "carried",
    "converted",
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
    "transcripts",
    "turns_of",
    "walks_everything",
    "written_in",
]
