#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The regcred Authors
#
# Runs the tests of regcred:
#
#   ./test.sh            all tests except the benchmarks and others that take minutes
#   ./test.sh --quick    without the race detector and upstream/
#   ./test.sh --release  also registry clients, mirrors, the chart, the playground in
#                        Chromium; the race detector for all packages, staticcheck,
#                        and cross builds
#
# On Debian, as root, it installs the packages that some tests need; elsewhere
# those tests are skipped and listed in the summary. Go modules are downloaded
# through the configured proxy. The tests themselves use only loopback; on Linux,
# as root, they run in a network namespace that has nothing else.
set -uo pipefail
cd "$(dirname "$0")"

quick=false release=false
case "${1-}" in
"") ;;
--quick) quick=true ;;
--release) release=true ;;
*)
	sed -n '5,17s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac

work=$(mktemp -d "${TMPDIR:-/tmp}/rcXXXX") # short: it becomes part of sockets' names
# The mode of /tmp: tests check who may change a directory, and run as other users.
chmod 755 "$work" && mkdir -m 1777 "$work/t"
export TMPDIR=$work/t
running= # the process group of the step that runs
beside=  # that of the steps that run beside the others
unbroken=false # whether that step must be let end
policy=  # a file of the system that is there while packages are installed

# end GROUP sends SIGTERM to a process group, waits, and then sends SIGKILL.
end() {
	local tries
	kill -TERM -- "-$1" 2>/dev/null || return 0
	for tries in $(seq 150); do
		kill -0 -- "-$1" 2>/dev/null || return 0
		[ "$tries" -ne 100 ] || kill -KILL -- "-$1" 2>/dev/null
		sleep 0.1
	done
}

# Also after an interrupt: running processes are ended first.
clean_up() {
	trap '' HUP INT TERM
	if [ -n "$running" ] && $unbroken; then
		echo "waits for dpkg, which must not be broken off" >&2
		wait "$running"
	elif [ -n "$running" ]; then
		end "$running"
	fi
	[ -z "$beside" ] || end "$beside"
	[ -z "$policy" ] || rm -f "$policy"
	rm -rf "$work"
}
traps() {
	trap "$1" EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
}
traps clean_up
mkdir "$work/main" "$work/upstream"
lane=$work/main # where the steps of this process leave what they print
: >"$work/failed"

# in_background COMMAND... runs a command in its own process group, so that a signal
# interrupts the wait for it and can end all of its processes.
in_background() {
	local status=0
	set -m
	"$@" </dev/null &
	running=$!
	set +m
	wait "$running" || status=$?
	running=
	return $status
}

# step NAME COMMAND... runs a command and shows its output only if it fails.
step() {
	local name=$1 begin=$SECONDS
	shift
	if in_background "$@" >"$lane/step" 2>&1; then
		printf 'ok    %-44s %4ds\n' "$name" $((SECONDS - begin))
	else
		printf 'FAIL  %-44s %4ds\n' "$name" $((SECONDS - begin))
		tail -n 200 "$lane/step"
		echo "$name" >>"$work/failed"
	fi
}

# tests NAME DIR ARGS... runs go test -v and keeps its whole output. It does not vet,
# because go vet is a separate step with more checks.
tests() {
	local name=$1 dir=$2
	shift 2
	step "$name" run_tests "$dir" "$@"
}

run_tests() {
	local dir=$1 status=0
	shift
	(cd "$dir" && isolated go test -v -vet=off "$@") >"$lane/out" 2>&1 || status=$?
	cat "$lane/out" >>"$lane/log"
	if [ $status -ne 0 ]; then
		# Only the failing tests with their output, not the thousands that passed.
		failures <"$lane/out"
	fi
	return $status
}

