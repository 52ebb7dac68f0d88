// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/dockerconfig"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/kube"
)

// clusterCheck is the part of doctor that asks an API server.
type clusterCheck struct {
	*doctorReport
	*cluster
	cfg    *regcred.Config
	config string // its path
	who    kube.Identity
	pod    *kube.Pod // nil without --pod
	clock  *serverClock
}

// maxSkew is a difference of clocks that is worth a warning: tokens and the
// requests that clouds sign are valid for minutes.
const maxSkew = 30 * time.Second

// checkClusterFor is checkCluster, also where origin or configuration are
// missing. In place of a kubelet that is not found it asks as nobody else: what
// another identity may do is no answer to --as-kubelet.
func (a *app) checkClusterFor(ctx context.Context, r *doctorReport, o *origin, cfg *regcred.Config, d *doctorFlags) {
	if o == nil && a.asKubelet != "" && d.kubeconfig == "" {
		r.add("api-server", doctorSkip, "give the kubelet's own --kubeconfig, such as /etc/kubernetes/kubelet.conf", "not asked, since there is no kubelet to ask as")
		return
	}
	if o == nil {
		o = &origin{environ: a.environ, dir: a.dir}
	}
	if cfg == nil {
		cfg = &regcred.Config{}
	}
	a.checkCluster(ctx, r, o, cfg, d)
}

// checkCluster looks at what a pull depends on beyond this machine.
func (a *app) checkCluster(ctx context.Context, r *doctorReport, o *origin, cfg *regcred.Config, d *doctorFlags) {
	c := &clusterCheck{doctorReport: r, cfg: cfg, config: o.config, clock: &serverClock{now: a.Now}}
	var err error
	if c.cluster, err = a.connect(o, d.kubeFlags, c.clock.watch); err != nil {
		r.fail("api-server", err, "")
		return
	}
	if !c.checkIdentity(ctx) {
		return
	}
	c.checkClock()
	if d.pod.given() && !c.checkPod(ctx, d.pod) {
		return
	}
	tries := c.tryTokens(ctx)
	c.checkPermissions(ctx, tries)
	c.reportTokens(tries)
}

// serverClock compares the clocks of an API server and of this machine.
type serverClock struct {
	now  func() time.Time
	skew time.Duration // how far the server is ahead
	seen bool
}

// watch takes the time from the first answer that comes through next; later
// ones may come side by side.
func (s *serverClock) watch(next http.RoundTripper) http.RoundTripper {
	return &clockTransport{next: next, clock: s}
}

type clockTransport struct {
	next  http.RoundTripper
	clock *serverClock
	first sync.Once
}

func (t *clockTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := t.clock.now()
	resp, err := t.next.RoundTrip(req)
	if err == nil {
		t.first.Do(func() { t.clock.read(sent, resp.Header.Get("Date")) })
	}
	return resp, err
}

// read takes the middle of an exchange for the moment of its answer.
func (s *serverClock) read(sent time.Time, answered string) {
	date, err := http.ParseTime(answered)
	if s.seen = err == nil; s.seen {
		s.skew = date.Sub(sent.Add(s.now().Sub(sent) / 2))
	}
}

// checkIdentity asks who we are, and thereby whether anybody answers.
func (c *clusterCheck) checkIdentity(ctx context.Context) bool {
	var err error
	if c.who, err = c.WhoAmI(ctx); err != nil {
		c.fail("api-server", err, kubeRemedy(err, c.config))
		return false
	}
	c.add("api-server", doctorOK, "", "%s answers (%s)", c.URL(), c.from)
	if c.isNode() {
		c.add("identity", doctorOK, "", "%s, a node", c.who.Username)
		return true
	}
	c.add("identity", doctorOK, "", "%s; what follows is what this identity may do, and not what the kubelets may (those: --as-kubelet, on a node)", c.who.Username)
	return true
}

// isNode reports whether our identity is that of a kubelet.
func (c *clusterCheck) isNode() bool {
	return strings.HasPrefix(c.who.Username, nodeUserPrefix) && slices.Contains(c.who.Groups, nodesGroup)
}

