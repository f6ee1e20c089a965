#!/bin/sh
# Build the plugin into build/ if that is possible; the package also works without it.
set -u
cd "$(dirname "$0")/.."
if cmake -S plugin -B build && cmake --build build; then
    echo "giscope: built the plugin GiScope::Headers"
else
    rm -rf build
    echo "giscope: could not build the plugin (it needs cmake, a C++ compiler, and the headers of Zeek, OpenSSL and libpcap); the script logs packets instead"
fi
