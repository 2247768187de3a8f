#!/bin/sh
# agents.sh fetch: installs the agents' programs from Node's registry into a cache.
# agents.sh test: runs the sessions, without a network but loopback.
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
	FORKCELL_AGENTS=$cache FORKCELL_BIN=$PWD/bin/forkcell go test -tags agents -count 1 -timeout 9m -run TestRealAgents ./internal/session
	;;
esac
