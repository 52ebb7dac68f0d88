// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"
)

// mirror says that what begins with source is pulled from a registry.
type mirror struct {
	source string // a host, or a host and a path
	host   string // of the registry
}

// mirrors are in the order in which they are looked at: the longest first.
type mirrors []mirror

// parseMirrors reads "SOURCE:TARGET" and "SOURCE=TARGET", separated by commas.
// As upstream does, it leaves out what is neither, and says so.
func parseMirrors(lists []string, log *slog.Logger) mirrors {
	var all mirrors
	for _, list := range lists {
		for entry := range strings.SplitSeq(list, ",") {
			if entry = strings.Join(strings.Fields(entry), ""); entry == "" {
				continue
			}
			m, ok := parseMirror(entry)
			if !ok {
				log.Warn("a registry mirror is left out, since it is not SOURCE:TARGET or SOURCE=TARGET", "mirror", entry)
				continue
			}
			all = append(all, m)
		}
	}
	slices.SortStableFunc(all, func(a, b mirror) int { return cmp.Compare(len(b.source), len(a.source)) })
	return all
}

func parseMirror(entry string) (mirror, bool) {
	source, target, ok := strings.Cut(entry, "=")
	if !ok {
		if strings.Count(entry, ":") != 1 {
			return mirror{}, false // a port has to be written with "="
		}
		source, target, _ = strings.Cut(entry, ":")
	}
	host, _, _ := strings.Cut(target, "/")
	source = strings.TrimRight(source, "/")
	return mirror{source, host}, source != "" && host != "" && !strings.Contains(source+host, "=")
}

// divide reports whether a mirror serves a part of the host's images, so that
// the answer for one of them may be wrong for another.
func (all mirrors) divide(host string) bool {
	return slices.ContainsFunc(all, func(m mirror) bool { return strings.HasPrefix(m.source, host+"/") })
}

// covers reports whether the image begins with the source and whether that
// ends where a name in the image does.
func (m mirror) covers(image string) bool {
	rest, ok := strings.CutPrefix(image, m.source)
	switch {
	case !ok:
		return false
	case rest == "" || rest[0] == '/' || rest[0] == '@':
		return true
	}
	return rest[0] == ':' && strings.Contains(m.source, "/") // a tag; after a host, it is a port
}
