#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The regcred Authors
#
# Runs every fuzz target of this module and of upstream/:
#
#   ./fuzz.sh                    one minute per target
#   ./fuzz.sh 10s                another duration per target
#   ./fuzz.sh 10s DIR            also copy failing inputs to DIR
#   ./fuzz.sh 10s "" ./plugin    only the targets of some packages
#
# A target without any execution counts as failed. A failing input stays in the
# package's testdata/fuzz, where go test runs it from now on.
set -euo pipefail
cd "$(dirname "$0")"

time=${1:-60s} keep=${2-}
[ $# -lt 2 ] && shift $# || shift 2
if ! [[ $time =~ ^[0-9]+(s|m|h|x)$ ]]; then
	sed -n '5,14s/^# \{0,1\}//p' "$0" >&2
	exit 2
fi
# On Linux, as root, it runs in a network namespace with only loopback, as in test.sh.
if [ -z "${FUZZ_ISOLATED-}" ] && [ "$(uname)" = Linux ] && [ "$(id -u)" -eq 0 ] && unshare --net true 2>/dev/null; then
	go mod download && (cd upstream && go mod download)
	FUZZ_ISOLATED=1 GOPROXY=off exec unshare --net sh -c 'ip link set lo up && exec "$@"' sh "$0" "$time" "$keep" "$@"
fi
work=$(mktemp -d)
running=
# Each go test runs in its own process group, so that its workers end with it.
clean_up() {
	trap '' HUP INT TERM
	[ -z "$running" ] || { kill -TERM -- "-$running" && wait "$running"; } 2>/dev/null || true
	rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# in_background DIR COMMAND... runs a command that a signal can interrupt.
in_background() {
	local status=0
	set -m
	(cd "$1" && shift && exec "$@") </dev/null >"$work/out" 2>&1 &
	running=$!
	set +m
	wait "$running" || status=$?
	running=
	return $status
}

targets=0 bad=0
fuzz() { # DIR PACKAGE TARGET
	local status=0 execs
	targets=$((targets + 1))
	in_background "$1" go test -run='^$' -fuzz="^$3\$" -fuzztime="$time" -fuzzminimizetime=10x "$2" || status=$?
	# Without a limit, go test may spend its whole time on minimizing the first input.
	# fuzz: elapsed: 3s, execs: 5412 (1803/sec), new interesting: 1 (total: 30)
	execs=$(sed -n 's/^fuzz: elapsed: .*execs: \([0-9]*\) .*/\1/p' "$work/out" | tail -n 1)
	if [ $status -ne 0 ]; then
		echo "FAIL  $2 $3"
		tail -n 60 "$work/out"
	elif [ "${execs:-0}" -eq 0 ]; then
		echo "FAIL  $2 $3 ran nothing in $time"
	else
		printf 'ok    %-62s %10d execs\n' "${2#github.com/regcred/regcred/} $3" "$execs"
		return
	fi
	bad=$((bad + 1))
}

for dir in . upstream; do
	[ $# -eq 0 ] || [ $dir = . ] || continue
	in_background $dir go test -list='^Fuzz' "${@:-./...}" || { cat "$work/out"; exit 1; }
	# go test prints the targets of a package, then the line of the package.
	awk '/^Fuzz/ { name[n++] = $1 } /^ok / { for (i = 0; i < n; i++) print $2, name[i]; n = 0 }' "$work/out" >"$work/targets"
	while read -r package target <&3; do
		fuzz $dir "$package" "$target"
	done 3<"$work/targets"
done
if [ -n "$keep" ]; then
	git ls-files --others --exclude-standard '*testdata/fuzz/*' >"$work/new"
	mkdir -p "$keep"
	[ ! -s "$work/new" ] || tar --create --files-from="$work/new" | tar --extract --directory="$keep"
fi
echo "$targets fuzz targets, $time each: $bad failed"
[ "$bad" -eq 0 ] && [ "$targets" -gt 0 ]
