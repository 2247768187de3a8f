#!/bin/bash
# fuzz-api.sh [SECONDS] [FLAG...]: check that api/openapi.yaml is valid, and send
# requests made from it to a real daemon: no answer may be an internal error, have a
# status that the description lacks, or break its schema. The requests follow from the
# seed; how many are sent, from the time (120 s unless it is given). FLAGs are for
# schemathesis. `scripts/sdk.sh fetch` gets the tools; this works without a network.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=$PWD/bin/sdk/tools/bin
seconds=${1:-120}
shift || true
if [ ! -e bin/sdk/python.fetched ]; then
	echo "fuzz-api: SKIPPED: the packages for Python were not fetched" >&2
	[ "${FORKCELL_TEST_STRICT:-}" != 1 ]
	exit
fi
"$tools/openapi-spec-validator" --validation-errors all api/openapi.yaml

work=$(mktemp -d)
daemon=''
finish() {
	# A failed run leaves the daemon's log.
	[ "$1" = 0 ] || cat "$work/log" >&2
	[ -z "$daemon" ] || { kill "$daemon" && wait "$daemon"; } || true
	# Live cells outlive the daemon.
	"$program" ls --json | "$tools/python" -c 'import json, sys; print(*(c["cell"] for c in json.load(sys.stdin)["cells"] if c["state"] in ("live", "paused")))' |
		xargs -rn1 "$program" rm --force >/dev/null || true
	rm -rf "$work"
}
trap 'finish $?' EXIT

program=$PWD/bin/forkcell-server
export FORKCELL_HOME=$work/home PYTHONDONTWRITEBYTECODE=1
# A token of a file: no request can revoke it.
"$program" token create --name fuzz --scope admin --print-entry --json >"$work/token.json"
field() { "$tools/python" -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]], end="")' "$work/token.json" "$1"; }
(umask 077 && field entry >"$work/tokens")
FORKCELL_FUZZ_TOKEN=$(field token)
export FORKCELL_FUZZ_TOKEN

mkfifo "$work/out"
"$program" serve --json --listen 127.0.0.1:0 --tokens "$work/tokens" >"$work/out" 2>"$work/log" &
daemon=$!
read -r listening <"$work/out"
FORKCELL_FUZZ_URL=http://$("$tools/python" -c 'import json, sys; print(json.loads(sys.argv[1])["listening"][0])' "$listening")
export FORKCELL_FUZZ_URL

cd scripts/fuzzapi
export SCHEMATHESIS_HOOKS=hooks
"$tools/schemathesis" --config-file schemathesis.toml run ../../api/openapi.yaml --url "$FORKCELL_FUZZ_URL" \
	--header "Authorization: Bearer $FORKCELL_FUZZ_TOKEN" --checks all --seed 1 --max-time "$seconds" \
	--request-timeout 60 --generation-database none --no-color "$@"
