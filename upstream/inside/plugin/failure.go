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

// LookupErr is why providers had no credentials in the last Lookup of a keyring that
// [NewExternalCredentialProviderDockerKeyring] made; nil if none failed. There
// may be credentials of other providers, or of other keyrings, so it fails
// nothing by itself. It has one short line, and no secret.
func LookupErr(keyring credentialprovider.DockerKeyring) error {
	if k, ok := keyring.(*podKeyring); ok {
		if failure := k.failure.Load(); failure != nil {
			return failure
		}
	}
	return nil
}

// WithLookupErr is the error of a pull, and what [LookupErr] returned for it behind
// that. A pull that did not fail has no error, whatever the providers did.
func WithLookupErr(pull, lookup error) error {
	if pull == nil || lookup == nil {
		return pull
	}
	return fmt.Errorf("%w; %w", pull, lookup)
}

// lookupFailure is one line for the events and the status of a pod.
type lookupFailure string

func (e lookupFailure) Error() string { return string(e) }

// maxFailure bounds a failure, in bytes. It stands in the status of a pod for as long
// as the pod waits, behind what the runtime says of a refused pull, some 400 bytes.
const maxFailure = 480

// minReason is what each reason has of that, as long as there is room.
const minReason = 100

// failureOf is what a lookup failed with, or nil. A provider that was skipped counts
// where there are no credentials: then the service account is what to look at.
func failureOf(res *regcred.Result, err error) *lookupFailure {
	var why []string
	for i := range res.Attempts {
		switch a := &res.Attempts[i]; {
		case a.Err != nil:
			why = append(why, a.Err.Error())
		case a.Skipped != "" && len(res.Credentials) == 0 && !bare(a):
			why = append(why, fmt.Sprintf("provider %q was not run: %s", a.Provider, a.Skipped))
		}
	}
	if early(err) {
		why = append(why, err.Error())
	}
	if why == nil {
		return nil
	}
	const before, between = "image credential providers: ", "; "
	most := max(share(why, maxFailure-len(before)-len(between)*(len(why)-1)), minReason)
	for i := range why {
		why[i] = shorten(why[i], most)
	}
	return new(lookupFailure(shorten(before+strings.Join(why, between), maxFailure)))
}

// early reports whether a lookup ended with an error that is not those of its providers.
func early(err error) bool {
	_, failed := errors.AsType[*regcred.LookupError](err)
	return err != nil && !failed
}

// share is how long each of some texts may be where all together have so much room:
// what the short ones leave is for the others.
func share(texts []string, room int) (most int) {
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

// bare reports whether a provider matches other images of the registry alone.
func bare(a *regcred.Attempt) bool { return a.Skipped == regcred.SkippedPath }

// shorten makes one line of at most so many bytes.
func shorten(text string, most int) string {
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
