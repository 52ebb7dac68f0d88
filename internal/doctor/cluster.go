// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/kube"
)

// maxClockSkew is the largest clock difference without a warning. Tokens and signed cloud
// requests are valid only for minutes.
const maxClockSkew = 30 * time.Second

// fetchIdentity fetches the client's identity from the API server, and caches the result.
func (c *Cluster) fetchIdentity(ctx context.Context) error {
	if c.Err != nil || c.identified {
		return cmp.Or(c.Err, c.userErr)
	}
	c.user, c.userErr = c.Client.WhoAmI(ctx)
	c.identified = true
	return c.userErr
}

// checkAPIServer checks whether the API server responds.
func checkAPIServer(ctx context.Context, w *Input, r *checkResults) {
	c := w.Cluster
	if c.Skipped != "" {
		r.addResult(finding.SeveritySkipped, "use the kubelet's own --kubeconfig, for example /etc/kubernetes/kubelet.conf", "not checked, because %s", c.Skipped)
	} else if err := c.fetchIdentity(ctx); c.Err != nil {
		r.addErrors(err, "")
	} else if err != nil {
		r.addErrors(err, KubeFix(err, c.configPath))
	} else {
		r.addResult(finding.SeverityOK, "", "%s responds (%s)", c.Client.URL(), c.ConfigSource)
	}
}

func checkIdentity(_ context.Context, w *Input, r *checkResults) {
	what := "; the checks below use this identity instead of a kubelet's identity (to use a kubelet's identity, run with --as-kubelet on a node)"
	if w.Cluster.isNode() {
		what = ", a node"
	}
	r.addResult(finding.SeverityOK, "", "%s%s", w.Cluster.user.Username, what)
}

// isNode reports whether the client has the identity of a kubelet.
func (c *Cluster) isNode() bool {
	return strings.HasPrefix(c.user.Username, NodeUserPrefix) && slices.Contains(c.user.Groups, NodesGroup)
}

func checkClock(_ context.Context, w *Input, r *checkResults) {
	clock := w.Cluster.Clock
	skew, side := clock.skew.Round(time.Second), "ahead of"
	if skew < 0 {
		side = "behind"
	}
	switch {
	case !clock.measured:
		r.addResult(finding.SeveritySkipped, "", "the API server's responses have no Date header")
	case skew.Abs() > maxClockSkew:
		r.addResult(finding.SeverityWarning, "synchronize the clocks (NTP)", "the API server's clock is %s %s this machine's clock, so tokens might be rejected", terminal.FormatDuration(skew.Abs()), side)
	default:
		r.addResult(finding.SeverityOK, "", "within %s of the API server's clock", maxClockSkew)
	}
}

// readPod fetches the pod from the API server, and caches the result.
func (c *Cluster) readPod(ctx context.Context) error {
	if c.pod == nil && c.podErr == nil {
		c.pod, c.podErr = c.Client.Pod(ctx, c.Namespace, c.PodName)
	}
	return c.podErr
}

func checkPod(ctx context.Context, w *Input, r *checkResults) {
	c := w.Cluster
	if err := c.readPod(ctx); err != nil {
		r.addErrors(err, KubeFix(err, c.configPath))
		return
	}
	account := "without a service account, as with static pods"
	if c.pod.ServiceAccount != "" {
		account = "with service account " + c.pod.ServiceAccount
	}
	r.addResult(finding.SeverityOK, "", "%s/%s, %s", c.Namespace, c.PodName, account)
}

// checkPullSecrets checks the pod's pull secrets. The kubelet ignores secrets that it cannot
// read and secrets of other types. It fails the pull if it cannot decode a secret.
func checkPullSecrets(ctx context.Context, w *Input, r *checkResults) {
	c := w.Cluster
	if len(c.pod.PullSecrets) == 0 {
		r.addResult(finding.SeverityOK, "", "the pod lists none")
		return
	}
	secrets, err := c.Client.PullSecrets(ctx, c.pod.Namespace, c.pod.PullSecrets)
	for _, e := range terminal.FlattenErrors(err) {
		r.addResult(finding.SeverityWarning, c.secretFix(ctx, e), "%v; the kubelet skips this secret", e)
	}
	read := 0
	for i := range secrets {
		name := secrets[i].Namespace + "/" + secrets[i].Name
		if why := SecretIgnoredReason(&secrets[i]); why != "" {
			r.addResult(finding.SeverityWarning, "", "%s is a Secret %s; the kubelet ignores it", name, why)
		} else if err := parseSecret(&secrets[i]); errors.Is(err, regularfile.ErrLimit) {
			r.addResult(finding.SeverityWarning, "", "%s: %v; regcred does not read it, but the kubelet does", name, err)
		} else if err != nil {
			r.addResult(finding.SeverityError, "fix the secret, or remove it from the pod", "%s: %v; because of this secret, the kubelet does not pull any image for this pod", name, err)
		} else {
			read++
			addSecretFindings(r, &secrets[i])
		}
	}
	if read > 0 {
		r.addResult(finding.SeverityOK, "", "%s read", terminal.FormatCount(read, "secret"))
	}
}

