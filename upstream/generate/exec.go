// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package generate

import (
	"math/rand/v2"
	"strings"

	"github.com/regcred/regcred/upstream/corpus"
)

var requestFragments = []string{"/", ":", "\"", "\\", "<", ">", "&", "\u2028", "\u2029", "\x00", "\x1f", "\x7f", "\xff", "é", "\U0001f433", "\n", "\t", "\ufffd", "\xed\xa0\x80"}

// RandomRequest generates a request to a plugin.
func RandomRequest(r *rand.Rand) corpus.Request {
	text := func() string {
		return MutateBytes(r, PickElement(r, []string{"registry.io/app", "a", ""}), requestFragments)
	}
	req := corpus.Request{APIVersion: PickElement(r, corpus.Versions), Image: corpus.RawString(text())}
	if OneIn(r, 2) {
		req.Token = text()
	}
	if OneIn(r, 2) {
		req.Annotations = map[string]string{}
		for range r.IntN(4) {
			req.Annotations[text()] = text()
		}
	}
	return req
}

var pluginResponseFragments = []string{
	"{", "}", "[", "]", ",", ":", "\"", "\\", "null", "true", "0", "-1", "1e9", "\"1h\"", "\"0s\"", "\"-5m\"", "\\u0061", "\\ud800", "\\n", "\x00", "\x1f", "\xff", "\xed\xa0\x80", "é",
	" ", "\n", "\t", "\ufeff", "---\n", "#", "//", "\"auth\":", "\"Auth\":", "\"kind\":", "\"apiVersion\":", "\"cacheDuration\":", "\"username\":", "\"password\":\"x\",", "\"x\":1,", "\"auth\":null,",
	"Registry", "Global", "v1", "v1beta1", "v1alpha1",
}

// SmallResponses returns the corpus's responses below 2 KB.
func SmallResponses() (out []string) {
	for _, r := range corpus.Responses() {
		if len(r.Output) < 2000 && r.Output != "" {
			out = append(out, string(r.Output))
		}
	}
	return out
}

// MutateResponse changes one of the outputs. In most cases it chooses an output in good.
func MutateResponse(r *rand.Rand, good, all []string) corpus.Response {
	output, version := PickMostlyFrom(r, 3, good, all), corpus.Versions[0]
	if OneIn(r, 5) {
		version = PickElement(r, corpus.Versions)
		output = strings.Replace(output, corpus.Versions[0], version, 1)
	}
	for range max(0, r.IntN(4)-1) {
		output = MutateBytes(r, output, pluginResponseFragments)
	}
	return corpus.Response{APIVersion: version, Output: corpus.RawString(output)}
}
