"""What the compiler learns from the user's data files: their format, columns and size, from a bounded sample."""

from recipec.dataset.commands import jq
from recipec.dataset.contents import (
    ASSISTANT,
    NOTHING,
    OF_RESULTS,
    SPEAKERS,
    TOOL_SPEAKERS,
    BadContent,
    Incomplete,
    Unanswered,
    carried,
    fields_of,
    flag_of,
    thoughts,
    turns_of,
    written_in,
)
from recipec.dataset.conversion import Converted, asks, converted
from recipec.dataset.faults import MOST_KINDS, RowFault, TwoReadings, UnknownFormat, told
from recipec.dataset.files import (
    ENDINGS,
    MOST_LISTED,
    TEXT_ENDINGS,
    by_kind,
    files_of,
    found_files,
    globs_in,
    may_be_on_hub,
    reaches_down,
    walks_everything,
)
from recipec.dataset.formats import BadRows, DataShape, flag_columns, recognise
from recipec.dataset.joined_answers import answers_joined
from recipec.dataset.messages import Message, RowReading
from recipec.dataset.published import from_published, from_texts
from recipec.dataset.ratings import learning_from, ratings
from recipec.dataset.rewriting import in_one_object, last_answer_apart, rewriting, without_nul
from recipec.dataset.rows import MAX_DEPTH, Row, Unreadable
from recipec.dataset.sample import SAMPLE_ROWS, ReadAs, Sample, first_rows, read_sample
from recipec.dataset.saying import says
from recipec.dataset.scales import labels_of_scale
from recipec.dataset.suggested import misnamed, nearest, suggested_columns, transcripts
from recipec.dataset.talks import rewritten, written_out
from recipec.dataset.tokenizing import tokens_in
from recipec.dataset.trees import trees

__all__ = [
    "ASSISTANT",
    "ENDINGS",
    "MAX_DEPTH",
    "MOST_KINDS",
    "MOST_LISTED",
    "NOTHING",
    "OF_RESULTS",
    "SAMPLE_ROWS",
    "SPEAKERS",
    "TEXT_ENDINGS",
    "TOOL_SPEAKERS",
    "BadContent",
    "BadRows",
    "Converted",
    "DataShape",
    "Incomplete",
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
    "answers_joined",
    "asks",
    "by_kind",
    "carried",
    "converted",
    "fields_of",
    "files_of",
    "first_rows",
    "flag_columns",
    "flag_of",
    "found_files",
    "from_published",
    "from_texts",
    "globs_in",
    "in_one_object",
    "jq",
    "labels_of_scale",
    "last_answer_apart",
    "learning_from",
    "may_be_on_hub",
    "misnamed",
    "nearest",
    "ratings",
    "reaches_down",
    "read_sample",
    "recognise",
    "rewriting",
    "rewritten",
    "says",
    "suggested_columns",
    "thoughts",
    "tokens_in",
    "told",
    "transcripts",
    "trees",
    "turns_of",
    "walks_everything",
    "without_nul",
    "written_in",
    "written_out",
]
