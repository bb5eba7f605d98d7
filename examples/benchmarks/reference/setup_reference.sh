#!/usr/bin/env bash
# Make a virtual environment that holds the reference implementation, apart from the project's own.
#
#   setup_reference.sh PATH        PYTHON=python3.12 setup_reference.sh PATH
set -euo pipefail

if [ $# -ne 1 ]; then
    echo "usage: $0 PATH    (the folder of the new virtual environment)" >&2
    exit 2
fi
venv=$1

"${PYTHON:-python3}" -m venv "$venv"
# torch goes first and by its exact release, so that the reference's open range does not pick another build.
"$venv/bin/python" -m pip install --quiet torch==2.13.0
"$venv/bin/python" -m pip install --quiet torch==2.13.0 transformers==5.24.0 datasets==5.2.0 numpy==2.4.6 accelerate==1.15.0 comlrl==1.4.3
"$venv/bin/python" -c 'import comlrl.trainers.reinforce, importlib.metadata as m; print("comlrl", m.version("comlrl"), "torch", m.version("torch"))'
