// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package generate

import (
	"math/rand/v2"
	"strings"

	"github.com/regcred/regcred/upstream/corpus"
)

var (
	sampleLabels = []string{"a", "b", "io", "com", "registry", "gcr", "dkr", "ecr", "us-east-1", "123", "x_y", "é", ""}
	samplePaths  = []string{"a", "b", "team", "team-evil", "app", "a.b", "x_y", ""}
	samplePorts  = []string{"", "", "", "", "", "", ":5000", ":5000", ":5000", ":443", ":443", ":", ":", ":80:80", ":x"}
	// patternFragments are characters and fragments that are inserted anywhere in a pattern.
	patternFragments = []string{"*", "?", "[", "]", "[a-z]", "[^a]", "\\", "%61", "%2F", "%zz", "%", "@", "u@", "u:p@", "?q", "#f", ":", "/", "//", ".", "..", " ", "\x00", "\x7f", "\n", "\xff", "é", "https://", "[::1]", "[fe80::1%25en0]", "[::1", "A", "&", ";", "+", "<", "\"", "|", "^", "`", "{", "~", "-", "_", "5000"}
)

// RandomImage generates the name of an image. Some names are not valid repositories.
func RandomImage(r *rand.Rand) string {
	var host []string
	for range 1 + r.IntN(4) {
		host = append(host, PickElement(r, sampleLabels))
	}
	s := strings.Join(host, ".") + PickElement(r, samplePorts)
	if OneIn(r, 20) {
		s = PickElement(r, []string{"[::1]", "[::1]:5000", "[2001:db8::1]:443", "localhost", "localhost:5000", "10.0.0.7:5000"})
	}
	for range r.IntN(4) {
		s += "/" + PickElement(r, samplePaths)
	}
	return s
}

// RandomPatternFor converts an image to a pattern that matches it, or nearly does.
func RandomPatternFor(r *rand.Rand, image string) string {
	host, path, slash := strings.Cut(image, "/")
	list := strings.Split(host, ".")
	for i := range list {
		if OneIn(r, 2) {
			list[i] = labelPattern(r, list[i])
		}
	}
	switch r.IntN(12) {
	case 0:
		list = append(list, PickElement(r, sampleLabels))
	case 1:
		list = list[1:]
	case 2:
		list = append([]string{"*"}, list...)
	}
	s := strings.Join(list, ".")
	if OneIn(r, 10) {
		s += PickElement(r, samplePorts)
	}
	if slash && OneIn(r, 2) {
		s += "/" + path[:r.IntN(len(path)+1)]
	}
	if OneIn(r, 12) {
		s += "/" + PickElement(r, samplePaths)
	}
	return s
}

func labelPattern(r *rand.Rand, label string) string {
	if len(label) == 0 {
		return PickElement(r, []string{"*", "?", ""})
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

// RandomMatchCase generates an image and a pattern that matches it, or nearly does.
func RandomMatchCase(r *rand.Rand) corpus.MatchCase {
	target := RandomImage(r)
	pattern := RandomPatternFor(r, target)
	if OneIn(r, 5) {
		pattern = MutateBytes(r, pattern, patternFragments)
	}
	if OneIn(r, 8) {
		target = MutateBytes(r, target, patternFragments)
	}
	return corpus.MatchCase{Pattern: corpus.RawString(pattern), Image: corpus.RawString(target)}
}

var referenceFragments = []string{":", "@", "/", ".", "_", "__", "-", "--", ":latest", "@sha256:", strings.Repeat("0a", 32), "docker.io/", "index.docker.io/", "library/", "localhost/", "A", " ", "[::1]:5000/", ":5000/", strings.Repeat("a", 120), strings.Repeat("a/", 60), "%", "é"}

// RandomReference generates a raw image reference, or changes one from the list.
func RandomReference(r *rand.Rand, list []string) string {
	ref := PickElement(r, list)
	if OneIn(r, 2) {
		ref = RandomImage(r)
	}
	for range r.IntN(3) {
		ref = MutateBytes(r, ref, referenceFragments)
	}
	return ref
}
