#!/usr/bin/env bash
# Train on a TPU VM or slice with gcloud alone. The chips and the mesh are those of the last answer of `nox -s tpu_fit`.
#
#   ZONE=us-west4-a bash launch/gcloud.sh --steps 1000          needs gcloud, a project with TPU quota, and an answer that fits
#
# For v4, v5e, v5p and v6e. TPU7x (v7x) has no recipe here: Google Cloud offers it through GKE and Compute Engine,
# see https://docs.cloud.google.com/tpu/docs/tpu7x; launch/on_tpu.sh is what each of its hosts has to run.
# The TPU costs money until it is deleted: gcloud compute tpus tpu-vm delete "$NAME" --zone "$ZONE"
set -euo pipefail
: "${ZONE:?say where, for example ZONE=us-west4-a}"
NAME=${NAME:-$(basename "$PWD")}
ANSWER=${ANSWER:-reports/xla_fit/fit.json}

read -r ACCELERATOR RUNTIME MESH < <(python3 - "$ANSWER" <<'PYTHON'
import json, sys

try:
    answer = json.load(open(sys.argv[1]))
except (OSError, ValueError):
    answer = {}
if answer.get("status") != "ok":
    sys.exit(f"{sys.argv[1]} is no answer that fits: run nox -s tpu_fit first")
hardware = answer.get("hardware")
if not hardware:
    sys.exit(
        f"{answer['topology']} is no TPU VM that gcloud can make: Google Cloud offers these chips through GKE and Compute Engine "
        "(https://docs.cloud.google.com/tpu/docs/tpu7x); run launch/on_tpu.sh on each host"
    )
print(hardware["accelerator"], hardware["runtime"], hardware["mesh"])
PYTHON
)
[ -n "$MESH" ] || exit 1

gcloud compute tpus tpu-vm create "$NAME" --zone "$ZONE" --accelerator-type "$ACCELERATOR" --version "$RUNTIME"
git archive --prefix=work/ HEAD | gzip > "/tmp/$NAME.tar.gz"
gcloud compute tpus tpu-vm scp "/tmp/$NAME.tar.gz" "$NAME": --zone "$ZONE" --worker all
gcloud compute tpus tpu-vm ssh "$NAME" --zone "$ZONE" --worker all \
  --command "tar xzf $NAME.tar.gz && cd work && MESH=$MESH bash launch/on_tpu.sh $*"
mkdir -p reports
gcloud compute tpus tpu-vm scp --recurse "$NAME":work/reports/tpu reports/ --zone "$ZONE" --worker 0
.nox/env/bin/python -m xla_sim report --compare reports/xla_sim reports/tpu
