#!/bin/sh
# Runs the scripts of the runtime gvisor again as an ordinary user, if root calls it.
set -eu
[ "$(id -u)" = 0 ] || exit 0
user=65531
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/home" "$dir/tmp" "$dir/repo/cmd/forkcell" "$dir/repo/internal/front/cli/testdata"
${GO:-go} test -c -o "$dir/forkcell.test" ./cmd/forkcell
cp bin/forkcell-gvisor "$dir/"
cp -r internal/front/cli/testdata/gvisor "$dir/repo/internal/front/cli/testdata/"
chown -R "$user:$user" "$dir"
chmod 755 "$dir"
cd "$dir/repo/cmd/forkcell"
setpriv --reuid "$user" --regid "$user" --clear-groups env HOME="$dir/home" TMPDIR="$dir/tmp" \
	FORKCELL_TEST_GVISOR="$dir/forkcell-gvisor" "$dir/forkcell.test" -test.timeout 10m -test.run '^TestGvisor$'
