"""Import hooks: run a function on a module right after it is imported; make a package look absent."""

from __future__ import annotations

import importlib.abc
import sys


class AfterImport(importlib.abc.MetaPathFinder):
    """Applies patches to modules: {module name: [(function, value), …]}."""

    def __init__(self, patches):
        self.patches = patches

    def find_spec(self, name, path, target=None):
        if name not in self.patches:
            return None
        others = (finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec"))
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = self._then_patch(spec.loader.exec_module, self.patches[name])
        return spec

    @staticmethod
    def _then_patch(execute, patches):
        def exec_module(module):
            execute(module)
            for patch, value in patches:
                patch(module, value)

        return exec_module


class Refused(importlib.abc.MetaPathFinder):
    """Makes a package look as if it were not installed."""

    def __init__(self, package):
        self.package = package

    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] == self.package:
            raise ModuleNotFoundError(f"No module named {name!r}: a bundle runs without it", name=name)
        return None
