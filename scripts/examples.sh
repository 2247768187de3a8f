#!/bin/bash
# examples.sh PYTHON NODE_DIRECTORY WHEELS: runs the examples for Go, Python and TypeScript
# as a user does, beside a real daemon. PYTHON has the package forkcell, NODE_DIRECTORY has
# race.js, session.js and the package @forkcell/sdk, and WHEELS the packages numpy and pandas for the
# host's Python; "" skips what needs it, loudly.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 node=$2 wheels=$3

work=$(mktemp -d /tmp/fcXXXXXX) # short: it holds a socket
export FORKCELL_HOME=$work/home
: >"$work/daemon.log"
"${FORKCELL_BIN:?}" serve >"$work/daemon.log" 2>&1 &
daemon=$!
trap 'kill $daemon && wait $daemon || true; rm -rf "$work"' EXIT
until grep -q '^listening on' "$work/daemon.log"; do
	kill -0 $daemon || { cat "$work/daemon.log"; exit 1; }
	sleep 0.1
done

# example NAME COMMAND...: runs a command beside a fresh project.
example() {
	echo "examples: $1"
	rm -rf "$work/run"
	mkdir "$work/run"
	cp -r examples/project examples/evaluation examples/database examples/browser examples/agent "$work/run"
	(cd "$work/run" && "${@:2}") >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
}

# expect PATTERN...: each is in what the example printed.
expect() {
	local pattern
	for pattern in "$@"; do
		grep -qE "$pattern" "$work/out" || {
			cat "$work/out"
			echo "examples: no \"$pattern\" in the output" >&2
			exit 1
		}
	done
}

if [ ! -x /usr/bin/pytest ]; then
	echo "examples: SKIPPED: the cells need the host's pytest (python3-pytest)" >&2
	exit "${FORKCELL_TEST_STRICT:-0}"
fi
go build -buildvcs=false -o "$work/go/" ./examples/go/...
example go "$work/go/race"
expect 'failed' '^1 1 .*roman.py' '^2 0 .*roman.py'
example 'go: session' "$work/go/session"
expect '^agent-go-generic exited$' 'roman.py \|' '1 file changed'
if [ -n "$python" ]; then
	example 'python: session' "$python" "$PWD/examples/python/session.py"
	expect '^agent-python-generic exited$' 'roman.py \|' '1 file changed'
	example python "$python" "$PWD/examples/python/race.py"
	expect 'failed' '^None .*roman.py'
	example 'python: fix' "$python" "$PWD/examples/python/fix.py" project ./fix-a.sh ./fix-b.sh ./fix-c.sh ./fix-d.sh ./fix-e.sh
	expect 'attempt 1: fails' 'attempt 2: passes' 'attempt 2 wins: ./fix-b.sh' '^  roman.py'
	(cd "$work/run/project" && /usr/bin/pytest -q -p no:cacheprovider)
fi
if [ -n "$python" ]; then
	example 'python: workers of a warm suite' "$python" "$PWD/examples/python/workers.py"
	expect '^worker 0: 3 tests, (passed|failed)' '^worker 2: 3 tests' '^FAILED test_roman.py::test_to_roman'
fi
if [ -n "$python" ] && [ -n "$wheels" ]; then
	# The cells see the host's Python, which has neither.
	"$python" -m pip install -q --root-user-action=ignore --no-index --no-compile --find-links "$wheels" --target "$work/packages" numpy pandas
	evaluation() { mv "$work/packages" evaluation/packages && "$python" "$1"; }
	example 'python: evaluation' evaluation "$PWD/examples/python/evaluate.py"
	expect '^loaded in' '^6 cells have it' '^200 days: [0-9.]+$' '^best: [0-9]+ days$'
else
	echo "examples: SKIPPED evaluation: numpy and pandas were not fetched" >&2
	[ "${FORKCELL_TEST_STRICT:-}" != 1 ]
fi
if [ -n "$python" ] && [ -x bin/forkcell-gvisor ] && [ -x /usr/bin/psql ] && [ -x /usr/bin/chromedriver ]; then
	example 'python: database' "$python" "$PWD/examples/python/database.py"
	expect '^3 servers after' '^delete: 9000$' '^double: 20000$' '^spoil: 0$' '^untouched: 10000$'
	example 'python: browser' "$python" "$PWD/examples/python/browser.py"
	expect '^2 browsers after' '^attempt 1: Basket: 4$' '^attempt 2: Basket: 5$' '^untouched: Basket: 3$'
	example 'python: agent' "$python" "$PWD/examples/python/agent.py"
	expect '^attempt 1: fails' '^attempt 2: fails' '^attempt 3: passes' '^attempt 3 wins:' '^\+NUMERALS'
else
	echo "examples: SKIPPED database, browser and agent: they need make gvisor, postgresql and chromium-driver" >&2
	[ "${FORKCELL_TEST_STRICT:-}" != 1 ]
fi
if [ -n "$node" ]; then
	example typescript node "$node/race.js"
	expect 'failed' '^(null|undefined) .*roman.py'
	example 'typescript: session' node "$node/session.js"
	expect '^agent-typescript-generic exited$' 'roman.py \|' '1 file changed'
fi
