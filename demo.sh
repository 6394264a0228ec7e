#!/usr/bin/env bash
# Everything from nothing: set-up, a model and data, then a recipe planned, compiled and run on this CPU.
#   bash demo.sh                  about ten minutes on two cores
#   bash demo.sh --max-steps 20   a first look
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source setup.sh verify

export HF_HUB_OFFLINE=1 HF_HUB_DISABLE_TELEMETRY=1
[[ -f demo/demo-model/model.safetensors ]] || python recipes/make_demo.py demo
recipec plan recipes/cpu-demo.toml
recipec build recipes/cpu-demo.toml -o demo/bundle
DATA_ROOT="$PWD/demo" bash demo/bundle/launch/local.sh "$@"
echo
echo "the bundle is in demo/bundle: read train.py; its results are in demo/bundle/outputs"
