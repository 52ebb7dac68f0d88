// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/login"
	"github.com/regcred/regcred/internal/probe"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/route"
	"github.com/regcred/regcred/internal/terminal"
)

// checkImage traces the pull of an image.
func checkImage(ctx context.Context, w *Input, r *checkResults) {
	i, runtime := w.Image, w.findRuntime(ctx)
	configPath := ""
	if w.Origin != nil {
		configPath = w.Origin.Config
	}
	i.config, i.findings = w.Config, r
	i.fixForAttempt = func(at regcred.Attempt) string { return AttemptFix(at, i.ForPod, configPath) }
	i.route = runtime.Route
	i.prober = probe.Prober{Runtime: runtime.ProbeSettings(w.Environ), Platform: i.Platform}
	i.tracePull(ctx)
}

// tracePull performs the steps of a pull until one fails.
func (i *Image) tracePull(ctx context.Context) {
	image, ok := i.checkReference()
	if !ok {
		return
	}
	i.result = &ImageResult{Reference: image.String(), Credentials: []report.Credential{}, Hosts: []*probe.Result{}}
	way, wayErr := i.route(image)
	if wayErr != nil {
		way = OriginRoute(image, "the runtime")
	}
	i.result.Route = way
	creds, ok := i.checkCredentials(ctx)
	if !ok {
		return
	}
	if !i.checkRoute(way, wayErr, len(creds) > 0) {
		return
	}
	if i.Offline {
		i.findings.addStep("pull", finding.SeveritySkipped, "", "--offline: no host is queried")
		return
	}
	i.queryHosts(ctx, image, way, creds)
}

// referenceFix is the fix for an invalid image reference.
const referenceFix = "write the image as [registry[:port]/]repository[:tag][@digest], in lower case"

func (i *Image) checkReference() (route.Image, bool) {
	image, err := route.Parse(i.Reference)
	if err != nil {
		fix := referenceFix
		if _, rest, found := strings.Cut(i.Reference, "://"); found {
			fix = "remove the scheme: " + rest
		} else if lower := strings.ToLower(i.Reference); lower != i.Reference {
			if _, err := route.Parse(lower); err == nil {
				fix = "use lower case: " + lower
			}
		} else if trimmed := strings.TrimSpace(i.Reference); trimmed != i.Reference {
			fix = "remove the spaces around the image reference"
		}
		i.findings.addStep("reference", finding.SeverityError, fix, "%v", err)
		return image, false
	}
	first, _, _ := strings.Cut(i.Reference, ":")
	if image.HasNoHost && (strings.Contains(first, ".") && !strings.Contains(first, "/") || first == "localhost") {
		i.findings.addStep("reference", finding.SeverityWarning, "include the repository: "+i.Reference+"/REPOSITORY", "%q is interpreted as %s, an image on Docker Hub, not as a registry", i.Reference, image)
		return image, true
	}
	text := image.String()
	if text != i.Reference {
		text = fmt.Sprintf("%s means %s", i.Reference, text)
	}
	i.findings.addStep("reference", finding.SeverityOK, "", "%s", text)
	return image, true
}

// checkCredentials reports which providers match, and looks up the credentials.
func (i *Image) checkCredentials(ctx context.Context) ([]regcred.Credential, bool) {
	ex := regcred.Explain(cmp.Or(i.config, &config.Config{}), regcred.Request{Image: i.Reference})
	if i.Lookup == nil {
		i.checkProviders(ex, false)
		i.findings.addStep("credentials", finding.SeveritySkipped, "", "--offline: no plugin is run")
		return nil, true
	}
	res, refused, err := i.Lookup(ctx)
	i.checkProviders(ex, err == nil && len(res.Credentials) > 0)
	switch {
	case err != nil && ctx.Err() != nil:
		i.findings.addStep("credentials", finding.SeverityError, "", "unknown: %v", probe.ContextCause(ctx))
		return nil, false
	case err != nil:
		n := len(i.findings.list)
		i.findings.addErrors(err, "")
		for k := range i.findings.list[n:] {
			i.findings.list[n+k].Check = "credentials"
		}
		return nil, false
	}
	i.result.Credentials = report.NewCredentials(res.Credentials)
	return res.Credentials, i.checkAttempts(res, refused)
}

// checkProviders reports which providers match the image. If none matches and no credential
// was found, it reports the most similar patterns.
func (i *Image) checkProviders(ex regcred.Explanation, found bool) {
	if i.config == nil {
		i.findings.addStep("providers", finding.SeveritySkipped, "", "no usable configuration: the checks below run without providers")
		return
	}
	var matched, near []string
	for _, p := range ex.Providers {
		switch {
		case p.Matched:
			matched = append(matched, fmt.Sprintf("%s matches (%q)", p.Name, p.Pattern))
		case p.Pattern != "":
			near = append(near, fmt.Sprintf("%s: nearest pattern is %q: %s", p.Name, p.Pattern, p.Reason))
		}
	}
	switch {
	case matched != nil:
		i.findings.addStep("providers", finding.SeverityOK, "", "%s", strings.Join(matched, "; "))
	case near == nil:
		i.findings.addStep("providers", finding.SeverityOK, "", "none configured")
	case found:
		i.findings.addStep("providers", finding.SeverityOK, "", "none of the %s matches %s", terminal.FormatCount(len(near), "provider"), ex.Repository)
	default:
		i.unmatched = len(i.findings.list) + 1
		i.findings.addStep("providers", finding.SeverityOK, "", "none matches %s; %s", ex.Repository, strings.Join(near, "; "))
	}
}

