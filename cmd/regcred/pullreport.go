// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/pull"
	"github.com/regcred/regcred/internal/terminal"
)

// What became of an image that was to be pulled into a runtime;
// outcomeFailed is another.
const (
	outcomePulled   = "pulled"
	outcomePresent  = "present"  // it was there
	outcomeCanceled = "canceled" // by an interrupt, while it was pulled
	outcomeNotBegun = "notBegun" // because of an interrupt, or because the runtime was gone
)

// runtimeReport is the result of "regcred prepull -o json", and of
// "regcred pull --runtime-endpoint … -o json".
type runtimeReport struct {
	Runtime runtimeJSON    `json:"runtime"`
	Policy  string         `json:"policy"`
	Images  []imageReport  `json:"images"` // in the order of the list
	Counts  map[string]int `json:"counts"` // by outcome
}

type runtimeJSON struct {
	Endpoint string `json:"endpoint"`
	Name     string `json:"name,omitempty"`
	Version  string `json:"version,omitempty"`
}

// imageReport is what became of one image.
type imageReport struct {
	Image           string          `json:"image"`
	Outcome         string          `json:"outcome"`
	Ref             string          `json:"ref,omitempty"`  // in the runtime
	Size            int64           `json:"size,omitempty"` // bytes, as the runtime says
	DurationSeconds float64         `json:"durationSeconds,omitempty"`
	Credential      *credentialJSON `json:"credential,omitempty"` // the one that worked; absent if the pull was anonymous
	Failed          []tryJSON       `json:"failed"`               // what was tried before, in order
	Warnings        []warningJSON   `json:"warnings,omitempty"`
	Error           string          `json:"error,omitempty"`
}

func (r *imageReport) succeeded(got *pull.RuntimeResult) {
	r.Outcome, r.Ref, r.Size = outcomePulled, got.Ref, got.Size
	if got.Present {
		r.Outcome = outcomePresent
	}
	r.Credential, r.Failed = toCredentialJSON(got.Credential), triesJSON(got.Failed)
}

// failed says why, and what would have been asked for a pod: with node-wide
// credentials, a provider that wants a service account is left out.
func (r *imageReport) failed(err error, attempts []regcred.Attempt) {
	r.Outcome = outcomeFailed
	if e, ok := errors.AsType[*pull.Error](err); ok {
		r.Failed = triesJSON(e.Tries)
	}
	r.Error = strings.TrimPrefix(err.Error(), fmt.Sprintf("pulling %q: ", r.Image))
	for _, at := range attempts {
		if at.Skipped != "" {
			r.Error += fmt.Sprintf("; provider %q was not asked: %s", at.Provider, at.Skipped)
		}
	}
}

// render says what became of an image.
func (r *imageReport) render(t *terminal.Text) {
	switch r.Outcome {
	case outcomePulled:
		t.Line(terminal.OK, r.Image+": "+r.howPulled())
	case outcomePresent:
		t.Line(terminal.OK, r.Image+": present")
	case outcomeCanceled:
		t.Line(terminal.Skip, r.Image+": interrupted")
	default:
		t.Line(terminal.Fail, r.Image+": "+r.Error)
	}
}

func (r *imageReport) howPulled() string {
	text := "pulled"
	if r.Size > 0 {
		text += " " + terminal.Bytes(r.Size)
	}
	text += " in " + terminal.Took(r.DurationSeconds)
	if r.Credential == nil {
		return text + " without credentials"
	}
	text += " with " + loginText(r.Credential)
	if n := len(r.Failed); n > 0 {
		text += fmt.Sprintf(", after %s failed", terminal.Count(n, "credential"))
	}
	return text
}

// bad counts the images that are not there in the end.
func (r *runtimeReport) bad() int {
	return len(r.Images) - r.Counts[outcomePulled] - r.Counts[outcomePresent]
}

// render sums up, unless there is but one image.
func (r *runtimeReport) render(t *terminal.Text) {
	if len(r.Images) < 2 {
		return
	}
	var parts []string
	for _, o := range []struct{ outcome, words string }{
		{outcomePulled, "pulled"}, {outcomePresent, "present"}, {outcomeFailed, "failed"},
		{outcomeCanceled, "interrupted"}, {outcomeNotBegun, "not begun"},
	} {
		if n := r.Counts[o.outcome]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o.words))
		}
	}
	m := terminal.OK
	if r.bad() > 0 {
		m = terminal.Fail
	}
	t.Blank()
	t.Line(m, fmt.Sprintf("%s: %s", terminal.Count(len(r.Images), "image"), strings.Join(parts, ", ")))
}
