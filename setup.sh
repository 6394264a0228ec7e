# Sourced by demo.sh and test.sh: a virtual environment in .venv with recipec and the extra named in $1.
PYTHON="${PYTHON:-$(command -v python3.11 || command -v python3)}"
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "recipec needs Python 3.11 or newer" >&2; exit 2; }
[[ -x .venv/bin/python ]] || "$PYTHON" -m venv .venv
# torch first and by itself: pip then takes the build that suits this machine for everything that needs it
.venv/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
.venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[$1]"
export PATH="$PWD/.venv/bin:$PATH"
