// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/pull"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/plugin"
)

// Outcomes of an image, in addition to report.OutcomeFailed.
const (
	outcomePulled     = "pulled"
	outcomePresent    = "present"  // already in the runtime
	outcomeCanceled   = "canceled" // interrupted during the pull
	outcomeNotStarted = "notBegun" // not started: the run was interrupted or the runtime became unavailable
)

// pullReport is the result of "regcred pull -o json" and of
// "regcred prepull -o json".
type pullReport struct {
	Layout  string         `json:"layout,omitempty"`  // output directory of "pull"
	Runtime *runtimeReport `json:"runtime,omitempty"` // runtime of "prepull"
	Policy  string         `json:"policy,omitempty"`  // pull policy of "prepull"
	Images  []imageReport  `json:"images"`            // in the order of the arguments
	Counts  map[string]int `json:"counts"`            // number of images by outcome

	PauseImage *pauseImageReport `json:"pauseImage,omitempty"` // set with --pause-image; it is also in Images
}

type pauseImageReport struct {
	Image string `json:"image"`
	From  string `json:"from"` // where the pause image's name was found
}

type runtimeReport struct {
	Endpoint string `json:"endpoint"`
	Name     string `json:"name,omitempty"`
	Version  string `json:"version,omitempty"`
}

// String returns the runtime's name and version.
func (r *runtimeReport) String() string { return strings.TrimSpace(r.Name + " " + r.Version) }

// imageReport is the result for one image.
type imageReport struct {
	Image           string             `json:"image"`
	Outcome         string             `json:"outcome"`
	Digest          string             `json:"digest,omitempty"`   // digest of the manifest in the layout
	Resolved        string             `json:"resolved,omitempty"` // digest of the index, if the reference points to an index
	MediaType       string             `json:"mediaType,omitempty"`
	Platform        string             `json:"platform,omitempty"`
	Layers          []layerReport      `json:"layers,omitempty"`
	Downloaded      int64              `json:"downloaded,omitempty"` // bytes
	Ref             string             `json:"ref,omitempty"`        // image reference in the runtime
	Size            int64              `json:"size,omitempty"`       // bytes, as reported by the runtime
	Pinned          bool               `json:"pinned,omitempty"`     // pinned by the runtime, so the kubelet does not remove it
	DurationSeconds float64            `json:"durationSeconds,omitempty"`
	Credential      *report.Credential `json:"credential,omitempty"` // credential that worked; absent if the pull was anonymous
	Failed          []tryReport        `json:"failed"`               // attempts that failed, in order
	Warnings        []warningReport    `json:"warnings,omitempty"`   // failed sources, if another source had a credential
	Error           string             `json:"error,omitempty"`
}

type layerReport struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
	Reused bool   `json:"reused,omitempty"` // already present and verified
}

// setError records why the image was not pulled. It also lists the providers that were not run, for
// example because they require a service account.
func (r *imageReport) setError(ctx context.Context, err error, attempts []regcred.Attempt) {
	r.Outcome = report.OutcomeFailed
	name := r.Image
	if e, ok := errors.AsType[*pull.Error](err); ok {
		r.Failed, name = newTryReports(e.Tries), e.Image
	}
	r.Error = strings.TrimPrefix(err.Error(), fmt.Sprintf("pulling %q: ", name))
	if late := context.Cause(ctx); errors.Is(late, context.DeadlineExceeded) && !strings.Contains(r.Error, late.Error()) {
		r.Error = late.Error() // err is only a consequence of the timeout
	}
	for _, at := range attempts {
		if at.Skipped != "" {
			r.Error += fmt.Sprintf("; provider %q was not run: %s", at.Provider, at.Skipped)
		}
	}
}

// failureHint returns a hint on how to fix a failure. explain is a command line that shows
// where the credentials come from.
func (r *imageReport) failureHint(explain string) string {
	for _, t := range r.Failed {
		switch {
		case t.Status != http.StatusUnauthorized:
		case t.Credential == nil:
			return fmt.Sprintf("the registry requires credentials, but none were found; run \"%s\" for details", explain)
		default:
			return fmt.Sprintf("the registry rejected the providers' credentials; run \"%s\" to see where each credential came from", explain)
		}
	}
	return fmt.Sprintf("run \"%s\" to see where the credentials for the image come from", explain)
}

