#!/bin/sh
# install.sh VENV PYTHON LOCK: makes the virtual environment, and installs into it what the lock file
# names, with the hashes that it names; then the project itself, as it lies here.
set -eu
venv=$1 python=$2 lock=$3

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
    echo "$python is missing or older than Python 3.11; set PYTHON=/path/to/python3.11" >&2
    exit 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo -n "$@"; else return 1; fi
}

if [ ! -x "$venv/bin/pip" ]; then
    rm -rf "$venv"
    "$python" -m venv "$venv" || {
        # Debian splits venv off; install it where we may, else say what to do
        echo "python3-venv is missing, trying to install it" >&2
        as_root apt-get update -qq && as_root apt-get install -y -qq python3-venv || {
            echo "install it with: apt-get install python3-venv" >&2
            exit 1
        }
        rm -rf "$venv"
        "$python" -m venv "$venv"
    }
fi

setting() { "$venv/bin/pip" config list | sed -n "s/^[^.]*\.$1='\(.*\)'\$/\1/p" | head -n 1; }

# uv downloads and unpacks side by side, several times as fast as pip. It does not read pip's
# settings, so that those for other indexes are handed on, and read as pip reads them.
install_fast() {
    locked "$venv/bin/pip" install --disable-pip-version-check -r locks/uv.txt || return 1
    index=$(setting index-url) more=$(setting extra-index-url) links=$(setting find-links)
    cert=$(setting cert)
    [ -z "$index" ] || export UV_DEFAULT_INDEX="$index"
    [ -z "$more" ] || export UV_INDEX="$more" UV_INDEX_STRATEGY=unsafe-best-match
    [ -z "$links" ] || export UV_FIND_LINKS="$links"
    [ -z "$cert" ] || export SSL_CERT_FILE="$cert"
    locked "$venv/bin/uv" pip install --python "$venv/bin/python" -r "$1"
}

locked() { "$@" --quiet --require-hashes; }

install_fast "$lock" || {
    echo "uv could not install; trying pip, which takes longer" >&2
    locked "$venv/bin/pip" install --disable-pip-version-check -r "$lock"
}

# the commands `macd` and `macd-studio`; built by the locked setuptools, so that nothing is fetched
project() { "$@" --quiet --no-deps --no-build-isolation --editable .; }
project "$venv/bin/uv" pip install --python "$venv/bin/python" ||
    project "$venv/bin/pip" install --disable-pip-version-check

# opencv-python needs libGL, which a bare machine lacks; the headless build of the same version
# is the same module without windows
"$venv/bin/python" -c 'import cv2' 2>/dev/null || {
    locked "$venv/bin/pip" install --disable-pip-version-check --no-deps --force-reinstall \
        -r locks/headless.txt
    "$venv/bin/python" -c 'import cv2'
}
