#!/bin/sh
# Writes the lock files anew: the versions of constraints.txt, each with the hashes of all its files.
set -eu
cd "$(dirname "$0")/.."
uv=.venv/bin/uv
merged=$(mktemp)
trap 'rm -f "$merged"' EXIT
# where constraints-mcp.txt names a package, its version goes before the usual one
awk -F== 'NR == FNR { pinned[$1] } NR == FNR || !($1 in pinned)' \
    constraints-mcp.txt constraints.txt > "$merged"

# lock NAME CONSTRAINTS REQUIREMENTS…: for every platform and every Python from 3.11 on
lock() {
    name=$1 versions=$2
    shift 2
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
        --default-index https://pypi.org/simple --custom-compile-command "make lock" \
        -c "$versions" "$@" -o "locks/$name.txt"
}

for name in run dev mcp uv headless; do rm -f "locks/$name.txt"; done
lock run constraints.txt requirements.txt
lock dev constraints.txt requirements-dev.txt
lock mcp "$merged" requirements-mcp.txt
grep '^uv==' constraints.txt | lock uv constraints.txt --no-deps -
sed -n 's/^opencv-python==/opencv-python-headless==/p' constraints.txt |
    lock headless constraints.txt --no-deps -
# an environment of its own, whose versions stay what its lock file says while they fit
"$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
    --default-index https://pypi.org/simple --custom-compile-command "make lock" \
    --override overrides-vllm.txt requirements-vllm.txt -o locks/vllm.txt
