// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import "strings"

// Registry returns the host of the image, with its port: what the keys of an
// answer with [CacheRegistry] begin with. It is everything before the first
// slash, as a kubelet has it, and keeps its case.
//
// A kubelet sends an image without scheme, tag and digest. Those are cut off
// all the same, for plugins that are tried by hand. It is "" if the image does
// not begin with a host.
func (r *Request) Registry() string {
	scheme, image, found := strings.Cut(r.Image, "://")
	if !found || strings.Contains(scheme, "/") {
		image = r.Image
	}
	host, _, hasPath := strings.Cut(image, "/")
	if !hasPath {
		host = withoutTag(host)
	}
	name := host
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		if name = host[:i]; !isPort(host[i+1:]) {
			return ""
		}
	}
	if address, ok := strings.CutPrefix(name, "["); ok {
		if name, ok = strings.CutSuffix(address, "]"); !ok || strings.Trim(name, "0123456789abcdefABCDEF:.") != "" {
			return ""
		}
		return host
	}
	if name == "" || strings.ContainsFunc(name, notInName) {
		return ""
	}
	return host
}

// withoutTag cuts tag and digest off. What may be a port is one.
func withoutTag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, ']') && !isPort(image[i+1:]) {
		return image[:i]
	}
	return image
}

func isPort(s string) bool {
	return s != "" && len(s) <= 5 && strings.Trim(s, "0123456789") == ""
}

// notInName reports what the name of a host does not hold.
func notInName(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune(".-_", r)
}
