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

// Version is a version of containerd. The zero Version means that it is unknown.
type Version struct{ Major, Minor, Patch int }

// ParseVersion finds a version in the output of containerd: "v2.1.4", "1.6.20~ds1",
// "v1.7.23-k3s2". It returns the zero Version if there is none.
func ParseVersion(text string) (v Version) {
	number := regexp.MustCompile(`(?:^|[^.\d])(\d{1,2})\.(\d{1,3})\.(\d{1,3})(?:[^.\d]|$)`)
	if m := number.FindStringSubmatch(text); m != nil {
		v.Major, _ = strconv.Atoi(m[1]) // at most three digits
		v.Minor, _ = strconv.Atoi(m[2])
		v.Patch, _ = strconv.Atoi(m[3])
	}
	return v
}

// Known reports whether the version is known.
func (v Version) Known() bool { return v != Version{} }

func (v Version) String() string {
	if !v.Known() {
		return ""
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
}

// atLeast reports whether v is that version or a later one.
func (v Version) atLeast(major, minor, patch int) bool {
	return cmp.Or(cmp.Compare(v.Major, major), cmp.Compare(v.Minor, minor), cmp.Compare(v.Patch, patch)) >= 0
}

// Differences between releases, from their sources and the tests in upstream/mirrors.

func (v Version) two() bool          { return v.Major >= 2 }                              // merges imports key by key; needs no host table after a server
func (v Version) referrers() bool    { return v.atLeast(2, 2, 0) }                        // has this capability
func (v Version) dialTimeout() bool  { return v.atLeast(2, 1, 0) }                        // has this key
func (v Version) defaultCerts() bool { return v.atLeast(2, 2, 0) }                        // has a default for config_path
func (v Version) formatFour() bool   { return v.atLeast(2, 3, 0) }                        // reads config version 4, and migrates version 3
func (v Version) httpsFirst() bool   { return v.atLeast(1, 7, 0) }                        // tries HTTPS for loopback hosts and for http hosts with TLS settings
func (v Version) transfer() bool     { return v.atLeast(2, 1, 0) }                        // pulls through the transfer service
func (v Version) oneDirectory() bool { return v.atLeast(2, 1, 0) && !v.atLeast(2, 4, 3) } // whose config_path is one directory, even with a colon

// parser returns the function that reads a TOML file as the release does.
func (v Version) parser() func(context.Context, inroot.FS, string) (*tomlfile.File, error) {
	if v.two() {
		return tomlfile.Read
	}
	return tomlfile.ReadOld
}

// newest is the newest release whose behaviour was compared with this package.
func newest() Version { return Version{2, 4, 3} }

// release returns the runtime's version or, if it is unknown, the newest one.
func (r *Runtime) release() Version {
	if r.Version.Known() {
		return r.Version
	}
	return newest()
}
