// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/pull"
	"github.com/regcred/regcred/internal/terminal"
)

// layoutPull says how images are pulled into an OCI image layout.
type layoutPull struct {
	*lookupFlags
	dir      string
	platform string
	insecure bool
	quiet    bool // without progress
}

// pullReport is the result of "regcred pull -o json", one for each image.
type pullReport struct {
	Image      string          `json:"image"`
	Output     string          `json:"output"`
	Digest     string          `json:"digest,omitempty"`   // what the layout has; empty if the pull failed
	Resolved   string          `json:"resolved,omitempty"` // what the reference names, if that is an index
	MediaType  string          `json:"mediaType,omitempty"`
	Platform   string          `json:"platform,omitempty"`
	Layers     []layerJSON     `json:"layers"`
	Downloaded int64           `json:"downloaded"`           // bytes
	Credential *credentialJSON `json:"credential,omitempty"` // the one that worked; absent if the pull was anonymous
	Failed     []tryJSON       `json:"failed"`               // what was tried before, in order
	Warnings   []warningJSON   `json:"warnings,omitempty"`   // what failed in the lookup, beside something that answered
	Error      string          `json:"error,omitempty"`
}

type layerJSON struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
	Reused bool   `json:"reused,omitempty"` // it was there already, and was verified
}

func (r *pullReport) succeeded(got *pull.Result) {
	r.Image, r.Digest, r.MediaType, r.Platform, r.Downloaded = got.Image, got.Digest, got.MediaType, got.Platform, got.Bytes
	if got.Resolved != got.Digest {
		r.Resolved = got.Resolved
	}
	for _, l := range got.Layers {
		r.Layers = append(r.Layers, layerJSON{l.Digest, l.Size, l.Reused})
	}
	r.Credential, r.Failed = toCredentialJSON(got.Credential), triesJSON(got.Failed)
}

// content says what was pulled.
func (r *pullReport) content() string {
	var total int64
	reused := 0
	for _, l := range r.Layers {
		total += l.Size
		if l.Reused {
			reused++
		}
	}
	parts := []string{fmt.Sprintf("%s, %s", terminal.Count(len(r.Layers), "layer"), terminal.Bytes(total))}
	if r.Platform != "" {
		parts = append([]string{r.Platform}, parts...)
	}
	if reused > 0 {
		parts = append(parts, fmt.Sprintf("%d there already", reused))
	}
	return strings.Join(parts, ", ")
}

// pullOne looks up the credentials of one image and pulls it. The report says
// how far that got, also beside an error.
func (a *app) pullOne(ctx context.Context, s *session, p *layoutPull, image string) (*pullReport, error) {
	r := &pullReport{Image: image, Output: p.dir, Layers: []layerJSON{}, Failed: []tryJSON{}}
	if _, err := a.explainTarget(s.cfg, target{image: image}); err != nil {
		return r, err
	}
	res, failed, err := s.lookup(ctx, target{image: image})
	if err != nil {
		return r, err
	}
	explain := fmt.Sprintf("run %q", a.explainCommand(p.arguments()+image))
	if failed {
		return r, withHint(fmt.Errorf("%s is not pulled, %s", image, whyNotPulled(res.Attempts)), explain+" to see every step")
	}
	a.warnFailed(res.Attempts)
	r.Warnings = warningsOf(res.Attempts)
	bars := &terminal.Layers{}
	if !p.quiet {
		bars = a.Layers()
	}
	puller := &pull.Puller{Platform: p.platform, Insecure: p.insecure, Refused: s.Invalidate, Progress: func(e pull.Event) { show(bars, e) }}
	got, err := puller.Pull(ctx, image, res.Credentials, p.dir)
	bars.Close()
	if e, ok := errors.AsType[*pull.Error](err); ok {
		r.Failed = triesJSON(e.Tries)
		// Not taken apart: it names every try in one line.
		return r, withHint(errors.New(e.Error()), refusedHint(e.Tries, explain))
	}
	if err != nil {
		return r, err
	}
	r.succeeded(got)
	return r, nil
}

// show draws how far a pull is.
func show(bars *terminal.Layers, e pull.Event) {
	switch e.Kind {
	case pull.EventQueued: // also when the next credential begins anew
		what := "layer"
		if e.Config {
			what = "config"
		}
		bars.Queue(what, e.Digest, e.Size)
	case pull.EventAdvance, pull.EventRestart:
		bars.At(e.Digest, e.Bytes)
	case pull.EventDone:
		bars.Done(e.Digest, e.Size)
	}
}

// refusedHint says what to do if the registry refused a login.
func refusedHint(tries []pull.Try, explain string) string {
	switch {
	case !slices.ContainsFunc(tries, func(t pull.Try) bool { return t.Status == http.StatusUnauthorized }):
		return ""
	case tries[0].Credential == nil:
		return "the registry wants a login, and there is no credential; " + explain
	}
	return "the registry refused what the providers returned; " + explain + " to see where each came from"
}
