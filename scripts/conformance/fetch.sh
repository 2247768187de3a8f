#!/bin/sh
# fetch.sh: the programs that test the Model Context Protocol, from Node's registry
# into bin/conformance. Without them the tests that need them skip, loudly.
set -eu
cd "$(dirname "$0")/../.."

to=bin/conformance
if cmp -s scripts/conformance/package-lock.json $to/fetched; then
	exit 0
fi
mkdir -p $to
rm -rf $to/node_modules
cp scripts/conformance/package.json scripts/conformance/package-lock.json $to
if command -v npm >/dev/null && npm ci --prefix $to --ignore-scripts --no-audit --no-fund --silent; then
	cp scripts/conformance/package-lock.json $to/fetched
else
	echo "conformance: the packages could not be fetched; going on without" >&2
fi
