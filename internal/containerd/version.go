// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package containerd

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strconv"

	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/tomlfile"
)

// Version is a release of containerd. The zero Version is one that is not known.
type Version struct{ Major, Minor, Patch int }

var releases = regexp.MustCompile(`(?:^|[^.\d])(\d{1,2})\.(\d{1,3})\.(\d{1,3})(?:[^.\d]|$)`)

// ParseVersion finds a release in what a containerd says of itself: "v2.1.4",
// "1.6.20~ds1", "v1.7.23-k3s2". It is the zero Version if there is none.
func ParseVersion(text string) (v Version) {
	if m := releases.FindStringSubmatch(text); m != nil {
		v.Major, _ = strconv.Atoi(m[1]) // of digits, and short
		v.Minor, _ = strconv.Atoi(m[2])
		v.Patch, _ = strconv.Atoi(m[3])
	}
	return v
}

// Known reports whether it is known.
func (v Version) Known() bool { return v != Version{} }

func (v Version) String() string {
	if !v.Known() {
		return ""
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
}

// atLeast compares releases.
func (v Version) atLeast(major, minor, patch int) bool {
	return cmp.Or(cmp.Compare(v.Major, major), cmp.Compare(v.Minor, minor), cmp.Compare(v.Patch, patch)) >= 0
}

// What differs between releases, as their sources and the tests in upstream/mirrors
// have it.
func (v Version) two() bool          { return v.Major >= 2 }                              // imports are merged key by key; a server without a host table counts
func (v Version) referrers() bool    { return v.atLeast(2, 2, 0) }                        // a capability
func (v Version) dialTimeout() bool  { return v.atLeast(2, 1, 0) }                        // a key
func (v Version) defaultCerts() bool { return v.atLeast(2, 2, 0) }                        // config_path has a default
func (v Version) fourth() bool       { return v.atLeast(2, 3, 0) }                        // the version of files; those of version 3 are migrated
func (v Version) httpsFirst() bool   { return v.atLeast(1, 7, 0) }                        // of an http host with settings for TLS, and of loopback
func (v Version) transfer() bool     { return v.atLeast(2, 1, 0) }                        // images are pulled by the transfer service
func (v Version) oneRoot() bool      { return v.atLeast(2, 1, 0) && !v.atLeast(2, 4, 3) } // which takes config_path for one directory

// reader reads a file as the parser does that a release has.
func (v Version) reader() func(context.Context, inroot.FS, string) (*tomlfile.File, error) {
	if v.two() {
		return tomlfile.Read
	}
	return tomlfile.ReadOld
}

// releasesApart are releases of which each reads files in another way than the
// former, the newest last.
func releasesApart() []Version {
	return []Version{{1, 6, 20}, {1, 7, 29}, {2, 0, 0}, {2, 1, 0}, {2, 2, 0}, {2, 4, 2}, {2, 4, 3}}
}

// Releases are those for which a configuration may be: the one that is known, or
// one of each kind that takes files of that version.
func (r *Runtime) Releases() (list []Version) {
	if r.Version.Known() {
		return []Version{r.Version}
	}
	for _, v := range releasesApart() {
		if r.format <= 2 || v.fourth() || r.format == 3 && v.two() {
			list = append(list, v)
		}
	}
	return list
}