# failures filters the output of go test -v: for each failing test the last lines that
# the test itself printed, because server logs may follow them, then its last lines and
# the names of the failing parts; and lines outside tests, such as compiler errors.
failures() {
	awk '
		/^(--- (PASS|SKIP)|ok  )/ { n = said = 0; next }
		/^panic:|WARNING: DATA RACE/ { more = 40 }
		more-- > 0 || /^(FAIL|# )/ || /^ +--- FAIL/ || /^[^ ]+\.go:[0-9]+/ { print }
		n >= 100 && line[n % 100] ~ /^(=== NAME| +[^ ]+_test\.go:[0-9]+: )/ { earlier[said++ % 40] = line[n % 100] }
		{ line[n++ % 100] = $0 }
		/^--- FAIL/ {
			for (i = said > 40 ? said - 40 : 0; i < said; i++) print earlier[i % 40]
			for (i = n > 100 ? n - 100 : 0; i < n; i++) print line[i % 100]
			n = said = 0
		}
	'
}

# isolated COMMAND... runs a command in new namespaces: a network with only the
# loopback interface, so that traffic to other machines fails, and a PID namespace, so
# that no process outlives the command. The shell is its first process and reaps orphans.
isolated() {
	if $isolate; then
		GOPROXY=off unshare "${namespaces[@]}" sh -c 'ip link set lo up && "$@"; exit' sh "$@"
	else
		"$@"
	fi
}

clients=(skopeo podman buildah) # of registries; the others are built: docs/project/testing.md
install_packages() {
	local missing=() client
	command -v ip >/dev/null || missing+=(iproute2)
	command -v docker-registry >/dev/null || missing+=(docker-registry)
	command -v htpasswd >/dev/null || missing+=(apache2-utils)
	command -v containerd >/dev/null || missing+=(containerd)
	command -v gcc >/dev/null || missing+=(gcc libc6-dev)
	command -v patch >/dev/null || missing+=(patch)
	command -v curl >/dev/null || missing+=(curl)
	command -v systemd-analyze >/dev/null || missing+=(systemd)
	if ! $quick; then
		command -v runc >/dev/null || missing+=(runc)
		command -v etcd >/dev/null || missing+=(etcd-server)
		command -v systemctl >/dev/null || missing+=(systemd)
	fi
	if $release; then
		for client in "${clients[@]}" chromium; do
			command -v "$client" >/dev/null || missing+=("$client")
		done
	fi
	[ ${#missing[@]} -eq 0 ] && return 0
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "skip  not Debian or not root: tests that need ${missing[*]} are skipped"
		return 0
	fi
	local install="apt-get install -y -q --no-install-recommends ${missing[*]}"
	step "download ${missing[*]}" sh -c "apt-get update -q && $install --download-only"
	start_no_services
	unbroken=true
	step "install ${missing[*]}" sh -c "$install --no-download"
	unbroken=false
	[ -z "$policy" ] || rm -f "$policy"
	policy=
}

# start_no_services prevents packages from starting their services with a policy-rc.d
# that applies while this script runs. If the script is killed, the file removes itself.
start_no_services() {
	local started="cut -d ' ' -f 22 /proc/$$/stat"
	[ ! -e /usr/sbin/policy-rc.d ] || return 0
	policy=/usr/sbin/policy-rc.d
	cat >"$policy" <<-END
		#!/bin/sh
		# of regcred's test.sh, process $$
		[ "\$($started 2>/dev/null)" = "$(eval "$started")" ] && exit 101
		rm -f "\$0"
	END
	chmod 755 "$policy"
}

no_output() {
	local out
	out=$("$@") || return 1
	[ -z "$out" ] || { echo "$out"; return 1; }
}

# cross_build OS ARCH builds all packages, and vets them once per operating system.
cross_build() {
	GOOS=$1 GOARCH=$2 go build ./... || return
	[ "$2" != amd64 ] || GOOS=$1 GOARCH=$2 go vet ./...
}

# kept removes packages whose tests take minutes from a list, some of them even for a
# release. docs/project/testing.md has the command for each.
kept() {
	local others='chart|clients|formats|mirrors|playground'
	if $release; then others=; fi
	grep -Ev "/(fleet|inside/(compare|smoke)|$others)\$"
}

# upstream runs the steps of upstream/.
upstream() {
	traps 'trap "" HUP INT TERM; [ -z "$running" ] || end "$running"'
	lane=$work/upstream
	step "upstream: download modules" sh -c 'cd upstream && go mod download && go mod download -modfile=ecr.mod && go mod download -modfile=containerd2.mod && go mod download -modfile=helm.mod'
	# go test's cache does not notice changes to the programs that these tests build.
	tests "upstream: against the real kubelet" upstream -count=1 -timeout 45m $(cd upstream && go list ./... | kept)
	step "upstream: vectors are what the kubelet says" sh -c 'cd upstream && go run ./record -check'
	$release || return 0
	step "upstream: go vet" sh -c 'cd upstream && go vet ./...'
	step "upstream: staticcheck" sh -c 'go build -o "$1/staticcheck" honnef.co/go/tools/cmd/staticcheck && cd upstream && "$1/staticcheck" ./...' sh "$work"
	step "upstream: go mod tidy" sh -c 'cd upstream && go mod tidy -diff'
}

install_packages
# With the packages installed, their tests must not be skipped.
require=()
command -v docker-registry >/dev/null && command -v htpasswd >/dev/null && require+=(docker-registry)
command -v systemctl >/dev/null && command -v systemd-analyze >/dev/null && require+=(systemd)
command -v promtool >/dev/null && require+=(prometheus)
command -v curl >/dev/null && require+=(curl)
if [ "$(uname)" = Linux ] && [ "$(id -u)" -eq 0 ]; then
	command -v containerd >/dev/null && require+=(containerd)
	$release && command -v chromium >/dev/null && unshare --net true 2>/dev/null && require+=(chromium)
	# Nodes and clients for tests run in their own namespaces, which some containers may not create.
	if unshare --net --mount --pid --fork --kill-child --mount-proc true 2>/dev/null; then
		command -v containerd >/dev/null && command -v runc >/dev/null && command -v etcd >/dev/null && command -v systemctl >/dev/null && require+=(cluster)
		command -v docker-registry >/dev/null && command -v htpasswd >/dev/null && require+=(clients)
		command -v containerd >/dev/null && command -v skopeo >/dev/null && command -v ip >/dev/null && command -v mount >/dev/null && require+=(mirrors)
	fi
fi
for client in "${clients[@]}"; do
	command -v "$client" >/dev/null && require+=("$client")
done
REGCRED_TEST_REQUIRE=$(IFS=, && echo "${require[*]-}")
export REGCRED_TEST_REQUIRE
isolate=true
namespaces=(--net --mount --pid --fork --kill-child --mount-proc)
if ! unshare "${namespaces[@]}" sh -c 'ip link set lo up' 2>/dev/null; then
	namespaces=(--net) # as in a container that may not mount /proc
	if ! unshare "${namespaces[@]}" sh -c 'ip link set lo up' 2>/dev/null; then
		isolate=false
		echo "skip  namespaces: they need Linux and root; the tests still use loopback alone"
	fi
fi
race=()
if $quick; then
	:
elif [ "$(go env CGO_ENABLED)" != 1 ] || ! command -v gcc >/dev/null; then
	echo "skip  race detector: it needs cgo and a C compiler"
elif $release; then
	race=(./...)
else
	race=(. ./plugin ./kube ./keychain ./internal/pull) # where goroutines meet
fi
# The same flags also for the programs that tests build, so that nothing is compiled
# twice. Without debug information, which is not needed here, compiling is a tenth faster.
export CGO_ENABLED=0
GOFLAGS="-trimpath -gcflags=all=-dwarf=false $(go env GOFLAGS)"
export GOFLAGS

step "download modules" go mod download
step "gofmt" no_output gofmt -l .
step "go vet" go vet ./...
if ! $quick; then
	# In parallel to the rest, because a kubelet and its pods mostly wait. Its own process
	# group can be ended with all of its processes.
	set -m
	upstream </dev/null &
	beside=$!
	set +m
fi
# Tests check the complete output of programs, and a program built with coverage prints
# a warning if no directory for the data is set.
programs='/cmd(/|$)|/plugintest$'
packages=$(go list ./...) || echo "go list" >>"$work/failed"
tests "tests" . -cover -timeout 20m $(grep -Ev "$programs" <<<"$packages")
tests "tests of programs" . -timeout 20m $(grep -E "$programs" <<<"$packages")
# The programs that these tests build are built without cgo nevertheless.
[ ${#race[@]} -eq 0 ] || CGO_ENABLED=1 tests "tests with the race detector" . -race -timeout 30m -exec "env CGO_ENABLED=0" "${race[@]}"
step "demo" isolated go run ./cmd/regcred demo
step "go mod tidy" go mod tidy -diff
if $release; then
	step "staticcheck" go tool staticcheck ./...
	# The tests have already used the build for this machine.
	for target in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64; do
		[ "$target" = "$(go env GOOS)/$(go env GOARCH)" ] ||
			step "build $target" cross_build "${target%/*}" "${target#*/}"
	done
	step "go vet of the playground's module" env GOOS=js GOARCH=wasm go vet ./docs/playground/module
fi
if [ -n "$beside" ]; then
	# A run that was killed between its steps has failed, too.
	wait "$beside" || echo "upstream: ended with status $?, before its last step" >>"$work/failed"
	beside=
fi
log=$work/log
cat "$work"/*/log >"$log"
step "no planted secret in $(wc -l <"$log") lines of output" sh -c 'go run ./internal/canary/find <"$1"' sh "$log"

echo "coverage of packages by their own tests, programs apart:"
sed -n -E 's/^ok  \t(github\.com\/regcred\/)?([^\t]*)\t.*coverage: ([0-9.]+)% of statements.*/\3 \2/p' "$log" | sort -k2 |
	awk '{ printf "  %5.1f %%  %s\n", $1, $2 }'
count() { grep -c -E "^ *--- $1:" "$log"; }
if [ "$(count SKIP)" -gt 0 ]; then
	echo "skipped:"
	grep -E -B1 '^ *--- SKIP:' "$log" | sed -E 's/^ */  /; /^ *--$/d; /=== /d' | head -n 40
fi
sed 's/^/failed step: /' "$work/failed"
bad=$(count FAIL)
[ ! -s "$work/failed" ] || [ "$bad" -gt 0 ] || bad=$(wc -l <"$work/failed")
echo "$(count PASS) passed, $bad failed, $(count SKIP) skipped"
[ ! -s "$work/failed" ]
