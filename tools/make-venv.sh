#!/bin/sh
# Makes a virtual environment: make-venv.sh PYTHON FOLDER. Debian keeps what that needs in a package of its own, which
# is brought with apt where this user may, else named.
set -eu
python=$1
folder=$2

[ ! -x "$folder/bin/pip" ] || exit 0
if ! command -v "$python" >/dev/null; then
    echo "$python is not installed; this needs Python 3.11 or newer (or make PYTHON=/path/to/python3)" >&2
    exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "$python is older than 3.11; name a newer one: make PYTHON=/path/to/python3" >&2
    exit 1
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        echo "Python's venv module is missing. Run: sudo apt-get install -y python3-venv" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
fi
"$python" -m venv "$folder"
