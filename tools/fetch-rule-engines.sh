#!/bin/sh
# Fetches other versions of the programs that load our rules, beside the ones this system has, and unpacks them without
# installing anything:
#
#     .engines/trixie/usr/bin/promtool         2.53
#     .engines/sid/usr/bin/promtool            the newest 3.x that Debian has
#     .engines/sid/usr/bin/vmalert             VictoriaMetrics' rules
#     .engines/sid/usr/bin/victoria-metrics    and its database
#
# apt does it, with an index and a configuration of its own below .engines, so it needs no root, checks signatures, and
# leaves the system's package lists alone. The mirror is the one that this machine's own apt sources name.
# What cannot be fetched is said and left out; the tests say what they miss.
set -eu

cd "$(dirname "$0")/.."
engines=$PWD/.engines
[ -x "$engines/trixie/usr/bin/promtool" ] && [ -x "$engines/sid/usr/bin/promtool" ] && [ -x "$engines/sid/usr/bin/victoria-metrics" ] && exit 0

if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
    echo "No apt here: put promtool 2.53 at .engines/trixie/usr/bin/promtool and 3.x at .engines/sid/usr/bin/promtool to test on both." >&2
    exit 0
fi
mirror=$(apt-get indextargets --format '$(ORIGIN)|$(COMPONENT)|$(REPO_URI)' 'Created-By: Packages' | sed -n 's/^Debian|main|//p' | grep -v security | head -n 1)
if [ -z "$mirror" ]; then
    echo "This machine's apt sources name no Debian mirror: other versions of promtool are not fetched." >&2
    exit 0
fi

fetch() { # suite package program
    root=$engines/.apt/$1
    mkdir -p "$root/lists/partial" "$root/archives/partial" "$root/preferences.d" "$engines/$1"
    : >"$root/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" >"$root/sources.list"
    options="-qq -o Dir::Etc::SourceList=$root/sources.list -o Dir::Etc::SourceParts=-
        -o Dir::Etc::PreferencesParts=$root/preferences.d -o Dir::State=$root -o Dir::State::Lists=$root/lists
        -o Dir::State::Status=$root/status -o Dir::Cache=$root -o Dir::Cache::Archives=$root/archives
        -o Acquire::Check-Valid-Until=false -o APT::Sandbox::User=root -o Acquire::Languages=none -o APT::Update::Post-Invoke::="
    # shellcheck disable=SC2086 # options are a list of words
    if [ -n "$(ls "$root/lists" | grep _Packages)" ] || apt-get $options update; then
        # shellcheck disable=SC2086
        (cd "$root/archives" && apt-get $options download "$2") &&
            dpkg --fsys-tarfile "$root/archives/$2"_*.deb | tar -x -C "$engines/$1" "./usr/bin/$3" && return 0
    fi
    echo "$1: $2 is not to be had; the tests that want $3 of $1 will say so" >&2
}

fetch trixie promtool promtool
fetch sid promtool promtool
fetch sid victoria-metrics vmalert
fetch sid victoria-metrics victoria-metrics
rm -rf "$engines/.apt"
