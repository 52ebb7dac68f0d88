// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package generate

import (
	"math/rand/v2"
	"strings"

	"github.com/regcred/regcred/upstream/corpus"
)

var requestScraps = []string{"/", ":", "\"", "\\", "<", ">", "&", "\u2028", "\u2029", "\x00", "\x1f", "\x7f", "\xff", "é", "\U0001f433", "\n", "\t", "\ufffd", "\xed\xa0\x80"}

// Request generates a request to a plugin.
func Request(r *rand.Rand) corpus.Request {
	text := func() string { return Mutate(r, Pick(r, []string{"registry.io/app", "a", ""}), requestScraps) }
	req := corpus.Request{APIVersion: Pick(r, corpus.Versions), Image: corpus.Text(text())}
	if One(r, 2) {
		req.Token = text()
	}
	if One(r, 2) {
		req.Annotations = map[string]string{}
		for range r.IntN(4) {
			req.Annotations[text()] = text()
		}
	}
	return req
}

var responseScraps = []string{
	"{", "}", "[", "]", ",", ":", "\"", "\\", "null", "true", "0", "-1", "1e9", "\"1h\"", "\"0s\"", "\"-5m\"", "\\u0061", "\\ud800", "\\n", "\x00", "\x1f", "\xff", "\xed\xa0\x80", "é",
	" ", "\n", "\t", "\ufeff", "---\n", "#", "//", "\"auth\":", "\"Auth\":", "\"kind\":", "\"apiVersion\":", "\"cacheDuration\":", "\"username\":", "\"password\":\"x\",", "\"x\":1,", "\"auth\":null,",
	"Registry", "Global", "v1", "v1beta1", "v1alpha1",
}

// Outputs returns the corpus's responses below 2 KB.
func Outputs() (out []string) {
	for _, r := range corpus.Responses() {
		if len(r.Output) < 2000 && r.Output != "" {
			out = append(out, string(r.Output))
		}
	}
	return out
}

// Response changes one of the outputs, usually a good one.
func Response(r *rand.Rand, good, all []string) corpus.Response {
	output, version := Mostly(r, 3, good, all), corpus.Versions[0]
	if One(r, 5) {
		version = Pick(r, corpus.Versions)
		output = strings.Replace(output, corpus.Versions[0], version, 1)
	}
	for range max(0, r.IntN(4)-1) {
		output = Mutate(r, output, responseScraps)
	}
	return corpus.Response{APIVersion: version, Output: corpus.Text(output)}
}
