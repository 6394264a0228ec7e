"""Mutation testing: `python -m benchmarks.mutants --sample 200 --seed 7 recipec/rules recipec/estimate`.

A mutant is the package with one small mistake. A test that bites fails on it; a mutant that no test fails on survives,
and shows what no test looks at.

Why no library serves: mutmut 3.8 leaves out decorated functions (every rule is one) and all that stands in a module
outside a function (our facts); cosmic-ray 8.7 changes operators and numbers alone, in the working tree, and runs all
tests for each change. Neither says which test failed.
"""
