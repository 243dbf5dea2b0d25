#!/bin/sh
# The tests of all families against other releases of transformers: scripts/matrix.sh 5.17.0 5.23.0
# transformers and what it needs at that release are laid in front of what is installed.
set -eu
for version in "$@"; do
  place="runs/matrix/$version"
  [ -d "$place/transformers" ] || .venv/bin/python -m pip install -q --target "$place" "transformers==$version"
  echo "transformers $version"
  PYTHONPATH="$place" .venv/bin/python -c "import transformers; assert transformers.__version__ == '$version'"
  PYTHONPATH="$place" .venv/bin/python -m pytest -m matrix tests/core/test_families.py \
    tests/core/test_universal.py
done
