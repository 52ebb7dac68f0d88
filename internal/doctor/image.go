// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/login"
	"github.com/regcred/regcred/internal/probe"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/route"
	"github.com/regcred/regcred/internal/terminal"
)

// Image is an image whose whole way is gone, up to its manifest.
type Image struct {
	*Report   // of the checks
	Reference string
	Config    *config.Config // nil: there is none that is valid

	// Lookup finds the credentials as a kubelet does; refused says that it would
	// not pull at all. nil: no plugin is run.
	Lookup func(context.Context) (result *regcred.Result, refused bool, err error)
	Remedy func(regcred.Attempt) string // of one that failed or was skipped

	Route   func(route.Image) (*route.Route, error)
	Prober  probe.Prober
	Offline bool
	Timeout time.Duration // of asking hosts, all of them

	unmatched int // index of the check that says that no provider matches; 0 = some does
}

// Check goes the way until it ends.
func (i *Image) Check(ctx context.Context) {
	image, ok := i.checkReference()
	if !ok {
		return
	}
	i.anywhere()
	i.Report.Image = &ImageResult{Reference: image.String(), Credentials: []report.Credential{}, Hosts: []*probe.Result{}}
	creds, ok := i.checkCredentials(ctx)
	if !ok {
		return
	}
	way, ok := i.checkRoute(image)
	if !ok {
		return
	}
	if i.Offline {
		i.Add("pull", Skip, "", "--offline: no host is queried")
		return
	}
	i.ask(ctx, image, way, creds)
}

// anywhere takes back that a machine is no node: of an image one may ask from any.
func (i *Image) anywhere() {
	for n := range i.Checks {
		if c := &i.Checks[n]; c.Without != nil && c.Result == Fail {
			c.Result = Info
		}
	}
}

// imageForm says how an image is written.
const imageForm = "write the image as [registry[:port]/]repository[:tag][@digest], in lower case"

func (i *Image) checkReference() (route.Image, bool) {
	image, err := route.Parse(i.Reference)
	if err != nil {
		fix := imageForm
		if _, rest, found := strings.Cut(i.Reference, "://"); found {
			fix = "remove the scheme: " + rest
		} else if lower := strings.ToLower(i.Reference); lower != i.Reference {
			if _, err := route.Parse(lower); err == nil {
				fix = "use lower case: " + lower
			}
		} else if trimmed := strings.TrimSpace(i.Reference); trimmed != i.Reference {
			fix = "remove the spaces around the image reference"
		}
		i.Add("reference", Fail, fix, "%v", err)
		return image, false
	}
	first, _, _ := strings.Cut(i.Reference, ":")
	if image.Short && (strings.Contains(first, ".") && !strings.Contains(first, "/") || first == "localhost") {
		i.Add("reference", Warn, "include the repository: "+i.Reference+"/REPOSITORY", "%q is interpreted as %s, an image on Docker Hub, not as a registry", i.Reference, image)
		return image, true
	}
	text := image.String()
	if text != i.Reference {
		text = fmt.Sprintf("%s means %s", i.Reference, text)
	}
	i.Add("reference", OK, "", "%s", text)
	return image, true
}

// checkCredentials says which providers match, and what a lookup finds.
func (i *Image) checkCredentials(ctx context.Context) ([]regcred.Credential, bool) {
	ex := regcred.Explain(cmp.Or(i.Config, &config.Config{}), regcred.Request{Image: i.Reference})
	if i.Lookup == nil {
		i.checkProviders(ex, false)
		i.Add("credentials", Skip, "", "--offline: no plugin is run")
		return nil, true
	}
	res, refused, err := i.Lookup(ctx)
	if err != nil && ctx.Err() != nil {
		i.checkProviders(ex, false)
		i.Add("credentials", Fail, "", "unknown: %v", probe.Ended(ctx))
		return nil, false
	}
	if err != nil {
		i.checkProviders(ex, false)
		i.Fail("credentials", err, "")
		return nil, false
	}
	i.checkProviders(ex, len(res.Credentials) > 0)
	i.Report.Image.Credentials = report.NewCredentials(res.Credentials)
	return res.Credentials, i.checkAttempts(res, refused)
}

