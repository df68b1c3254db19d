#!/usr/bin/env bash
# What every host of the TPU runs, from the root of the repository: first the expectations of the laptop again, on the chips
# this time, then the training itself, the same train.py with the same arguments on one TPU VM and on a slice of many hosts.
#
#   MESH=fsdp=8 bash launch/on_tpu.sh --steps 1000 --checkpoint checkpoints/last
set -euo pipefail
: "${MESH:?say how the chips are arranged, as fit did: MESH=fsdp=8}"
VERSION=$(sed -n 's/.*- torch_xla==\([0-9.]*\).*/\1/p' environment.yml)

python3 -m venv --system-site-packages ~/tpu
SIMULATOR=$(sed -n 's/^ *- \(-e \.\/vendor\/xla-sim\|"xla-sim @ .*"\).*/\1/p' environment.yml | tr -d '"')
~/tpu/bin/pip install --quiet "torch==$VERSION" "torch_xla[tpu]==$VERSION" numpy "${SIMULATOR/#-e /--editable=}"
~/tpu/bin/pip install --quiet --no-deps --editable .

TRAIN=$(echo src/*/train.py)
export PJRT_DEVICE=TPU
~/tpu/bin/python -m xla_sim run --fail-on never --out reports/tpu "$TRAIN" --steps 20 --mesh "$MESH"
~/tpu/bin/python "$TRAIN" --mesh "$MESH" "$@"
