#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The regcred Authors
#
# Runs every test of regcred:
#
#   ./test.sh            everything
#   ./test.sh --quick    without race detector, cross builds and upstream/
#
# On Debian, as root, it installs the packages that some tests need; elsewhere
# those tests are skipped, and the summary says so. Go modules are downloaded
# through the configured proxy. The tests themselves use loopback alone; on
# Linux, as root, they run where there is nothing else.
set -uo pipefail
cd "$(dirname "$0")"

quick=false
case "${1-}" in
"") ;;
--quick) quick=true ;;
*)
	sed -n '5,13s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/tests.log
: >"$log"
failed=()

# step NAME COMMAND... runs a command and shows its output only if it fails.
step() {
	local name=$1 begin=$SECONDS
	shift
	if "$@" >"$work/step" 2>&1; then
		printf 'ok    %-44s %4ds\n' "$name" $((SECONDS - begin))
	else
		printf 'FAIL  %-44s %4ds\n' "$name" $((SECONDS - begin))
		tail -n 200 "$work/step"
		failed+=("$name")
	fi
}

# tests NAME DIR ARGS... runs go test -v and keeps all that it prints.
tests() {
	local name=$1 dir=$2
	shift 2
	step "$name" run_tests "$dir" "$@"
}

run_tests() {
	local dir=$1 status=0
	shift
	(cd "$dir" && isolated go test -v "$@" ./...) >"$work/out" 2>&1 || status=$?
	cat "$work/out" >>"$log"
	if [ $status -ne 0 ]; then
		# The failing tests with what they said, without the thousands that passed.
		failures <"$work/out"
	fi
	return $status
}

# failures shows of go test -v's output what failed: of each failing test the
# last lines, and what is no test's, as the errors of a compiler are.
failures() {
	awk '
		/^(--- (PASS|SKIP)|ok  )/ { n = 0; next }
		/^panic:|WARNING: DATA RACE/ { more = 40 }
		more-- > 0 || /^(FAIL|# )/ || /^[^ ]+\.go:[0-9]+/ { print }
		{ line[n++ % 120] = $0 }
		/^--- FAIL/ { for (i = n > 120 ? n - 120 : 0; i < n; i++) print line[i % 120]; n = 0 }
	'
}

# isolated COMMAND... runs a command in a network namespace of its own, which
# has the loopback interface alone: what would leave the machine fails.
isolated() {
	if $isolate; then
		GOPROXY=off unshare --net sh -c 'ip link set lo up && exec "$@"' sh "$@"
	else
		"$@"
	fi
}

install_packages() {
	local missing=()
	command -v ip >/dev/null || missing+=(iproute2)
	command -v docker-registry >/dev/null || missing+=(docker-registry)
	command -v htpasswd >/dev/null || missing+=(apache2-utils)
	command -v containerd >/dev/null || missing+=(containerd)
	command -v gcc >/dev/null || missing+=(gcc libc6-dev)
	if ! $quick; then
		command -v runc >/dev/null || missing+=(runc)
		command -v etcd >/dev/null || missing+=(etcd-server)
	fi
	[ ${#missing[@]} -eq 0 ] && return 0
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "skip  not Debian or not root: tests that need ${missing[*]} are skipped"
		return 0
	fi
	# policy-rc.d keeps the package from starting its service.
	local policy=/usr/sbin/policy-rc.d made=false
	[ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy && made=true; }
	step "install ${missing[*]}" sh -c "apt-get update -q && apt-get install -y -q --no-install-recommends ${missing[*]}"
	$made && rm -f $policy
	return 0
}

no_output() {
	local out
	out=$("$@") || return 1
	[ -z "$out" ] || { echo "$out"; return 1; }
}

# cross_build OS ARCH builds everything, and vets it once for each system.
cross_build() {
	GOOS=$1 GOARCH=$2 CGO_ENABLED=0 go build ./... || return
	[ "$2" != amd64 ] || GOOS=$1 GOARCH=$2 CGO_ENABLED=0 go vet ./...
}

install_packages
# Where the packages are, their tests may not be skipped.
require=()
command -v docker-registry >/dev/null && command -v htpasswd >/dev/null && require+=(docker-registry)
if [ "$(uname)" = Linux ] && [ "$(id -u)" -eq 0 ] && command -v containerd >/dev/null; then
	require+=(containerd)
	# A node for tests runs in namespaces of its own, which not every container may make.
	command -v runc >/dev/null && command -v etcd >/dev/null &&
		unshare --net --mount --pid --fork --kill-child --mount-proc true 2>/dev/null && require+=(cluster)
fi
REGCRED_TEST_REQUIRE=$(IFS=, && echo "${require[*]-}")
export REGCRED_TEST_REQUIRE
isolate=true
if ! unshare --net sh -c 'ip link set lo up' 2>/dev/null; then
	isolate=false
	echo "skip  network namespace: it needs Linux and root; the tests still use loopback alone"
fi
race=()
if ! $quick && [ "$(go env CGO_ENABLED)" = 1 ] && command -v gcc >/dev/null; then
	race=(-race)
elif ! $quick; then
	echo "skip  race detector: it needs cgo and a C compiler"
fi

step "download modules" go mod download
step "gofmt" no_output gofmt -l .
step "go vet" go vet ./...
step "staticcheck" go tool staticcheck ./...
step "go mod tidy" go mod tidy -diff
tests "tests${race[*]+ with the race detector}" . ${race[@]+"${race[@]}"}
step "demo" isolated go run ./cmd/regcred demo
if ! $quick; then
	for target in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64; do
		step "build $target" cross_build "${target%/*}" "${target#*/}"
	done
	step "upstream: download modules" sh -c 'cd upstream && go mod download && go mod download -modfile=ecr.mod && go mod download -modfile=node.mod'
	step "upstream: go vet" sh -c 'cd upstream && go vet ./...'
	step "upstream: staticcheck" sh -c 'go build -o "$1/staticcheck" honnef.co/go/tools/cmd/staticcheck && cd upstream && "$1/staticcheck" ./...' sh "$work"
	step "upstream: go mod tidy" sh -c 'cd upstream && go mod tidy -diff'
	# What these tests build is not part of what go test caches by.
	tests "upstream: against the real kubelet" upstream -count=1 -timeout 20m
	step "upstream: vectors are what the kubelet says" sh -c 'cd upstream && go run -modfile=kubelet.mod ./record -check'
fi
step "no planted secret in $(wc -l <"$log") lines of output" sh -c 'go run ./internal/canary/find <"$1"' sh "$log"

count() { grep -c -E "^ *--- $1:" "$log"; }
if [ "$(count SKIP)" -gt 0 ]; then
	echo "skipped:"
	grep -E -B1 '^ *--- SKIP:' "$log" | sed -E 's/^ */  /; /^ *--$/d; /=== /d' | head -n 40
fi
if [ ${#failed[@]} -gt 0 ]; then
	printf 'failed step: %s\n' "${failed[@]}"
fi
bad=$(count FAIL)
[ ${#failed[@]} -eq 0 ] || [ "$bad" -gt 0 ] || bad=${#failed[@]}
echo "$(count PASS) passed, $bad failed, $(count SKIP) skipped"
[ ${#failed[@]} -eq 0 ]