func (c *clusterCheck) checkClock() {
	skew := c.clock.skew.Round(time.Second)
	switch {
	case !c.clock.seen:
		c.add("clock", doctorSkip, "", "the API server's answers do not tell its time")
	case skew.Abs() > maxSkew:
		c.add("clock", doctorWarn, "synchronise the clocks (NTP)", "the API server's clock is %s this machine's; tokens may be refused", aheadText(skew))
	default:
		c.add("clock", doctorOK, "", "within %s of the API server's", maxSkew)
	}
}

func aheadText(skew time.Duration) string {
	if skew > 0 {
		return terminal.Span(skew) + " ahead of"
	}
	return terminal.Span(-skew) + " behind"
}

func (c *clusterCheck) checkPod(ctx context.Context, n objectName) bool {
	var err error
	if c.pod, err = c.Client.Pod(ctx, n.namespace, n.name); err != nil {
		c.fail("pod", err, kubeRemedy(err, c.config))
		return false
	}
	account := "without service account, as static pods are"
	if c.pod.ServiceAccount != "" {
		account = "with service account " + c.pod.ServiceAccount
	}
	c.add("pod", doctorOK, "", "%s, %s", n.String(), account)
	c.checkPullSecrets(ctx)
	c.checkAccount(ctx)
	return true
}

// checkPullSecrets reads them. kubelet: those that cannot be read, or are none,
// are left out; one that does not parse fails the pull.
func (c *clusterCheck) checkPullSecrets(ctx context.Context) {
	if len(c.pod.PullSecrets) == 0 {
		c.add("pull-secrets", doctorOK, "", "the pod names none")
		return
	}
	secrets, err := c.PullSecrets(ctx, c.pod.Namespace, c.pod.PullSecrets)
	for _, e := range terminal.Flatten(err) {
		c.add("pull-secrets", doctorWarn, kubeRemedy(e, c.config), "%v; a kubelet goes on without it", e)
	}
	read := 0
	for i := range secrets {
		name := secrets[i].Namespace + "/" + secrets[i].Name
		if why := passedOver(&secrets[i]); why != "" {
			c.add("pull-secrets", doctorWarn, "", "%s is a Secret %s; a kubelet goes on without it", name, why)
		} else if err := parseSecret(&secrets[i]); err != nil {
			c.add("pull-secrets", doctorFail, "mend it, or take it from the pod", "%s: %v; a kubelet does not pull for this pod at all", name, err)
		} else {
			read++
		}
	}
	if read > 0 {
		c.add("pull-secrets", doctorOK, "", "%s read", terminal.Count(read, "secret"))
	}
}

// parseSecret says what is wrong with a pull secret that is not passed over.
func parseSecret(s *regcred.PullSecret) (err error) {
	if s.Type == typeDockercfg {
		_, err = dockerconfig.ParseLegacy(s.Data[keyDockercfg])
	} else {
		_, err = dockerconfig.Parse(s.Data[keyDockerConfigJSON])
	}
	return err
}

// checkAccount reads the pod's service account and looks for the annotations
// that providers require.
func (c *clusterCheck) checkAccount(ctx context.Context) {
	if c.pod.ServiceAccount == "" || len(audiencesOf(c.cfg)) == 0 {
		return
	}
	account, err := c.GetServiceAccount(ctx, c.pod.Namespace, c.pod.ServiceAccount)
	if err != nil {
		c.fail("service-account", err, kubeRemedy(err, c.config))
		return
	}
	lacks := false
	for _, p := range c.cfg.Providers {
		if p.TokenAttributes == nil {
			continue
		}
		for _, key := range p.TokenAttributes.RequiredServiceAccountAnnotationKeys {
			if _, ok := account.Annotations[key]; !ok {
				lacks = true
				id := &regcred.Identity{ServiceAccount: regcred.ObjectRef{Namespace: account.Namespace, Name: account.Name}, Missing: key}
				c.add("service-account", doctorWarn, annotateCommand(id), "%s/%s lacks the annotation %q, so provider %q is not asked for its pods", account.Namespace, account.Name, key, p.Name)
			}
		}
	}
	if !lacks {
		c.add("service-account", doctorOK, "", "%s/%s has the annotations that providers require", account.Namespace, account.Name)
	}
}

