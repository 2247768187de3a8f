#!/bin/sh
# agents.sh fetch: installs the agents' programs from Node's registry into a cache.
# agents.sh test [PATTERN]: runs the sessions, as root without a network but loopback and a
# pair of namespaces.
set -eu
cd "$(dirname "$0")/.."

cache=${XDG_CACHE_HOME:-$HOME/.cache}/forkcell-agents
packages='@anthropic-ai/claude-code@2.1.197 @openai/codex@0.166.0 @google/gemini-cli@0.61.0 opencode-ai@1.18.33 @github/copilot@1.0.102'

case "${1:?fetch or test}" in
fetch)
	if [ "$(cat "$cache/packages" 2>/dev/null)" = "$packages" ]; then
		exit 0
	fi
	mkdir -p "$cache"
	# shellcheck disable=SC2086 # a list of packages
	npm install --prefix "$cache" --no-audit --no-fund --loglevel error $packages
	echo "$packages" >"$cache/packages"
	;;
test)
	scratch=$(mktemp -d)
	trap 'rm -rf "$scratch"' EXIT
	go test -c -tags agents -o "$scratch/agents.test" ./internal/session
	export FORKCELL_AGENTS="$cache" FORKCELL_BIN="$PWD/bin/forkcell"
	cd internal/session
	run="$scratch/agents.test -test.timeout 15m -test.run ${2:-^TestRealAgents}"
	if [ "$(id -u)" = 0 ]; then
		# The services have their real names in these namespaces.
		# shellcheck disable=SC2086 # a command and its arguments
		FORKCELL_AGENTS_ISOLATED=yes unshare --mount --net sh -c 'ip link set lo up && exec "$@"' sh $run
	else
		$run
	fi
	;;
esac
