// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package generate

import (
	"math/rand/v2"
	"strings"

	"github.com/regcred/regcred/upstream/corpus"
)

var (
	labels = []string{"a", "b", "io", "com", "registry", "gcr", "dkr", "ecr", "us-east-1", "123", "x_y", "é", ""}
	paths  = []string{"a", "b", "team", "team-evil", "app", "a.b", "x_y", ""}
	ports  = []string{"", "", "", "", "", "", ":5000", ":5000", ":5000", ":443", ":443", ":", ":", ":80:80", ":x"}
	// scraps are characters and fragments for unexpected places in a pattern.
	scraps = []string{"*", "?", "[", "]", "[a-z]", "[^a]", "\\", "%61", "%2F", "%zz", "%", "@", "u@", "u:p@", "?q", "#f", ":", "/", "//", ".", "..", " ", "\x00", "\x7f", "\n", "\xff", "é", "https://", "[::1]", "[fe80::1%25en0]", "[::1", "A", "&", ";", "+", "<", "\"", "|", "^", "`", "{", "~", "-", "_", "5000"}
)

// Image generates the name of an image. Some names are not valid repositories.
func Image(r *rand.Rand) string {
	var host []string
	for range 1 + r.IntN(4) {
		host = append(host, Pick(r, labels))
	}
	s := strings.Join(host, ".") + Pick(r, ports)
	if One(r, 20) {
		s = Pick(r, []string{"[::1]", "[::1]:5000", "[2001:db8::1]:443", "localhost", "localhost:5000", "10.0.0.7:5000"})
	}
	for range r.IntN(4) {
		s += "/" + Pick(r, paths)
	}
	return s
}

// Near converts an image to a pattern that matches it, or nearly does.
func Near(r *rand.Rand, image string) string {
	host, path, slash := strings.Cut(image, "/")
	list := strings.Split(host, ".")
	for i := range list {
		if One(r, 2) {
			list[i] = nearLabel(r, list[i])
		}
	}
	switch r.IntN(12) {
	case 0:
		list = append(list, Pick(r, labels))
	case 1:
		list = list[1:]
	case 2:
		list = append([]string{"*"}, list...)
	}
	s := strings.Join(list, ".")
	if One(r, 10) {
		s += Pick(r, ports)
	}
	if slash && One(r, 2) {
		s += "/" + path[:r.IntN(len(path)+1)]
	}
	if One(r, 12) {
		s += "/" + Pick(r, paths)
	}
	return s
}

func nearLabel(r *rand.Rand, label string) string {
	if len(label) == 0 {
		return Pick(r, []string{"*", "?", ""})
	}
	at := r.IntN(len(label))
	switch r.IntN(8) {
	case 0:
		return "*"
	case 1:
		return label[:at] + "*"
	case 2:
		return "*" + label[at:]
	case 3:
		return label[:at] + "?" + label[at+1:]
	case 4:
		return label[:at] + "[" + label[at:at+1] + "-z]" + label[at+1:]
	case 5:
		return label[:at] + "*" + label[at:]
	case 6:
		return label[:at] + "\\" + label[at:]
	}
	return strings.ToUpper(label)
}

// Match generates an image and a pattern that matches it, or nearly does.
func Match(r *rand.Rand) corpus.Pair {
	target := Image(r)
	pattern := Near(r, target)
	if One(r, 5) {
		pattern = Mutate(r, pattern, scraps)
	}
	if One(r, 8) {
		target = Mutate(r, target, scraps)
	}
	return corpus.Pair{Pattern: corpus.Text(pattern), Image: corpus.Text(target)}
}

var referenceScraps = []string{":", "@", "/", ".", "_", "__", "-", "--", ":latest", "@sha256:", strings.Repeat("0a", 32), "docker.io/", "index.docker.io/", "library/", "localhost/", "A", " ", "[::1]:5000/", ":5000/", strings.Repeat("a", 120), strings.Repeat("a/", 60), "%", "é"}

// Reference generates a raw image reference, or changes one from the list.
func Reference(r *rand.Rand, list []string) string {
	ref := Pick(r, list)
	if One(r, 2) {
		ref = Image(r)
	}
	for range r.IntN(3) {
		ref = Mutate(r, ref, referenceScraps)
	}
	return ref
}
