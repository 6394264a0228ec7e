#!/usr/bin/env bash
# Set-up and all tests of the fast tier, two at a time. Arguments go to pytest: bash test.sh -k planner
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source setup.sh test

ruff check .
ruff format --check .
# whoever has nothing left takes from the other: a few tests of tests/execution last a minute each
OMP_NUM_THREADS=1 python -m pytest --numprocesses 2 --dist worksteal "$@"
