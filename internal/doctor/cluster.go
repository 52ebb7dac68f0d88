// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
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
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/kube"
)

// Cluster is a cluster that is checked, and as whom.
type Cluster struct {
	*Report    // of the checks
	Client     *kube.Client
	From       string // where its address and our identity are from
	Clock      *Clock // that watches the client
	Config     *config.Config
	ConfigPath string
	Namespace  string // of PodName
	PodName    string // "" = no pod in particular, and no token is tried

	who kube.Identity
	pod *kube.Pod // nil without one
}

// maxSkew is a difference of clocks that is worth a warning: tokens and the
// requests that clouds sign are valid for minutes.
const maxSkew = 30 * time.Second

// Check checks what a pull depends on beyond this machine.
func (c *Cluster) Check(ctx context.Context) {
	if !c.checkIdentity(ctx) {
		return
	}
	c.checkClock()
	if c.PodName != "" && !c.checkPod(ctx) {
		return
	}
	tries := c.tryTokens(ctx)
	c.checkPermissions(ctx, tries)
	c.reportTokens(tries)
}

// checkIdentity asks who we are, and thereby whether anybody answers.
func (c *Cluster) checkIdentity(ctx context.Context) bool {
	var err error
	if c.who, err = c.Client.WhoAmI(ctx); err != nil {
		c.Fail("api-server", err, KubeRemedy(err, c.ConfigPath))
		return false
	}
	c.Add("api-server", OK, "", "%s responds (%s)", c.Client.URL(), c.From)
	what := "; the checks below use this identity instead of a kubelet's identity (to use a kubelet's identity, run with --as-kubelet on a node)"
	if c.isNode() {
		what = ", a node"
	}
	c.Add("identity", OK, "", "%s%s", c.who.Username, what)
	return true
}

// isNode reports whether our identity is that of a kubelet.
func (c *Cluster) isNode() bool {
	return strings.HasPrefix(c.who.Username, NodeUserPrefix) && slices.Contains(c.who.Groups, NodesGroup)
}

func (c *Cluster) checkClock() {
	skew, side := c.Clock.skew.Round(time.Second), "ahead of"
	if skew < 0 {
		side = "behind"
	}
	switch {
	case !c.Clock.seen:
		c.Add("clock", Skip, "", "the API server's responses have no Date header")
	case skew.Abs() > maxSkew:
		c.Add("clock", Warn, "synchronize the clocks (NTP)", "the API server's clock is %s %s this machine's clock, so tokens might be rejected", terminal.Span(skew.Abs()), side)
	default:
		c.Add("clock", OK, "", "within %s of the API server's clock", maxSkew)
	}
}

func (c *Cluster) checkPod(ctx context.Context) bool {
	var err error
	if c.pod, err = c.Client.Pod(ctx, c.Namespace, c.PodName); err != nil {
		c.Fail("pod", err, KubeRemedy(err, c.ConfigPath))
		return false
	}
	account := "without a service account, as with static pods"
	if c.pod.ServiceAccount != "" {
		account = "with service account " + c.pod.ServiceAccount
	}
	c.Add("pod", OK, "", "%s/%s, %s", c.Namespace, c.PodName, account)
	c.checkPullSecrets(ctx)
	c.checkAccount(ctx)
	return true
}

// checkPullSecrets reads them. kubelet: those that cannot be read, or are none,
// are left out; one that does not parse fails the pull.
func (c *Cluster) checkPullSecrets(ctx context.Context) {
	if len(c.pod.PullSecrets) == 0 {
		c.Add("pull-secrets", OK, "", "the pod lists none")
		return
	}
	secrets, err := c.Client.PullSecrets(ctx, c.pod.Namespace, c.pod.PullSecrets)
	for _, e := range terminal.Flatten(err) {
		c.Add("pull-secrets", Warn, c.secretRemedy(ctx, e), "%v; the kubelet skips this secret", e)
	}
	read := 0
	for i := range secrets {
		name := secrets[i].Namespace + "/" + secrets[i].Name
		if why := PassedOver(&secrets[i]); why != "" {
			c.Add("pull-secrets", Warn, "", "%s is a Secret %s; the kubelet ignores it", name, why)
		} else if err := parseSecret(&secrets[i]); err != nil {
			c.Add("pull-secrets", Fail, "fix the secret, or remove it from the pod", "%s: %v; the kubelet does not pull any image for this pod", name, err)
		} else {
			read++
			c.addSecretFindings(&secrets[i])
		}
	}
	if read > 0 {
		c.Add("pull-secrets", OK, "", "%s read", terminal.Count(read, "secret"))
	}
}

// addSecretFindings tells of logins that cannot work, or not as they read.
func (c *Cluster) addSecretFindings(s *regcred.PullSecret) {
	for _, f := range c.selected(&config.Config{}, SecretFindings(s, time.Now())) {
		if f.Severity == finding.SeverityInfo {
			continue
		}
		c.Add("pull-secrets", Warn, report.Fix(f), "%s", f.String())
	}
}

// secretRemedy says what to do about a secret that cannot be had. Where it does
// not exist, it matters who names it.
func (c *Cluster) secretRemedy(ctx context.Context, err error) string {
	missing, ok := errors.AsType[*kube.Error](err)
	by := "the pod"
	if ok && c.pod.ServiceAccount != "" {
		names, err := c.Client.AccountPullSecrets(ctx, c.pod.Namespace, c.pod.ServiceAccount)
		if err == nil && slices.Contains(names, missing.Name) {
			by = "service account " + c.pod.ServiceAccount
		}
	}
	return SecretRemedy(err, by, c.pod.Namespace, c.ConfigPath)
}

