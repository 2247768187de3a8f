#!/bin/bash
# quick.sh: format, lint and tests of the packages that changed since a commit (BASE; the
# last one without it). Packages whose tests drive the whole program are left to make test.
set -euo pipefail
cd "$(dirname "$0")/.."

base=${BASE:-HEAD}
mapfile -t files < <({
	git diff --name-only --diff-filter=d "$base" -- '*.go' ':!gvisor'
	git ls-files --others --exclude-standard -- '*.go' ':!gvisor'
} | sort -u)
if [ ${#files[@]} = 0 ]; then
	echo "quick: no Go file has changed since $base; BASE=COMMIT compares with an earlier one"
	exit
fi

unformatted=$(go tool -modfile=tools/go.mod gofumpt -l "${files[@]}")
if [ -n "$unformatted" ]; then
	printf 'not formatted by gofumpt:\n%s\n' "$unformatted" >&2
	exit 1
fi

mapfile -t packages < <(printf './%s\n' "${files[@]%/*}" | sort -u)
go vet "${packages[@]}"
go tool -modfile=tools/go.mod golangci-lint run "${packages[@]}"
tested=()
for p in "${packages[@]}"; do
	case $p in
	./cmd/forkcell | ./internal/front/daemon) echo "quick: the tests of $p are left to make test" ;;
	*) tested+=("$p") ;;
	esac
done
if [ ${#tested[@]} != 0 ]; then go test "${tested[@]}"; fi
