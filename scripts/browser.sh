#!/bin/sh
# Makes sure that a Chromium is there for the browser tests; without one they are skipped.
set -u
for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && exit 0
done
if command -v apt-get >/dev/null; then
    echo "Chromium is missing, trying to install it"
    if [ "$(id -u)" = 0 ]; then root=""; else root="sudo -n"; fi
    $root apt-get update -qq && $root apt-get install -y -qq chromium && exit 0
fi
.venv/bin/python -m playwright install chromium && exit 0
echo "No Chromium could be installed: the browser tests will be skipped." >&2
exit 0
