// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import (
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/regcred/regcred/config"
)

// Name is that of the first entry; the others have -2, -3, … behind it. It is
// also the file name of the dispatcher in the kubelet's bin dir, which tells by
// the name under which it runs whose request it has.
const Name = "regcred-credential-provider"

// mark is what our names look like.
var mark = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^` + Name + `(-([2-9]|[1-9][0-9]{1,5}))?$`) }) // not before main: the dispatcher starts often

// Entry is one entry of a kubelet's configuration that names the dispatcher. An
// answer that says nothing of its duration is not kept, and there are neither
// args nor env. The JSON is for manifests.
type Entry struct {
	Name            string                  `json:"name"`
	APIVersion      string                  `json:"apiVersion"` // of the protocol
	MatchImages     []string                `json:"matchImages"`
	TokenAttributes *config.TokenAttributes `json:"tokenAttributes,omitempty"` // nil: no tokens
}

// Provider returns e as a kubelet reads it. It shares e's lists.
func (e *Entry) Provider() config.Provider {
	return config.Provider{
		Name: e.Name, APIVersion: e.APIVersion, MatchImages: e.MatchImages,
		DefaultCacheDuration: new(time.Duration(0)), TokenAttributes: e.TokenAttributes,
	}
}

// Serves reports whether a provider may be asked in the name of e: their
// tokenAttributes mean the same, so that it gets no token but one that was
// made for it, and with annotations that it asked for.
func (e *Entry) Serves(p *config.Provider) bool {
	return sameTokens(e.TokenAttributes, p.TokenAttributes)
}

// sameTokens reports whether a kubelet does the same for both.
//
// kubelet: the lists of annotation keys are looked up one by one into a map, so
// their order decides no more than which missing one a log names.
func sameTokens(a, b *config.TokenAttributes) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ServiceAccountTokenAudience == b.ServiceAccountTokenAudience && a.CacheType == b.CacheType &&
		required(a) == required(b) &&
		sameSet(a.RequiredServiceAccountAnnotationKeys, b.RequiredServiceAccountAnnotationKeys) &&
		sameSet(a.OptionalServiceAccountAnnotationKeys, b.OptionalServiceAccountAnnotationKeys)
}

// required is 1 or 0, or -1 if it is not said, which no kubelet takes.
func required(t *config.TokenAttributes) int {
	switch {
	case t.RequireServiceAccount == nil:
		return -1
	case *t.RequireServiceAccount:
		return 1
	}
	return 0
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Compact(slices.Sorted(slices.Values(a))), slices.Compact(slices.Sorted(slices.Values(b))))
}

// number is that of a name: 1 for the first, and 0 for what is none of ours.
func number(name string) int {
	m := mark().FindStringSubmatch(name)
	switch {
	case m == nil:
		return 0
	case m[2] == "":
		return 1
	}
	n, _ := strconv.Atoi(m[2])
	return n
}

// Numbered is the name of the entry with a number, from 1 on.
func Numbered(n int) string {
	if n == 1 {
		return Name
	}
	return Name + "-" + strconv.Itoa(n)
}