// tokenTry is a dry run of a TokenRequest.
type tokenTry struct {
	audience string
	skipped  string // why it was not tried
	err      error
}

// tryTokens requests a token for each audience, as a dry run.
func (c *clusterCheck) tryTokens(ctx context.Context) []tokenTry {
	var tries []tokenTry
	for _, audience := range audiencesOf(c.cfg) {
		try := tokenTry{audience: audience}
		switch {
		case c.pod == nil:
			try.skipped = "without a pod, none is requested"
		case c.pod.ServiceAccount == "":
			try.skipped = "the pod has no service account"
		default:
			try.err = c.tryToken(ctx, audience)
		}
		tries = append(tries, try)
	}
	return tries
}

func (c *clusterCheck) tryToken(ctx context.Context, audience string) error {
	account, err := c.GetServiceAccount(ctx, c.pod.Namespace, c.pod.ServiceAccount)
	if err != nil {
		return err
	}
	return c.TryToken(ctx, regcred.TokenRequest{
		Namespace:         c.pod.Namespace,
		ServiceAccount:    c.pod.ServiceAccount,
		ServiceAccountUID: account.UID,
		PodName:           c.pod.Name,
		PodUID:            c.pod.UID,
		Audience:          audience,
	})
}

func (c *clusterCheck) reportTokens(tries []tokenTry) {
	for _, t := range tries {
		switch {
		case t.skipped != "":
			fix := ""
			if c.pod == nil {
				fix = "--pod NAMESPACE/NAME, of a pod on this node"
			}
			c.add("token", doctorSkip, fix, "for audience %q: %s", t.audience, t.skipped)
		case t.err != nil:
			c.fail("token", fmt.Errorf("for audience %q: %w", t.audience, t.err), kubeRemedy(t.err, c.config))
		default:
			c.add("token", doctorOK, "", "for audience %q: granted to the pod (dry run)", t.audience)
		}
	}
}

// checkPermissions asks for each right that lookups need.
func (c *clusterCheck) checkPermissions(ctx context.Context, tries []tokenTry) {
	if len(tries) == 0 {
		c.add("permission", doctorOK, "", "no provider has tokenAttributes, so none is needed")
		return
	}
	namespace, name := "", ""
	if c.pod != nil {
		namespace, name = c.pod.Namespace, c.pod.ServiceAccount
	}
	if c.isNode() { // the Node authorizer grants the rest
		for _, t := range tries {
			granted := t.skipped == "" && t.err == nil
			c.may(ctx, kube.Access{Verb: audienceVerb, Resource: t.audience, Namespace: namespace, Name: name}, granted)
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
func (c *clusterCheck) may(ctx context.Context, access kube.Access, granted bool) {
	what := describeAccess(access)
	allowed, reason, err := c.Allowed(ctx, access)
	if reason != "" {
		reason = ": " + reason
	}
	switch {
	case err != nil:
		c.fail("permission", fmt.Errorf("%s: %w", what, err), kubeRemedy(err, c.config))
	case allowed:
		c.add("permission", doctorOK, "", "%s", what)
	case granted:
		c.add("permission", doctorWarn, c.grant(), "%s may not %s%s; this pod gets one all the same: a volume of it names the audience, or the API server does not restrict audiences (before Kubernetes 1.33, or without NodeRestriction)", c.who.Username, what, reason)
	default:
		if access.Namespace == "" {
			reason += "; with --pod, a role in the pod's namespace counts too"
		}
		c.add("permission", doctorFail, c.grant(), "%s may not %s%s", c.who.Username, what, reason)
	}
}

// grant is the command that gives our identity what lookups need.
func (c *clusterCheck) grant() string {
	user := c.who.Username
	if c.isNode() {
		user = nodesGroup
	}
	return rbacCommand(user, c.config, false)
}

func describeAccess(a kube.Access) string {
	what := a.Verb + " " + a.Resource
	switch {
	case a.Verb == audienceVerb:
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
