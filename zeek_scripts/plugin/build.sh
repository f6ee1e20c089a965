#!/bin/sh
# Builds the plugin into build/ where that is possible; the package is complete without it.
set -u
cd "$(dirname "$0")/.."
if cmake -S plugin -B build && cmake --build build; then
    echo "giscope: built the plugin GiScope::Headers"
else
    rm -rf build
    echo "giscope: no plugin (it needs cmake, a C++ compiler, Zeek's headers); packets go by the script"
fi