// addSecretFindings adds the linter's findings about a secret as warnings.
func addSecretFindings(r *checkResults, s *regcred.PullSecret) {
	for _, f := range r.filterFindings(&config.Config{}, SecretFindings(s, time.Now())) {
		if f.Severity != finding.SeverityInfo {
			f.Severity, f.Fix = finding.SeverityWarning, report.FindingFix(f)
			r.addFinding(f)
		}
	}
}

// secretFix returns how to fix a secret that cannot be read. For a missing secret, it
// names the object that references it.
func (c *Cluster) secretFix(ctx context.Context, err error) string {
	missing, ok := errors.AsType[*kube.Error](err)
	by := "the pod"
	if ok && c.pod.ServiceAccount != "" {
		names, err := c.Client.AccountPullSecrets(ctx, c.pod.Namespace, c.pod.ServiceAccount)
		if err == nil && slices.Contains(names, missing.Name) {
			by = "service account " + c.pod.ServiceAccount
		}
	}
	return SecretFix(err, by, c.pod.Namespace, c.configPath)
}

// SecretFix returns how to fix a secret that cannot be read. by is the object in
// namespace that references the secret.
func SecretFix(err error, by, namespace, config string) string {
	if e, ok := errors.AsType[*kube.Error](err); !ok || e.Code != http.StatusNotFound {
		return KubeFix(err, config)
	}
	return fmt.Sprintf("%s refers to this secret: create it in namespace %s (secrets in other namespaces are ignored), or remove the reference", by, namespace)
}

// checkServiceAccount checks whether the pod's service account has the annotations that
// providers require.
func checkServiceAccount(ctx context.Context, w *Input, r *checkResults) {
	c := w.Cluster
	if c.pod.ServiceAccount == "" || len(Audiences(c.config)) == 0 {
		return
	}
	account, err := c.Client.GetServiceAccount(ctx, c.pod.Namespace, c.pod.ServiceAccount)
	if err != nil {
		r.addErrors(err, KubeFix(err, c.configPath))
		return
	}
	missing := false
	for _, p := range c.config.Providers {
		if p.TokenAttributes == nil {
			continue
		}
		for _, key := range p.TokenAttributes.RequiredServiceAccountAnnotationKeys {
			if _, ok := account.Annotations[key]; !ok {
				missing = true
				id := &regcred.Identity{ServiceAccount: regcred.ObjectRef{Namespace: account.Namespace, Name: account.Name}, Missing: key}
				r.addResult(finding.SeverityWarning, annotateCommand(id), "%s/%s lacks the annotation %q, so provider %q is not run for its pods", account.Namespace, account.Name, key, p.Name)
			}
		}
	}
	if !missing {
		r.addResult(finding.SeverityOK, "", "%s/%s has the annotations that providers require", account.Namespace, account.Name)
	}
}

// tryTokenRequests sends a dry-run TokenRequest for each audience, and caches the results.
func (c *Cluster) tryTokenRequests(ctx context.Context) []tokenRequestResult {
	if c.tokenResults != nil {
		return c.tokenResults
	}
	for _, audience := range Audiences(c.config) {
		try := tokenRequestResult{audience: audience}
		switch {
		case c.pod == nil:
			try.skipped = "tokens are requested only if a pod is specified"
		case c.pod.ServiceAccount == "":
			try.skipped = "the pod has no service account"
		default:
			try.err = c.tryTokenRequest(ctx, audience)
		}
		c.tokenResults = append(c.tokenResults, try)
	}
	return c.tokenResults
}