// checkAttempts reports failures and credentials. It returns false if there is no credential
// because a credential source failed.
func (i *Image) checkAttempts(res *regcred.Result, refused bool) bool {
	// Without a pull secret that is configured, the kubelet does not pull, and the runtime's own
	// credentials do not count.
	failed, ownCredential := false, i.result.Route.UsesOwnCredential() && !slices.ContainsFunc(res.Attempts, func(at regcred.Attempt) bool { return at.Err != nil && at.Kind == regcred.FromPullSecret })
	result := finding.SeverityWarning
	if len(res.Credentials) == 0 && !ownCredential {
		result = finding.SeverityError
	}
	for _, at := range res.Attempts {
		switch {
		case at.Err != nil:
			failed = true
			after, fix := "", i.fixForAttempt(at)
			if at.Kind == regcred.FromProvider && at.Duration > 0 {
				after = fmt.Sprintf(" (after %s)", terminal.FormatElapsed(at.Duration.Seconds()))
				fix = cmp.Or(fix, fmt.Sprintf("to see the request and response, run regcred plugin run %s %s", terminal.QuoteShellWord(at.Provider), terminal.QuoteShellWord(i.Reference)))
			}
			i.findings.addStep("credentials", result, fix, "%v%s", at.Err, after)
		case at.Skipped != "":
			i.findings.addStep("credentials", finding.SeveritySkipped, i.fixForAttempt(at), "%s is not run: %s", at.Provider, at.Skipped)
		case at.Matched == 0 && (at.Kind == regcred.FromProvider || at.Kind == regcred.FromPullSecret):
			text, fix := at.Provider+" returns no credential for this image", ""
			if at.Kind == regcred.FromPullSecret {
				text = at.Provider + " has no credential for this image"
				if ref, err := route.Parse(i.Reference); err == nil && len(res.Credentials) == 0 {
					fix = MissingCredentialFix(ref.Repository)
				}
			}
			if len(at.Keys) > 0 {
				text += "; none of its keys matches: " + strings.Join(at.Keys, ", ")
				if edit := i.nearMissKey(at.Keys); edit != "" {
					fix = edit + " in " + at.Provider
					i.keyEdit = fix
				}
			}
			i.findings.addStep("credentials", finding.SeverityWarning, fix, "%s", text)
		}
	}
	switch {
	case len(res.Credentials) == 0 && ownCredential:
		i.findings.addStep("credentials", finding.SeverityOK, "", "the kubelet sends no credential; %s has its own", i.result.Route.Runtime)
		return true
	case refused && len(res.Credentials) == 0:
		i.findings.addStep("pull", finding.SeverityError, "", "would fail: the kubelet has no credential, because a credential source failed")
		return false
	case len(res.Credentials) == 0 && failed:
		i.findings.addStep("pull", finding.SeverityError, "", "would be attempted anonymously, because a credential source failed")
		return false
	case len(res.Credentials) == 0:
		i.findings.addStep("credentials", finding.SeverityOK, "", "no credentials, so the image is pulled anonymously")
		return true
	}
	var who []string
	for _, c := range res.Credentials {
		who = append(who, login.FailedAttempt{Credential: &c}.CredentialText())
	}
	i.findings.addStep("credentials", finding.SeverityOK, "", "%s, tried in this order: %s", terminal.FormatCount(len(who), "credential"), strings.Join(who, "; "))
	return true
}

// checkRoute reports which hosts the runtime queries. unknown is why the route is not known.
// hasCredentials means that the kubelet sends a credential.
func (i *Image) checkRoute(way *route.Route, unknown error, hasCredentials bool) bool {
	const step = "mirrors"
	text := way.Describe(hasCredentials)
	if i.Lookup == nil {
		text = way.String()
	}
	switch {
	case unknown != nil:
		i.findings.addStep(step, finding.SeverityWarning, "", "unknown: %v; checking only the image's own registry", unknown)
	case way.FailureReason != "":
		i.findings.addStep(step, finding.SeverityError, "", "%s", way)
		return false
	default:
		i.findings.addStep(step, finding.SeverityOK, "", "%s", text)
	}
	for _, f := range way.Findings {
		reported := slices.ContainsFunc(i.findings.earlierFindings, func(e Finding) bool {
			return e.Check == step && e.Rule == f.Rule && e.File == f.File && e.Line == f.Line && e.Message == f.Message
		})
		if f.Severity != finding.SeverityInfo && !reported {
			i.findings.list = append(i.findings.list, Finding{Check: step, Finding: f})
		}
	}
	return true
}
