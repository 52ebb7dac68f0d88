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
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/login"
	"github.com/regcred/regcred/internal/probe"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/route"
)

// queryHosts queries the hosts in order until one has the image. The kubelet tries one
// credential with all hosts before it tries the next credential. So if a host accepts the
// third credential, queryHosts still queries the following hosts with the first two.
func (i *Image) queryHosts(ctx context.Context, image route.Image, way *route.Route, creds []regcred.Credential) {
	ctx, cancel := context.WithTimeoutCause(ctx, i.Timeout, timeoutError(i.Timeout))
	defer cancel()
	i.prober.Image = probe.Image{Host: image.Host, Tag: image.Tag, Digest: image.Digest}
	var asked []*probe.Result
	var rest []string
	var got, passed *probe.Result
	for n, hop := range way.Hops {
		switch {
		case hop.Skipped != "" || slices.ContainsFunc(way.Hops[:n], func(h route.Hop) bool { return isSameHop(h, hop) }):
		case got != nil && got.Accepted <= 0, ctx.Err() != nil:
			rest = append(rest, hop.Base.Host)
		default:
			tried := creds
			if got != nil {
				tried = creds[:got.Accepted]
			}
			hop.Credential = hop.CredentialIf(len(creds) > 0)
			r := i.prober.Query(ctx, hop, tried)
			if asked = append(asked, r); r.CanPull {
				got, passed = r, got
			}
		}
	}
	i.result.Hosts = append(i.result.Hosts, asked...)
	mayWork := got != nil || slices.ContainsFunc(asked, func(r *probe.Result) bool { return r.Untested != "" })
	for _, r := range asked {
		i.addHostFindings(r, mayWork)
	}
	switch {
	case got == nil && ctx.Err() != nil:
		i.reportTimeout(asked, rest, probe.ContextCause(ctx))
		return
	case rest != nil:
		i.findings.addStep("pull", finding.SeveritySkipped, "", "%s has the image, so these hosts are not queried: %s", resultHost(got), strings.Join(rest, ", "))
	}
	i.reportPull(way, asked, got, creds)
	if passed != nil {
		i.findings.addStep("pull", finding.SeverityWarning, "put the credential that this host accepts first, or remove the other credentials", "%s also has the image but is skipped, because the credential for %s is tried before the host's own credential and is rejected", resultHost(passed), resultHost(got))
	}
}

// reportTimeout reports that the result is unknown because the timeout expired or the
// user interrupted the check.
func (i *Image) reportTimeout(asked []*probe.Result, rest []string, why error) {
	at := ""
	if len(asked) > 0 {
		at = " while querying " + resultHost(asked[len(asked)-1])
	}
	if rest != nil {
		at += "; not queried: " + strings.Join(rest, ", ")
	}
	fix := ""
	if _, ok := errors.AsType[timeoutError](why); ok {
		fix = "increase --timeout"
	}
	i.findings.addStep("pull", finding.SeverityError, fix, "unknown result: %v%s", why, at)
}

// timeoutError is the cause of a context that ended when the timeout for all hosts
// expired.
type timeoutError time.Duration

func (t timeoutError) Error() string {
	return fmt.Sprintf("the timeout for all hosts expired (--timeout %s)", time.Duration(t))
}

func resultHost(r *probe.Result) string {
	u, err := url.Parse(r.URL)
	if err != nil {
		return r.URL
	}
	return u.Host
}

// isSameHop reports whether two hops get the same request. containerd queries a host twice if
// hosts.toml lists it both as the server and as a host.
func isSameHop(a, b route.Hop) bool {
	return a.Skipped == "" && a.URL == b.URL && a.Repository == b.Repository && a.Credential == b.Credential &&
		slices.Equal(a.CA, b.CA) && slices.Equal(a.ClientCertificates, b.ClientCertificates) && a.SkipVerify == b.SkipVerify && a.TriesHTTPSFirst == b.TriesHTTPSFirst
}

// addHostFindings adds the findings about a host. If another host has the image or may have it,
// errors become warnings.
func (i *Image) addHostFindings(r *probe.Result, elsewhere bool) {
	for _, s := range r.Steps {
		f := Finding{Check: s.Rule, Finding: s}
		f.Rule, f.Host = "", resultHost(r)
		if elsewhere && f.Severity == finding.SeverityError {
			f.Severity = finding.SeverityWarning
		}
		if s.Rule == probe.StepToken || s.Rule == probe.StepManifest {
			f.Message = f.Host + ": " + f.Message
		}
		i.findings.list = append(i.findings.list, f)
	}
}

// reportPull reports whether a pull would succeed.
func (i *Image) reportPull(way *route.Route, asked []*probe.Result, got *probe.Result, creds []regcred.Credential) {
	var untested []string
	for _, r := range asked {
		if r.Untested != "" {
			untested = append(untested, fmt.Sprintf("%s: %s sends %s", resultHost(r), way.Runtime, r.Untested))
		}
	}
	if got == nil && untested != nil {
		i.findings.addStep("pull", finding.SeverityInfo, "if the pull fails with 401, check this credential", "unknown result: %s, which regcred did not test", strings.Join(untested, "; "))
		return
	}
	if got == nil {
		if i.unmatched > 0 && slices.ContainsFunc(asked, func(r *probe.Result) bool { return r.Challenge != nil }) {
			f := &i.findings.list[i.unmatched-1] // the finding that no provider matches becomes a warning, because a host requires a credential
			f.Severity, f.Fix = finding.SeverityWarning, "to let a provider serve this image, add a pattern to the provider's matchImages"
		}
		var ends []string
		for _, r := range asked {
			if s := r.FailedStep(); s != nil {
				ends = append(ends, fmt.Sprintf("%s (%s)", resultHost(r), s.Rule))
			}
		}
		text := "would fail at " + strings.Join(ends, " and ")
		if len(asked) == 0 {
			text = fmt.Sprintf("would fail: %s queries no host for this image", way.Runtime)
		}
		i.findings.addStep("pull", finding.SeverityError, "", "%s", text)
		return
	}
	result := i.result
	result.CanPull, result.From = true, resultHost(got)
	who := "anonymously"
	if got.Accepted >= 0 {
		cred := &creds[got.Accepted]
		result.Credential = report.NewCredential(cred)
		who = "with " + login.FailedAttempt{Credential: cred}.CredentialText()
	}
	i.findings.addStep("pull", finding.SeverityOK, "", "works from %s, %s", resultHost(got), who)
	if untested != nil {
		i.findings.addStep("pull", finding.SeverityInfo, "", "an earlier host might serve the image: %s, which regcred did not test", strings.Join(untested, "; "))
	}
}