// render prints the result for an image.
func (r *imageReport) render(t *terminal.Text) {
	switch r.Outcome {
	case outcomePulled:
		t.MarkedLine(terminal.MarkOK, r.Image+": "+r.authText())
		if r.Digest != "" {
			t.ContinuationLine("digest " + r.Digest)
		}
		for _, f := range r.Failed {
			t.ContinuationLine("refused " + credentialText(f.Credential) + ": " + f.Error)
		}
	case outcomePresent:
		t.MarkedLine(terminal.MarkOK, r.Image+": present")
	case outcomeCanceled:
		t.MarkedLine(terminal.MarkSkipped, r.Image+": interrupted")
	default:
		t.MarkedLine(terminal.MarkError, r.Image+": "+r.Error)
	}
}

func (r *imageReport) authText() string {
	text := "pulled"
	if what := r.contentText(); what != "" {
		text += " " + what
	}
	text += " in " + terminal.FormatElapsed(r.DurationSeconds)
	if r.Credential == nil {
		return text + " without credentials"
	}
	text += " with " + credentialText(r.Credential)
	if n := len(r.Failed); n > 0 {
		text += fmt.Sprintf(", after %s failed", terminal.FormatCount(n, "credential"))
	}
	return text
}

// contentText describes the pulled content.
func (r *imageReport) contentText() string {
	total, reused := r.Size, 0
	for _, l := range r.Layers {
		total += l.Size
		if l.Reused {
			reused++
		}
	}
	var parts []string
	if r.Platform != "" {
		parts = append(parts, r.Platform+",")
	}
	if r.Digest != "" {
		parts = append(parts, terminal.FormatCount(len(r.Layers), "layer")+",")
	}
	if total > 0 || r.Digest != "" {
		parts = append(parts, terminal.FormatBytes(total))
	}
	if reused > 0 {
		parts = append(parts, fmt.Sprintf("(%d already present)", reused))
	}
	return strings.Join(parts, " ")
}

// countFailed returns the number of images that are missing after the run.
func (r *pullReport) countFailed() int {
	return len(r.Images) - r.Counts[outcomePulled] - r.Counts[outcomePresent]
}

// render prints the summary of a run with several images.
func (r *pullReport) render(t *terminal.Text) {
	if len(r.Images) < 2 {
		return
	}
	var parts []string
	for _, o := range []struct{ outcome, words string }{
		{outcomePulled, "pulled"}, {outcomePresent, "present"}, {report.OutcomeFailed, "failed"},
		{outcomeCanceled, "interrupted"}, {outcomeNotStarted, "not begun"},
	} {
		if n := r.Counts[o.outcome]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o.words))
		}
	}
	m := terminal.MarkOK
	if r.countFailed() > 0 {
		m = terminal.MarkError
	}
	t.BlankLine()
	t.MarkedLine(m, fmt.Sprintf("%s: %s", terminal.FormatCount(len(r.Images), "image"), strings.Join(parts, ", ")))
}

type tryReport struct {
	Credential *report.Credential `json:"credential,omitempty"` // nil for an anonymous pull
	Status     int                `json:"status,omitempty"`     // HTTP status
	Code       string             `json:"code,omitempty"`       // error code of the registry or the runtime
	Error      string             `json:"error"`
}

// newTryReports converts tries. It never returns nil, so that JSON shows [].
func newTryReports(tries []pull.Try) []tryReport {
	list := make([]tryReport, 0, len(tries))
	for _, t := range tries {
		list = append(list, tryReport{report.NewCredential(t.Credential), t.Status, t.Code, t.Err.Error()})
	}
	return list
}

// warningReport is a provider or source that failed.
type warningReport struct {
	Name  string       `json:"name"`
	Stage plugin.Stage `json:"stage"`
	Error string       `json:"error"`
}

// pullFailureText explains why the image was not pulled, and lists the failed attempts.
func pullFailureText(attempts []regcred.Attempt) string {
	why := "because a pull without credentials would be anonymous"
	if isPullSecretInvalid(attempts) {
		why = "because the kubelet would not pull the image without the pull secret"
	}
	var causes []string
	for _, at := range failedAttempts(attempts) {
		causes = append(causes, at.Err.Error())
	}
	return why + ": " + strings.Join(causes, "; ")
}