func (c *Cluster) tryTokenRequest(ctx context.Context, audience string) error {
	account, err := c.Client.GetServiceAccount(ctx, c.pod.Namespace, c.pod.ServiceAccount)
	if err != nil {
		return err
	}
	return c.Client.TryToken(ctx, regcred.TokenRequest{
		Namespace:         c.pod.Namespace,
		ServiceAccount:    c.pod.ServiceAccount,
		ServiceAccountUID: account.UID,
		PodName:           c.pod.Name,
		PodUID:            c.pod.UID,
		Audience:          audience,
	})
}

func checkTokens(ctx context.Context, w *Input, r *checkResults) {
	c := w.Cluster
	for _, t := range c.tryTokenRequests(ctx) {
		switch {
		case t.skipped != "":
			fix := ""
			if c.pod == nil {
				fix = "use --pod NAMESPACE/NAME with a pod on this node"
			}
			r.addResult(finding.SeveritySkipped, fix, "for audience %q: %s", t.audience, t.skipped)
		case t.err != nil:
			r.addErrors(fmt.Errorf("for audience %q: %w", t.audience, t.err), KubeFix(t.err, c.configPath))
		default:
			r.addResult(finding.SeverityOK, "", "for audience %q: token granted to the pod (dry run)", t.audience)
		}
	}
}

// checkPermissions checks each permission that a lookup needs.
func checkPermissions(ctx context.Context, w *Input, r *checkResults) {
	c := w.Cluster
	tries := c.tryTokenRequests(ctx)
	if len(tries) == 0 {
		r.addResult(finding.SeverityOK, "", "no permissions needed, because no provider has tokenAttributes")
		return
	}
	namespace, name := "", ""
	if c.pod != nil {
		namespace, name = c.pod.Namespace, c.pod.ServiceAccount
	}
	if c.isNode() { // the Node authorizer grants the other permissions
		for _, t := range tries {
			granted := t.skipped == "" && t.err == nil
			c.checkAccess(ctx, r, kube.Access{Verb: RequestAudienceVerb, Resource: t.audience, Namespace: namespace, Name: name}, granted)
		}
		return
	}
	c.checkAccess(ctx, r, kube.Access{Verb: "get", Resource: "serviceaccounts", Namespace: namespace, Name: name}, false)
	c.checkAccess(ctx, r, kube.Access{Verb: "create", Resource: "serviceaccounts", Subresource: "token", Namespace: namespace, Name: name}, false)
	if c.pod == nil {
		c.checkAccess(ctx, r, kube.Access{Verb: "get", Resource: "pods"}, false)
	}
}

// checkAccess checks whether the user has a permission. granted means that the dry-run token
// request succeeded. Then a missing permission is only a warning.
func (c *Cluster) checkAccess(ctx context.Context, r *checkResults, access kube.Access, granted bool) {
	what := accessText(access)
	allowed, reason, err := c.Client.Allowed(ctx, access)
	if reason != "" {
		reason = ": " + reason
	}
	switch {
	case err != nil:
		r.addErrors(fmt.Errorf("%s: %w", what, err), KubeFix(err, c.configPath))
	case allowed:
		r.addResult(finding.SeverityOK, "", "%s", what)
	case granted:
		r.addResult(finding.SeverityWarning, c.grantCommand(), "%s is not allowed to %s%s; this pod gets a token anyway, because one of its volumes uses this audience or the API server does not restrict audiences (before Kubernetes 1.33, or without NodeRestriction)", c.user.Username, what, reason)
	default:
		if access.Namespace == "" {
			reason += "; with --pod, a role in the pod's namespace is enough"
		}
		r.addResult(finding.SeverityError, c.grantCommand(), "%s is not allowed to %s%s", c.user.Username, what, reason)
	}
}

// grantCommand returns the command that grants the client's user the permissions for
// lookups.
func (c *Cluster) grantCommand() string {
	user := c.user.Username
	if c.isNode() {
		user = NodesGroup
	}
	return grantPermissionsCommand(user, c.configPath, false)
}

func accessText(a kube.Access) string {
	what := a.Verb + " " + a.Resource
	switch {
	case a.Verb == RequestAudienceVerb:
		what = fmt.Sprintf("request tokens for audience %q", a.Resource)
	case a.Subresource != "":
		what += "/" + a.Subresource
	}
	switch {
	case a.Namespace == "":
		return what + ", in every namespace"
	case a.Name == "":
		return what + " in namespace " + a.Namespace
	}
	return fmt.Sprintf("%s of %s/%s", what, a.Namespace, a.Name)
}
