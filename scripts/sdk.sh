#!/bin/bash
# sdk.sh fetch|generate|test: the packages for Python and TypeScript in sdk/.
# fetch gets what they need from the registries; test works without a network: it
# compares what is generated, builds each package, installs it where nothing else is,
# and runs its tests, and the examples, beside a real daemon. Without a tool it says what is
# skipped; with FORKCELL_TEST_STRICT=1 that is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
work=$root/bin/sdk
tools=$work/tools
wheels=$work/wheels
export FORKCELL_BIN=$PWD/bin/forkcell-server PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1

skip() {
	echo "sdk: SKIPPED $1: $2" >&2
	[ "${FORKCELL_TEST_STRICT:-}" != 1 ]
}

fetch_python() {
	local lists=sdk/python/tools
	cat $lists/requirements.txt $lists/wheels.txt | cmp -s - "$work/python.fetched" && return
	rm -rf "$tools" "$wheels" "$work/python.fetched"
	python3 -m venv "$tools" &&
		"$tools/bin/pip" install -q -r $lists/requirements.txt &&
		"$tools/bin/pip" download -q -d "$wheels" -r $lists/wheels.txt &&
		cat $lists/requirements.txt $lists/wheels.txt >"$work/python.fetched"
}

test_python() {
	"$tools/bin/python" sdk/python/tools/generate.py --check
	(cd sdk/python && "$tools/bin/mypy" --cache-dir "$work/mypy")
	local fresh=$work/python
	rm -rf "$fresh"
	"$tools/bin/python" -m build -q --no-isolation --outdir "$fresh" sdk/python
	python3 -m venv "$fresh/venv"
	"$fresh/venv/bin/pip" install -q --no-index --find-links "$wheels" "$fresh"/forkcell-*.whl pytest
	"$fresh/venv/bin/python" -m pytest -q -rs -p no:cacheprovider -o faulthandler_timeout=120 sdk/python/tests
}

fetch_typescript() {
	local wanted=sdk/typescript/package-lock.json
	cmp -s $wanted "$work/typescript.fetched" && [ -d sdk/typescript/node_modules ] && return
	rm -f "$work/typescript.fetched"
	(cd sdk/typescript && npm ci --no-fund --no-audit --loglevel=error) &&
		fetch_dependencies && cp $wanted "$work/typescript.fetched"
}

# fetch_dependencies puts what the package needs into npm's cache, by the ranges that a
# user's installation asks for: npm ci asks by the lock file, and leaves no list of versions.
fetch_dependencies() {
	local list
	list=$(node -p 'Object.entries(require("./sdk/typescript/package.json").dependencies).map((d) => d.join("@")).join(" ")')
	# shellcheck disable=SC2086 # a list of packages
	npm install --prefix "$work/dependencies" --no-fund --no-audit --loglevel=error $list
}

test_typescript() (
	cd sdk/typescript
	node tools/generate.mjs --check
	rm -rf dist "$work/typescript"
	npx --offline tsc
	node --test dist/test/stream.test.js
	mkdir -p "$work/typescript/test"
	npm pack --silent --pack-destination "$work/typescript" >/dev/null
	cp dist/test/*.js "$work/typescript/test"
	cd "$work/typescript"
	rm test/stream.test.js # it tests what the package does not export
	echo '{"private": true, "type": "module"}' >package.json
	npm install --offline --no-fund --no-audit --loglevel=error ./forkcell-sdk-*.tgz
	node --test test/*.test.js
	# The example is a program of others: only the package, strict, without Node's types.
	cp "$root"/examples/typescript/{race,session}.ts .
	echo '{"compilerOptions": {"strict": true, "target": "ES2022", "lib": ["ES2022", "DOM"],
		"module": "NodeNext", "types": []}, "files": ["race.ts", "session.ts"]}' >tsconfig.json
	"$root/sdk/typescript/node_modules/.bin/tsc"
)

mkdir -p "$work"
case "${1:?fetch, generate or test}" in
fetch)
	fetch_python || echo "sdk: the packages for Python could not be fetched; going on without" >&2
	fetch_typescript || echo "sdk: the packages for TypeScript could not be fetched; going on without" >&2
	;;
generate)
	"$tools/bin/python" sdk/python/tools/generate.py
	node sdk/typescript/tools/generate.mjs
	;;
test)
	python='' node='' packages=''
	if [ -e "$work/python.fetched" ]; then
		test_python
		python=$work/python/venv/bin/python packages=$wheels
	else skip python "its packages were not fetched"; fi
	if [ -e "$work/typescript.fetched" ]; then
		test_typescript
		node=$work/typescript
	else skip typescript "its packages were not fetched"; fi
	scripts/examples.sh "$python" "$node" "$packages"
	;;
esac
