#!/bin/bash
# demo.sh PROGRAM: the whole transaction on examples/demo, in a directory of its
# own. It stops with an error as soon as a step does not do what it says.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:-bin/forkcell}")

dir=$(mktemp -d "${TMPDIR:-/tmp}/forkcell-demo-XXXXXX")
trap 'chmod -R u+rwX "$dir" 2>/dev/null || true; rm -rf "$dir"' EXIT
export FORKCELL_HOME=$dir/state
cp -R examples/demo "$dir/invoice"
echo 'PAYMENT_TOKEN=not-for-agents' >"$dir/invoice/.env"
cd "$dir"

bold='' plain=''
if [ -t 1 ]; then bold=$'\e[1m' plain=$'\e[0m'; fi
say() { printf '\n%s# %s%s\n' "$bold" "$*" "$plain"; }
fail() { echo "demo: $*" >&2; exit 1; }
# typed prints a command as a person would type it.
typed() {
	local word line='$'
	for word in "$@"; do
		[[ $word =~ ^[A-Za-z0-9_./=-]+$ ]] || word=${word@Q}
		line+=" $word"
	done
	printf '%s\n' "$line"
}
show() {
	typed "$@"
	"$@" 2>&1
}
forkcell() { "$program" "$@"; }
# fails CODE COMMAND...: the command must end with this exit code.
fails() {
	local want=$1 code=0
	shift
	show "$@" || code=$?
	[ "$code" = "$want" ] || fail "exit code $code, want $want: $*"
	echo "(exit code $code)"
}
# has TEXT COMMAND...: the command's output, which is shown, must hold the text.
has() {
	local text=$1 out
	shift
	typed "$@"
	out=$("$@" 2>&1) || { echo "$out"; fail "failed: $*"; }
	echo "$out"
	grep -qF -- "$text" <<<"$out" || fail "no \"$text\" in the output of: $*"
}

say 'Try a command in the project. The first time, this makes a cell of it; its secrets stay outside.'
cd invoice
has 'left out by the secret rules' forkcell try -- sh -c 'sed -i "s/^tea,450,2/tea,450,2\nmilk,90,0/" data/order.csv && sh test.sh'
grep -q milk data/order.csv && fail 'the run wrote to the project'

say 'The project itself is not touched. Look at the change, and accept it.'
has '+milk,90,0' forkcell diff
has 'accepted' forkcell accept --reason 'milk is free today'

say 'A bad run: it deletes things, cannot even read the secret, and fails. It is taken back at once.'
fails 1 forkcell run --restore-on-fail -- sh -c 'cat .env; rm -rf src data; sh test.sh'
has 'restored' forkcell status

say 'What the bad run had done is still known.'
has 'src/total.sh' forkcell diff --name-status
show forkcell run --accept-on-success -- sh test.sh

say 'A fork tries something else, without copying, and without disturbing the first.'
show forkcell fork --name faster
show forkcell run faster -- sh -c 'sed -i "s/NF == 3/NF == 3 \&\& \$3 > 0/" src/total.sh && sh test.sh'
has 'NF == 3 && $3 > 0' forkcell diff invoice faster

say 'The fork won: accept it, and write its work to the project.'
show forkcell accept faster --apply --reason 'skips lines without pieces'
grep -qF 'NF == 3 && $3 > 0' src/total.sh || fail 'the project did not get the change'
grep -q milk data/order.csv || fail 'the project did not get the earlier change'
grep -q PAYMENT_TOKEN .env || fail 'the secret is gone'
show sh test.sh
cd ..

say 'Every run left a signed receipt.'
has 'Decision: `accepted`' forkcell receipt show --cell faster --latest
show forkcell receipt verify --all
show forkcell verify faster

say 'Somebody else checks the evidence: another home, no network, only the public key.'
receipt=$(forkcell receipt list --cell faster --json | grep -o 'rcpt_[0-9a-z]*' | tail -n 1)
show forkcell receipt export "$receipt" -o evidence.json
forkcell key show --pem >signer.pem
export FORKCELL_HOME=$dir/auditor
show forkcell receipt verify --bundle evidence.json --key signer.pem
fails 4 forkcell receipt verify --bundle evidence.json

say 'That is the transaction: checkpoint, run, receipt, then accept, restore or fork.'
