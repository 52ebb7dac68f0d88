// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package entries derives regcred's provider entries in a kubelet's
// CredentialProviderConfig. There is one entry for each distinct tokenAttributes,
// and all of them run the dispatcher. The package also finds the patterns that a
// kubelet's current entries do not cover, and adds the entries to a file that has
// other providers.
//
//	want, err := entries.Derive(generation.Providers, entries.Options{Known: known})
//	…
//	if gaps := entries.FindGaps(inMemory, want); len(gaps) > 0 { // needs a kubelet restart
//	…
//	data, err = entries.SetEntries(path, data, want, previous)
//
// It opens no files. Its functions and values are safe for concurrent use. An error
// at a position in a file is a [*config.FieldError].
package entries

import (
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/regcred/regcred/config"
)

// DispatcherName is the name of the first entry. Later entries have the suffixes -2, -3, …. It
// is also the dispatcher's file name in the kubelet's bin dir, because the dispatcher
// identifies the entry by the name under which it runs.
const DispatcherName = "regcred-credential-provider"

// ownNamePattern matches the names of regcred's entries.
var ownNamePattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^` + DispatcherName + `(-([2-9]|[1-9][0-9]{1,5}))?$`)
}) // compiled on first use, because the dispatcher starts often

// Entry is an entry of a kubelet's configuration that runs the dispatcher. Its args and env
// are empty, and responses that set no duration are not cached. Manifests contain it as
// JSON.
type Entry struct {
	Name            string                  `json:"name"`
	APIVersion      string                  `json:"apiVersion"` // version of the exec protocol
	MatchImages     []string                `json:"matchImages"`
	TokenAttributes *config.TokenAttributes `json:"tokenAttributes,omitempty"` // nil means no tokens
}

// Provider returns e as the provider that the kubelet reads. The result shares e's lists.
func (e *Entry) Provider() config.Provider {
	return config.Provider{
		Name: e.Name, APIVersion: e.APIVersion, MatchImages: e.MatchImages,
		DefaultCacheDuration: new(time.Duration(0)), TokenAttributes: e.TokenAttributes,
	}
}

// Serves reports whether the dispatcher may run a provider for e. Their tokenAttributes
// must be equivalent, so that the provider gets no token or annotation meant for another
// provider.
func (e *Entry) Serves(p *config.Provider) bool {
	return equivalentTokens(e.TokenAttributes, p.TokenAttributes)
}

// equivalentTokens reports whether the kubelet treats a and b the same.
//
// kubelet: looks up annotation keys one by one and stores them in a map, so their order
// only determines which missing key is logged.
func equivalentTokens(a, b *config.TokenAttributes) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ServiceAccountTokenAudience == b.ServiceAccountTokenAudience && a.CacheType == b.CacheType &&
		equalBoolPointers(a.RequireServiceAccount, b.RequireServiceAccount) &&
		isSameSet(a.RequiredServiceAccountAnnotationKeys, b.RequiredServiceAccountAnnotationKeys) &&
		isSameSet(a.OptionalServiceAccountAnnotationKeys, b.OptionalServiceAccountAnnotationKeys)
}

func equalBoolPointers(a, b *bool) bool { return a == b || a != nil && b != nil && *a == *b }

func isSameSet(a, b []string) bool {
	return slices.Equal(slices.Compact(slices.Sorted(slices.Values(a))), slices.Compact(slices.Sorted(slices.Values(b))))
}

// IsOwnName reports whether a provider's name is a name that regcred gives its entries.
func IsOwnName(name string) bool { return entryNumber(name) > 0 }

// entryNumber returns the number in an entry's name: 1 for the first entry, 0 for other
// names.
func entryNumber(name string) int {
	m := ownNamePattern().FindStringSubmatch(name)
	switch {
	case m == nil:
		return 0
	case m[2] == "":
		return 1
	}
	n, _ := strconv.Atoi(m[2])
	return n
}

// NumberedName returns the name of the entry with the given number, starting at 1.
func NumberedName(n int) string {
	if n == 1 {
		return DispatcherName
	}
	return DispatcherName + "-" + strconv.Itoa(n)
}
