// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/kubernetes/pkg/credentialprovider"

	"github.com/regcred/regcred"
)

// LookupErr returns why providers had no credentials in the last Lookup of a keyring from
// [NewExternalCredentialProviderDockerKeyring]. It returns nil if no provider failed. Other
// providers or keyrings may still have credentials, so callers should not fail because of this
// error. The error is one short line without secrets.
func LookupErr(keyring credentialprovider.DockerKeyring) error {
	if k, ok := keyring.(*podKeyring); ok {
		if failure := k.failure.Load(); failure != nil {
			return failure
		}
	}
	return nil
}

// WithLookupErr appends an error from [LookupErr] to the error of a pull. It returns nil if pull is
// nil.
func WithLookupErr(pull, lookup error) error {
	if pull == nil || lookup == nil {
		return pull
	}
	return fmt.Errorf("%w; %w", pull, lookup)
}

// lookupFailure is an error that fits in one line of a pod's events and status.
type lookupFailure string

func (e lookupFailure) Error() string { return string(e) }

// maxFailureLength limits the error's length in bytes. While a pod waits, its status contains this
// error after the runtime's error. For a rejected pull, the runtime's error has about 400 bytes.
const maxFailureLength = 480

// minReasonLength is the number of bytes that each reason gets at least, as long as there is room.
const minReasonLength = 100

// newLookupFailure returns why providers failed in a lookup, or nil. If there are no credentials,
// it also includes skipped providers, because the service account may be the cause.
func newLookupFailure(res *regcred.Result, err error) *lookupFailure {
	var why []string
	for i := range res.Attempts {
		switch a := &res.Attempts[i]; {
		case a.Err != nil:
			why = append(why, a.Err.Error())
		case a.Skipped != "" && len(res.Credentials) == 0 && !isSkippedForPath(a):
			why = append(why, fmt.Sprintf("provider %q was not run: %s", a.Provider, a.Skipped))
		}
	}
	if isCanceled(err) {
		why = append(why, err.Error())
	}
	if why == nil {
		return nil
	}
	const before, between = "image credential providers: ", "; "
	most := max(maxSharedLength(why, maxFailureLength-len(before)-len(between)*(len(why)-1)), minReasonLength)
	for i := range why {
		why[i] = truncateToLine(why[i], most)
	}
	return new(lookupFailure(truncateToLine(before+strings.Join(why, between), maxFailureLength)))
}

// isCanceled reports whether a lookup failed with an error that does not come from its providers.
func isCanceled(err error) bool {
	_, failed := errors.AsType[*regcred.LookupError](err)
	return err != nil && !failed
}

// maxSharedLength returns the maximum length of each text with which all texts fit into room. Short
// texts leave their unused room to longer ones.
func maxSharedLength(texts []string, room int) (most int) {
	lengths := make([]int, len(texts))
	for i := range texts {
		lengths[i] = len(texts[i])
	}
	slices.Sort(lengths)
	for i, n := range lengths {
		most = room / (len(lengths) - i)
		if n > most {
			break
		}
		room -= n
	}
	return most
}

// isSkippedForPath reports whether a provider was skipped because its patterns match only other
// images of the registry.
func isSkippedForPath(a *regcred.Attempt) bool { return a.Skipped == regcred.SkippedPath }

// truncateToLine returns text as a single line of at most the given number of bytes.
func truncateToLine(text string, most int) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	if len(text) <= most {
		return text
	}
	const cut = "…"
	end := most - len(cut)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + cut
}
