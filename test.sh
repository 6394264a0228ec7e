#!/usr/bin/env bash
# Set-up and all tests of the fast tier. Arguments go to pytest: bash test.sh -k planner
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source setup.sh test

ruff check .
ruff format --check .
python -m pytest "$@"
