#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The regcred Authors
#
# Builds the files of a release:
#
#   ./release.sh VERSION OUTDIR      e.g. ./release.sh v1.2.3 dist
#
# For each platform an archive with every program under ./cmd, their checksums,
# LICENSE and README.md, and beside it the list of the modules that are linked
# in (CycloneDX, *.cdx.json); then SHA256SUMS over all of them. It needs no
# network once the modules are there. The same commit, version and Go release
# make the same bytes; the times in the files are those of the commit, or
# SOURCE_DATE_EPOCH.
set -euo pipefail
cd "$(dirname "$0")"

if [ $# -ne 2 ] || ! [[ $1 =~ ^v[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$ ]]; then
	sed -n '5,14s/^# \{0,1\}//p' "$0" >&2
	exit 2
fi
version=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
if [ -n "$(ls -A "$out")" ]; then
	echo "release.sh: $out is not empty" >&2
	exit 1
fi
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
export TZ=UTC LC_ALL=C CGO_ENABLED=0 GOWORK=off GOFLAGS=

mains=()
while read -r path; do mains+=("$path"); done < <(go list -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' ./cmd/... | grep .)

# stamp DIR gives everything in DIR the time of the release.
stamp() { find "$1" -exec touch --no-dereference --date="@$epoch" {} +; }

# archive DIR packs DIR of the working directory, in a fixed order.
archive() {
	if [[ $1 == *_windows_* ]]; then
		find "$1" -type f | sort | zip -q -X -9 "$out/$1.zip" -@
		return
	fi
	tar --create --format=ustar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" "$1" |
		gzip -n -9 >"$out/$1.tar.gz"
}

# bom DIR lists what the programs in DIR were built from, as Go recorded it in them.
bom() {
	find "$1" -type f -perm -u+x | sort | xargs go version -m -json | jq --slurp \
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
		}' >"$out/$1.cdx.json"
}

for target in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64; do
	export GOOS=${target%/*} GOARCH=${target#*/}
	name=regcred_${version#v}_${GOOS}_${GOARCH}
	echo "$name" >&2
	mkdir "$work/$name"
	go build -trimpath -ldflags "-s -w -X main.version=$version" -o "$work/$name/" "${mains[@]}"
	(cd "$work/$name" && sha256sum -- * >SHA256SUMS)
	cp LICENSE README.md "$work/$name/"
	chmod 644 "$work/$name/LICENSE" "$work/$name/README.md" "$work/$name/SHA256SUMS"
	stamp "$work/$name"
	(cd "$work" && bom "$name" && archive "$name")
done
(cd "$out" && sha256sum -- * >SHA256SUMS)
