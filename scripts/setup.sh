#!/bin/sh
# setup.sh TARGET: what a make target needs before it can start.
# As root on a system with apt-get it installs what is missing; otherwise it
# says so, and goes on: tests that cannot do without a tool skip, loudly.
set -eu
cd "$(dirname "$0")/.."

if ! command -v go >/dev/null; then
	echo "setup: Go is missing; install it from https://go.dev/dl/" >&2
	exit 1
fi
# The go command itself compares its version with go.mod's, and fetches the
# right one where it may.
if ! go env GOVERSION >/dev/null || ! go list -m >/dev/null; then
	echo "setup: this repository needs Go $(awk '$1 == "go" { print $2 }' go.mod); see https://go.dev/dl/" >&2
	exit 1
fi

# command:package
case "${1:?target}" in
test) needs='git:git ssh:openssh-client sshd:openssh-server openssl:openssl setfacl:acl getfattr:attr gcc:gcc,libc6-dev useradd:passwd
	make:make gdb:gdb strace:strace tmux:tmux node:nodejs npm:npm javac:default-jdk-headless
	/usr/bin/cargo:cargo /usr/bin/pytest-3:python3-pytest curl:curl wget:wget /usr/bin/systemd-analyze:systemd /usr/bin/python3:python3 /usr/bin/pip3:python3-pip' ;;
bench) needs='bwrap:bubblewrap rsync:rsync python3:python3' ;;
sdk) needs='python3:python3 node:nodejs npm:npm /usr/bin/pytest:python3-pytest curl:curl
	/usr/bin/psql:postgresql chromium:chromium,fonts-dejavu-core /usr/bin/chromedriver:chromium-driver' ;;
agents) needs='git:git node:nodejs npm:npm ip:iproute2 unshare:util-linux' ;;
browser) needs='chromium:chromium,fonts-dejavu-core' ;;
*) needs='' ;;
esac

missing='' packages=''
for need in $needs; do
	if ! command -v "${need%%:*}" >/dev/null && [ ! -x "/usr/sbin/${need%%:*}" ]; then
		missing="$missing ${need%%:*}"
		packages="$packages $(echo "${need#*:}" | tr , ' ')"
	fi
done
# Debian's Python comes without a part of its library.
if [ "$1" = sdk ] && ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
	missing="$missing python3-venv"
	packages="$packages python3-venv"
fi
if [ "$1" = bench ] && ! /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
	missing="$missing numpy"
	packages="$packages python3-numpy"
fi
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo "setup: installing$packages" >&2
	export DEBIAN_FRONTEND=noninteractive
	# shellcheck disable=SC2086 # a list of packages
	if apt-get update -q >&2 && apt-get install -q -y --no-install-recommends $packages >&2; then
		exit 0
	fi
fi
echo "setup: missing:$missing (Debian packages:$packages); going on without" >&2