// SecretRemedy says what to do about a secret that cannot be had, which a pod of a
// namespace or its service account names.
func SecretRemedy(err error, by, namespace, config string) string {
	if e, ok := errors.AsType[*kube.Error](err); !ok || e.Code != http.StatusNotFound {
		return KubeRemedy(err, config)
	}
	return fmt.Sprintf("%s refers to this secret: create it in namespace %s (secrets in other namespaces are ignored), or remove the reference", by, namespace)
}

// checkAccount reads the pod's service account and looks for the annotations
// that providers require.
func (c *Cluster) checkAccount(ctx context.Context) {
	if c.pod.ServiceAccount == "" || len(Audiences(c.Config)) == 0 {
		return
	}
	account, err := c.Client.GetServiceAccount(ctx, c.pod.Namespace, c.pod.ServiceAccount)
	if err != nil {
		c.Fail("service-account", err, KubeRemedy(err, c.ConfigPath))
		return
	}
	lacks := false
	for _, p := range c.Config.Providers {
		if p.TokenAttributes == nil {
			continue
		}
		for _, key := range p.TokenAttributes.RequiredServiceAccountAnnotationKeys {
			if _, ok := account.Annotations[key]; !ok {
				lacks = true
				id := &regcred.Identity{ServiceAccount: regcred.ObjectRef{Namespace: account.Namespace, Name: account.Name}, Missing: key}
				c.Add("service-account", Warn, annotateCommand(id), "%s/%s lacks the annotation %q, so provider %q is not run for its pods", account.Namespace, account.Name, key, p.Name)
			}
		}
	}
	if !lacks {
		c.Add("service-account", OK, "", "%s/%s has the annotations that providers require", account.Namespace, account.Name)
	}
}

// tokenTry is a dry run of a TokenRequest.
type tokenTry struct {
	audience string
	skipped  string // why it was not tried
	err      error
}

// tryTokens requests a token for each audience, as a dry run.
func (c *Cluster) tryTokens(ctx context.Context) []tokenTry {
	var tries []tokenTry
	for _, audience := range Audiences(c.Config) {
		try := tokenTry{audience: audience}
		switch {
		case c.pod == nil:
			try.skipped = "tokens are requested only if a pod is specified"
		case c.pod.ServiceAccount == "":
			try.skipped = "the pod has no service account"
		default:
			try.err = c.tryToken(ctx, audience)
		}
		tries = append(tries, try)
	}
	return tries
}

func (c *Cluster) tryToken(ctx context.Context, audience string) error {
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

func (c *Cluster) reportTokens(tries []tokenTry) {
	for _, t := range tries {
		switch {
		case t.skipped != "":
			fix := ""
			if c.pod == nil {
				fix = "use --pod NAMESPACE/NAME with a pod on this node"
			}
			c.Add("token", Skip, fix, "for audience %q: %s", t.audience, t.skipped)
		case t.err != nil:
			c.Fail("token", fmt.Errorf("for audience %q: %w", t.audience, t.err), KubeRemedy(t.err, c.ConfigPath))
		default:
			c.Add("token", OK, "", "for audience %q: token granted to the pod (dry run)", t.audience)
		}
	}
}

// checkPermissions asks for each right that lookups need.
func (c *Cluster) checkPermissions(ctx context.Context, tries []tokenTry) {
	if len(tries) == 0 {
		c.Add("permission", OK, "", "no permissions needed, because no provider has tokenAttributes")
		return
	}
	namespace, name := "", ""
	if c.pod != nil {
		namespace, name = c.pod.Namespace, c.pod.ServiceAccount
	}
	if c.isNode() { // the Node authorizer grants the rest
		for _, t := range tries {
			granted := t.skipped == "" && t.err == nil
			c.may(ctx, kube.Access{Verb: AudienceVerb, Resource: t.audience, Namespace: namespace, Name: name}, granted)
		}
		return
	}
	c.may(ctx, kube.Access{Verb: "get", Resource: "serviceaccounts", Namespace: namespace, Name: name}, false)
	c.may(ctx, kube.Access{Verb: "create", Resource: "serviceaccounts", Subresource: "token", Namespace: namespace, Name: name}, false)
	if c.pod == nil {
		c.may(ctx, kube.Access{Verb: "get", Resource: "pods"}, false)
	}
}

// may asks for one right. granted says that the API server did without it.
func (c *Cluster) may(ctx context.Context, access kube.Access, granted bool) {
	what := describeAccess(access)
	allowed, reason, err := c.Client.Allowed(ctx, access)
	if reason != "" {
		reason = ": " + reason
	}
	switch {
	case err != nil:
		c.Fail("permission", fmt.Errorf("%s: %w", what, err), KubeRemedy(err, c.ConfigPath))
	case allowed:
		c.Add("permission", OK, "", "%s", what)
	case granted:
		c.Add("permission", Warn, c.grant(), "%s is not allowed to %s%s; this pod gets a token anyway, because one of its volumes uses this audience or the API server does not restrict audiences (before Kubernetes 1.33, or without NodeRestriction)", c.who.Username, what, reason)
	default:
		if access.Namespace == "" {
			reason += "; with --pod, a role in the pod's namespace is enough"
		}
		c.Add("permission", Fail, c.grant(), "%s is not allowed to %s%s", c.who.Username, what, reason)
	}
}

// grant is the command that gives our identity what lookups need.
func (c *Cluster) grant() string {
	user := c.who.Username
	if c.isNode() {
		user = NodesGroup
	}
	return rbacCommand(user, c.ConfigPath, false)
}

func describeAccess(a kube.Access) string {
	what := a.Verb + " " + a.Resource
	switch {
	case a.Verb == AudienceVerb:
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
