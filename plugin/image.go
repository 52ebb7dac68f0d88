// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import "strings"

// Registry returns the host and port of the image, in their original case. As in the kubelet,
// this is everything before the first slash. Registry returns "" if the image does not start
// with a host.
//
// The kubelet sends images without scheme, tag and digest. Registry ignores these parts, so
// that plugins can also be run manually.
func (r *Request) Registry() string {
	scheme, image, found := strings.Cut(r.Image, "://")
	if !found || strings.Contains(scheme, "/") {
		image = r.Image
	}
	host, _, hasPath := strings.Cut(image, "/")
	if !hasPath {
		host = trimTag(host)
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
	if name == "" || !consistsOf(name, letters+digits+".-_") {
		return ""
	}
	return host
}

// trimTag removes the tag and digest. It keeps a suffix of digits that may be a port.
func trimTag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, ']') && !isPort(image[i+1:]) {
		return image[:i]
	}
	return image
}

func isPort(s string) bool {
	return s != "" && len(s) <= 5 && strings.Trim(s, "0123456789") == ""
}
