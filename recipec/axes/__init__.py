"""The four axes as data: methods, strategies, adaptations and row formats. Nothing outside compares their names."""

from recipec.axes.adaptations import ADAPTATIONS, Adaptation, adaptation_of
from recipec.axes.adapted import families, meant_by
from recipec.axes.bases import BASES
from recipec.axes.hyperparameters import Default, Own
from recipec.axes.kinds import KINDS, Kind
from recipec.axes.lora_variants import LORA_VARIANTS, LoraVariant
from recipec.axes.method import Method, Pass
from recipec.axes.methods import METHODS
from recipec.axes.models import NAMED_MODELS, NamedModel
from recipec.axes.row_formats import CARRIED, ROW_FORMATS, Carried, Role, RowFormat
from recipec.axes.sections import COMMON_SECTION, SECTIONS, DataSection
from recipec.axes.strategies import OFFLOADS, STRATEGIES, Strategy
from recipec.axes.tasks import earlier, formats_of, methods_of, readers, sections_of, stages_of, tasks

__all__ = [
    "ADAPTATIONS",
    "BASES",
    "CARRIED",
    "COMMON_SECTION",
    "KINDS",
    "LORA_VARIANTS",
    "METHODS",
    "NAMED_MODELS",
    "OFFLOADS",
    "ROW_FORMATS",
    "SECTIONS",
    "STRATEGIES",
    "Adaptation",
    "Carried",
    "DataSection",
    "Default",
    "Kind",
    "LoraVariant",
    "Method",
    "NamedModel",
    "Own",
    "Pass",
    "Role",
    "RowFormat",
    "Strategy",
    "adaptation_of",
    "earlier",
    "families",
    "formats_of",
    "meant_by",
    "methods_of",
    "readers",
    "sections_of",
    "stages_of",
    "tasks",
]