// checkProviders names those that match, or the one that came nearest.
func (i *Image) checkProviders(ex regcred.Explanation, found bool) {
	if i.Config == nil {
		i.Add("providers", Skip, "", "no usable configuration: the checks below run without providers")
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
		i.Add("providers", OK, "", "%s", strings.Join(matched, "; "))
	case near == nil:
		i.Add("providers", OK, "", "none configured")
	case found:
		i.Add("providers", OK, "", "none of the %s matches %s", terminal.Count(len(near), "provider"), ex.Repository)
	default:
		i.unmatched = len(i.Checks)
		i.Add("providers", OK, "", "none matches %s; %s", ex.Repository, strings.Join(near, "; "))
	}
}

// checkAttempts says what failed, and what was found. It is false where a
// kubelet has nothing to pull with though it should.
func (i *Image) checkAttempts(res *regcred.Result, refused bool) bool {
	failed := false
	result := Warn
	if len(res.Credentials) == 0 {
		result = Fail
	}
	for _, at := range res.Attempts {
		switch {
		case at.Err != nil:
			failed = true
			after, fix := "", i.Remedy(at)
			if at.Kind == regcred.FromProvider && at.Duration > 0 {
				after = fmt.Sprintf(" (after %s)", terminal.Took(at.Duration.Seconds()))
				fix = cmp.Or(fix, fmt.Sprintf("to see the request and response, run regcred plugin run %s %s", terminal.ShellWord(at.Provider), terminal.ShellWord(i.Reference)))
			}
			i.Add("credentials", result, fix, "%v%s", at.Err, after)
		case at.Skipped != "":
			i.Add("credentials", Skip, i.Remedy(at), "%s is not run: %s", at.Provider, at.Skipped)
		case at.Matched == 0 && (at.Kind == regcred.FromProvider || at.Kind == regcred.FromPullSecret):
			text, fix := at.Provider+" returns no credential for this image", ""
			if at.Kind == regcred.FromPullSecret {
				text = at.Provider + " has no credential for this image"
				if ref, err := route.Parse(i.Reference); err == nil && len(res.Credentials) == 0 {
					fix = SecretLacks(ref.Repository)
				}
			}
			if len(at.Keys) > 0 {
				text += "; none of its keys matches: " + strings.Join(at.Keys, ", ")
			}
			i.Add("credentials", Warn, fix, "%s", text)
		}
	}
	switch {
	case refused && len(res.Credentials) == 0:
		i.Add("pull", Fail, "", "would fail: the kubelet has no credential, because a credential source failed")
		return false
	case len(res.Credentials) == 0 && failed:
		i.Add("pull", Fail, "", "would be attempted anonymously, because a credential source failed")
		return false
	case len(res.Credentials) == 0:
		i.Add("credentials", OK, "", "no credentials, so the image is pulled anonymously")
		return true
	}
	var who []string
	for _, c := range res.Credentials {
		who = append(who, login.Try{Credential: &c}.Who())
	}
	i.Add("credentials", OK, "", "%s, tried in this order: %s", terminal.Count(len(who), "credential"), strings.Join(who, "; "))
	return true
}

// checkRoute says which hosts the runtime asks.
func (i *Image) checkRoute(image route.Image) (*route.Route, bool) {
	way, err := i.Route(image)
	if err != nil {
		i.Add("mirrors", Warn, "", "unknown: %v; checking only the image's own registry", err)
		way = OriginAlone(image, "the runtime")
	}
	i.Report.Image.Route = way
	if way.Fails != "" {
		i.Add("mirrors", Fail, "", "%s", way)
		return way, false
	}
	if err == nil {
		i.Add("mirrors", OK, "", "%s", way)
	}
	for _, f := range way.Findings {
		if f.Severity == finding.SeverityInfo {
			continue
		}
		if !i.said(f) {
			i.found(f)
		}
	}
	return way, true
}

// said reports whether a finding was told of the node already.
func (i *Image) said(f finding.Finding) bool {
	r := &Report{}
	r.found(f)
	return slices.ContainsFunc(i.Checks, func(c Check) bool { return c.Check == "mirrors" && c.Message == r.Checks[0].Message })
}
