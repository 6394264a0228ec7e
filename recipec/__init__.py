"""recipec: a compiler from declarative training recipes to framework-native training code."""

__version__ = "0.1.0"
