#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The regcred Authors
#
# Builds the files of a release:
#
#   ./release.sh VERSION OUTDIR [OS/ARCH...]      e.g. ./release.sh v1.2.3 dist
#
# It writes these files:
#
#   - for each platform an archive with every program under ./cmd, their checksums,
#     LICENSE and README.md, and deploy/ for Linux
#   - for each platform a list of the linked modules (CycloneDX, *.cdx.json)
#   - the manifest for krew, kubectl's plugin manager (regcred.yaml)
#   - the playground, a page for a static host (docs/playground)
#   - for linux/amd64 and linux/arm64 the image, an OCI layout as a tar (docs/fleet.md)
#   - the Helm chart
#   - SHA256SUMS of all of them
#
# It needs a clean checkout, and no network if the modules and the Go release of go.mod
# are present. The same commit and version produce the same bytes on every machine; the
# times in the files are the commit's, or SOURCE_DATE_EPOCH. OUTDIR is created last.
set -euo pipefail
cd "$(dirname "$0")"

refuse() {
	echo "release.sh: $1" >&2
	exit 1
}

if [ $# -lt 2 ] || ! [[ $1 =~ ^v[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$ ]]; then
	sed -n '5,19s/^# \{0,1\}//p' "$0" >&2
	exit 2
fi
version=$1 out=$2
shift 2
targets=("$@")
[ $# -gt 0 ] || targets=(linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64)

# Check all requirements before the first build.
for tool in git go jq zip tar gzip sha256sum find sort touch xargs du; do
	command -v $tool >/dev/null || refuse "$tool is not installed"
done
tar --version | grep -q 'GNU tar' || refuse "tar is not GNU tar, which sorts what it packs"
git rev-parse --verify -q HEAD >/dev/null || refuse "this is not a checkout of git: the release would have no time"
dirty=$(git status --porcelain)
[ -z "$dirty" ] || refuse "the checkout is not clean; commit, stash or remove:"$'\n'"$dirty"
if tagged=$(git rev-parse --verify -q "refs/tags/$version^{commit}") && [ "$tagged" != "$(git rev-parse HEAD)" ]; then
	refuse "the tag $version is another commit: git checkout $version"
fi
[ ! -e "$out" ] || { [ -d "$out" ] && [ -z "$(ls -A "$out")" ]; } || refuse "$out is there and not an empty directory"

# Settings of this machine and its user must not affect the files.
umask 022
export TZ=UTC LC_ALL=C
for name in GOPROXY GOSUMDB GOPRIVATE GONOPROXY GONOSUMDB GOINSECURE GOCACHE GOMODCACHE; do # where modules are
	export "$name=$(go env "$name")"
done
export GOENV=off
export CGO_ENABLED=0 GOWORK=off GOFLAGS= GOEXPERIMENT= GOFIPS140=off GOAMD64=v1 GOARM64=v8.0 GODEBUG=
unset TAR_OPTIONS GZIP ZIP ZIPOPT
GOTOOLCHAIN=$(go mod edit -json | jq -r '.Toolchain // ("go" + .Go)')
export GOTOOLCHAIN
epoch=${SOURCE_DATE_EPOCH:-$(git -c log.showSignature=false log -1 --format=%ct)}

parent=$(dirname "$out")
mkdir -p "$parent"
parent=$(cd "$parent" && pwd)
out=$parent/$(basename "$out")
work=$(mktemp -d "$parent/.release.XXXXXX") # beside OUTDIR, so that this is there at once or not at all
trap 'rm -rf "$work"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$work/dist"

mains=()
while read -r path; do mains+=("$path"); done < <(go list -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' ./cmd/... | grep .)
[ ${#mains[@]} -gt 0 ] || refuse "go list names no program under ./cmd"

# stamp DIR sets the times of all files in DIR to the release's time.
stamp() { find "$1" -exec touch --no-dereference --date="@$epoch" {} +; }

# archive DIR packs the working directory's DIR in a fixed order.
archive() {
	if [[ $1 == *_windows_* ]]; then
		find "$1" -type f | sort | zip -q -X -9 "$work/dist/$1.zip" -@
		return
	fi
	tar --create --format=ustar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" "$1" |
		gzip -n -9 >"$work/dist/$1.tar.gz"
}

# bom DIR lists the modules of the programs in DIR, as recorded in them by Go.
bom() {
	find "$1" -maxdepth 1 -type f -perm -u+x | sort | xargs go version -m -json | jq --slurp \
		--arg name "$1" --arg version "$version" --argjson epoch "$epoch" '
		def purl: "pkg:golang/" + .name + "@" + (.version | @uri);
		def library: {type: "library", "bom-ref": purl, name, version, purl: purl};
		{
			bomFormat: "CycloneDX", specVersion: "1.6", version: 1,
			metadata: {
				timestamp: ($epoch | todate),
				component: {
					type: "application", "bom-ref": $name, name: $name, version: $version,
					purl: ({name: .[0].Main.Path, version: $version} | purl),
					licenses: [{license: {id: "Apache-2.0"}}]
				}
			},
			components: ([
				({name: "std", version: (.[0].GoVersion | ltrimstr("go"))} | library),
				(.[].Deps[]? | .Replace // . | {name: .Path, version: .Version} | library)
			] | unique_by(.purl))
		}' >"$work/dist/$1.cdx.json"
}

# krew NAME adds the archive of NAME to the manifest for kubectl's plugin manager.
krew() {
	local file=$1.tar.gz program=regcred
	[ "$GOOS" != windows ] || file=$1.zip program=regcred.exe
	cat <<-END
		    - selector:
		        matchLabels: {os: $GOOS, arch: $GOARCH}
		      uri: https://github.com/regcred/regcred/releases/download/$version/$file
		      sha256: $(sha256sum "$work/dist/$file" | cut -d ' ' -f 1)
		      bin: $program
		      files:
		        - {from: $1/$program, to: .}
		        - {from: $1/LICENSE, to: .}
	END
}

# image packs the programs in image/ARCH, which are the same as in the archives.
image() {
	local arch args=()
	for arch in amd64 arm64; do
		[ -d "$work/image/$arch" ] || continue
		args+=(-programs "linux/$arch=$work/image/$arch" -bom "linux/$arch=$work/dist/regcred_${version#v}_linux_$arch.cdx.json")
	done
	[ ${#args[@]} -gt 0 ] || return 0
	echo "$1" >&2
	go run -trimpath -buildvcs=false ./internal/image/build -version "$version" -revision "$(git rev-parse HEAD)" -time "$epoch" \
		"${args[@]}" -o "$work/dist/$1.tar" >&2
}

# name_release DIR sets the release's version in a copy of deploy/: in the charts and in the
# manifests rendered from it. An image tag must not contain a plus sign.
name_release() {
	sed -i "s/^version: 0\.0\.0$/version: ${version#v}/; s/^appVersion: v0\.0\.0$/appVersion: $version/" "$1/chart/Chart.yaml" "$1"/charts/*/Chart.yaml
	sed -i "s/v0\.0\.0/${version//+/_}/" "$1/manifests/regcred.yaml"
}

# chart NAME packs the chart like helm package, in a directory with the chart's name.
chart() {
	echo "$1" >&2
	mkdir "$work/chart"
	cp -R deploy "$work/chart/"
	name_release "$work/chart/deploy"
	mv "$work/chart/deploy/chart" "$work/chart/regcred"
	cp LICENSE "$work/chart/regcred/"
	find "$work/chart/regcred" -type f -exec chmod 644 {} +
	stamp "$work/chart/regcred"
	tar --create --format=ustar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" -C "$work/chart" regcred |
		gzip -n -9 >"$work/dist/$1.tgz"
	rm -r "${work:?}/chart"
}

sed "/^#/d; s/: VERSION$/: $version/" deploy/kubectl/krew.yaml >"$work/dist/regcred.yaml"
for target in "${targets[@]}"; do
	export GOOS=${target%/*} GOARCH=${target#*/}
	name=regcred_${version#v}_${GOOS}_${GOARCH}
	echo "$name" >&2
	mkdir "$work/$name"
	# The version that Go would record from git depends on a clone's tags and depth.
	go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$version" -o "$work/$name/" "${mains[@]}"
	(cd "$work/$name" && sha256sum -- * >SHA256SUMS)
	cp LICENSE README.md "$work/$name/"
	chmod 644 "$work/$name/LICENSE" "$work/$name/README.md" "$work/$name/SHA256SUMS"
	if [ "$GOOS" = linux ]; then # as nodes are
		cp -R deploy "$work/$name/"
		name_release "$work/$name/deploy"
		find "$work/$name/deploy" -perm -u+x -exec chmod 755 {} + -o -exec chmod 644 {} +
	fi
	stamp "$work/$name"
	(cd "$work" && bom "$name" && archive "$name")
	krew "$name" >>"$work/dist/regcred.yaml"
	case $target in
	linux/amd64 | linux/arm64) mkdir -p "$work/image" && mv "$work/$name" "$work/image/$GOARCH" ;;
	*) rm -r "${work:?}/$name" ;;
	esac
done

# The programs for this machine create the remaining files.
unset GOOS GOARCH
image "regcred-image_${version#v}"
chart "regcred-chart_${version#v}"

# The playground is for browsers.
name=regcred-playground_${version#v}
echo "$name" >&2
go run -trimpath -buildvcs=false ./docs/playground -version "$version" -o "$work/$name"
cp LICENSE "$work/$name/"
chmod 644 "$work/$name"/*
stamp "$work/$name"
(cd "$work" && archive "$name")
rm -r "${work:?}/$name"

(cd "$work/dist" && sha256sum -- * >SHA256SUMS && du -bh -- * >&2)
[ ! -d "$out" ] || rmdir "$out"
mv "$work/dist" "$out"
