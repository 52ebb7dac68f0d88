// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/login"
	"github.com/regcred/regcred/internal/probe"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/route"
)

// ask asks the hosts in their order, until one has the image. A kubelet tries all of
// them with one credential before the next: so where a host takes a later one, those
// behind it are asked with the earlier ones.
func (i *Image) ask(ctx context.Context, image route.Image, way *route.Route, creds []regcred.Credential) {
	ctx, cancel := context.WithTimeoutCause(ctx, i.Timeout, tooLong(i.Timeout))
	defer cancel()
	i.Prober.Image = probe.Image{Host: image.Host, Tag: image.Tag, Digest: image.Digest}
	var asked []*probe.Result
	var rest []string
	var got, passed *probe.Result
	for n, hop := range way.Hops {
		switch {
		case hop.Skipped != "" || slices.ContainsFunc(way.Hops[:n], func(h route.Hop) bool { return sameHop(h, hop) }):
		case got != nil && got.Accepted <= 0, ctx.Err() != nil:
			rest = append(rest, hop.Base.Host)
		case got != nil:
			r := i.Prober.Ask(ctx, hop, creds[:got.Accepted])
			if asked = append(asked, r); r.Pulls {
				got, passed = r, got
			}
		default:
			r := i.Prober.Ask(ctx, hop, creds)
			if asked = append(asked, r); r.Pulls {
				got = r
			}
		}
	}
	i.Report.Image.Hosts = append(i.Report.Image.Hosts, asked...)
	for _, r := range asked {
		i.addSteps(r, got != nil)
	}
	switch {
	case got == nil && ctx.Err() != nil:
		i.undecided(asked, rest, probe.Ended(ctx))
		return
	case rest != nil:
		i.Add("pull", Skip, "", "not queried, because %s has the image: %s", hostOf(got), strings.Join(rest, ", "))
	}
	i.judge(way, asked, got, creds)
	if passed != nil {
		i.Add("pull", Warn, "put the credential that this host accepts first, or remove the other credentials", "%s also has the image but is skipped, because the credential for %s is tried before the host's own credential and is rejected", hostOf(passed), hostOf(got))
	}
}

// undecided says that the time was over, or somebody interrupted, before it was
// known how a pull would go.
func (i *Image) undecided(asked []*probe.Result, rest []string, why error) {
	at := ""
	if len(asked) > 0 {
		at = " while querying " + hostOf(asked[len(asked)-1])
	}
	if rest != nil {
		at += "; not queried: " + strings.Join(rest, ", ")
	}
	fix := ""
	if _, ok := errors.AsType[tooLong](why); ok {
		fix = "increase --timeout"
	}
	i.Add("pull", Fail, fix, "unknown result: %v%s", why, at)
}

// tooLong says that the hosts took longer than they may.
type tooLong time.Duration

func (t tooLong) Error() string {
	return fmt.Sprintf("the timeout for all hosts expired (--timeout %s)", time.Duration(t))
}

func hostOf(r *probe.Result) string {
	u, err := url.Parse(r.URL)
	if err != nil {
		return r.URL
	}
	return u.Host
}

// sameHop reports whether a host would answer twice alike: containerd asks a server
// that its hosts file names as a host too a second time.
func sameHop(a, b route.Hop) bool {
	return a.Skipped == "" && a.URL == b.URL && a.Repository == b.Repository && a.Shown == b.Shown &&
		slices.Equal(a.CA, b.CA) && slices.Equal(a.Client, b.Client) && a.SkipVerify == b.SkipVerify && a.HTTPToo == b.HTTPToo
}

// addSteps adds the steps of a host. Where another host has the image, what
// fails here is a warning.
func (i *Image) addSteps(r *probe.Result, elsewhere bool) {
	for _, s := range r.Steps {
		c := Check{Check: s.Name, Result: s.Severity, Host: hostOf(r), Message: s.Message, Fix: s.Fix}
		if elsewhere && c.Result == Fail {
			c.Result = Warn
		}
		if s.Name == probe.StepToken || s.Name == probe.StepManifest {
			c.Message = c.Host + ": " + c.Message
		}
		i.Checks = append(i.Checks, c)
	}
}

// judge says how a pull would go.
func (i *Image) judge(way *route.Route, asked []*probe.Result, got *probe.Result, creds []regcred.Credential) {
	if got == nil {
		i.blameProviders(asked)
		var ends []string
		for _, r := range asked {
			if s := r.Failed(); s != nil {
				ends = append(ends, fmt.Sprintf("%s (%s)", hostOf(r), s.Name))
			}
		}
		i.Add("pull", Fail, "", "would fail at %s", strings.Join(ends, " and "))
		if len(asked) == 0 {
			i.Checks[len(i.Checks)-1].Message = fmt.Sprintf("would fail: %s queries no host for this image", way.Runtime)
		}
		return
	}
	result := i.Report.Image
	result.Pulls, result.From = true, hostOf(got)
	who := "anonymously"
	if got.Accepted >= 0 {
		cred := &creds[got.Accepted]
		result.Credential = report.NewCredential(cred)
		who = "with " + login.Try{Credential: cred}.Who()
	}
	i.Add("pull", OK, "", "works from %s, %s", hostOf(got), who)
}

// blameProviders makes a warning of it that none matches, where a host wants a
// login.
func (i *Image) blameProviders(asked []*probe.Result) {
	wants := func(r *probe.Result) bool { return r.Challenge != nil }
	if i.unmatched > 0 && slices.ContainsFunc(asked, wants) {
		c := &i.Checks[i.unmatched]
		c.Result, c.Fix = Warn, "to let a provider serve this image, add a pattern to the provider's matchImages"
	}
}
