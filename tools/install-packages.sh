#!/bin/sh
# Installs the Debian packages that it is given and that are not there yet: with apt where this user may, else by saying
# what to install. Nothing it installs is left running: Debian starts services at installation, and a policy-rc.d that
# answers 101 ("not allowed") forbids that while we install.
set -eu

missing=""
for package; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "Needed are these Debian packages, or the same programs from elsewhere on PATH:$missing" >&2
    exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "Programs that are needed are not installed. Run: sudo apt-get update && sudo apt-get install -y --no-install-recommends$missing" >&2
    exit 0
fi

policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT INT TERM
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086 # a list of names
apt-get install -y -qq --no-install-recommends $missing
