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

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/kube"
	"github.com/spf13/cobra"
)

// kubeFlags say which API server is asked, and as whom.
type kubeFlags struct{ kubeconfig, context string }

func (k *kubeFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&k.kubeconfig, "kubeconfig", "",
		"`file` that says where the API server is; by default the kubelet's with --as-kubelet, else that of KUBECONFIG, of the pod that regcred runs in, or ~/.kube/config")
	f.StringVar(&k.context, "context", "", "`name` of the context of the kubeconfig to use")
}

// objectName is a flag that names an object in a namespace.
type objectName struct{ namespace, name string }

func (n *objectName) given() bool  { return n.name != "" }
func (n *objectName) Type() string { return "NAMESPACE/NAME" }

func (n *objectName) String() string {
	if n == nil || !n.given() {
		return ""
	}
	return n.namespace + "/" + n.name
}

func (n *objectName) Set(v string) error {
	namespace, name, _ := strings.Cut(v, "/")
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return errors.New("want NAMESPACE/NAME")
	}
	n.namespace, n.name = namespace, name
	return nil
}

// given is a flag and its value, empty if it was not given.
type given struct{ flag, value string }

// oneAtMost refuses flags that exclude each other.
func oneAtMost(flags ...given) error {
	var set []string
	for _, f := range flags {
		if f.value != "" {
			set = append(set, "--"+f.flag)
		}
	}
	if len(set) < 2 {
		return nil
	}
	return usageError("", "%s exclude each other", strings.Join(set, " and "))
}

// cluster is an API server, and how it was found.
type cluster struct {
	*kube.Client
	from string // where its address and our identity are from
}

// connect makes a client of the API server that the flags name, or that o has
// from a running kubelet. It does not call it. wrap, if not nil, sees each call.
func (a *app) connect(o *origin, k kubeFlags, wrap func(http.RoundTripper) http.RoundTripper) (*cluster, error) {
	opts := kube.ConfigOptions{Kubeconfig: k.kubeconfig, Context: k.context, Environ: o.environ}
	if k.kubeconfig == "" && o.kubelet != 0 {
		if opts.Kubeconfig = o.kubeconfig; opts.Kubeconfig == "" {
			return nil, withHint(fmt.Errorf("kubelet process %d runs without --%s, so it knows no API server", o.kubelet, kubeconfigFlag), "give --kubeconfig")
		}
	}
	cfg, from, err := kube.Config(opts)
	if err != nil {
		hint := ""
		if opts.Kubeconfig == "" {
			hint = "give --kubeconfig, or --as-kubelet for the running kubelet's own"
		}
		return nil, withHint(err, hint)
	}
	cfg.Wrap(wrap)
	c := &cluster{from: from}
	if c.Client, err = kube.New(cfg, kube.Options{Logger: a.logger()}); err != nil {
		return nil, err
	}
	if k.kubeconfig == "" || a.verbose || cfg.Insecure {
		a.note("asking API server %s (%s)", c.URL(), c.from)
	}
	return c, nil
}

// kubeSubject is for whom images are pulled, as an API server knows it.
type kubeSubject struct {
	*cluster
	pod     regcred.Pod // without name with --service-account
	node    string
	images  []string // of the pod
	secrets []regcred.PullSecret
	names   []string // of the secrets, also of those that could not be read
	unread  []regcred.AuthSource
}

// findSubject asks the API server about the pod or service account that the
// flags name; nil if they name none.
func (a *app) findSubject(ctx context.Context, o *origin, l *lookupFlags) (*kubeSubject, error) {
	if !l.pod.given() && !l.serviceAccount.given() {
		return nil, nil
	}
	c, err := a.connect(o, l.kubeFlags, nil)
	if err != nil {
		return nil, err
	}
	s := &kubeSubject{cluster: c}
	if l.pod.given() {
		err = s.readPod(ctx, l.pod)
	} else {
		err = s.readAccount(ctx, l.serviceAccount)
	}
	if err != nil {
		return nil, withHint(err, kubeRemedy(err, o.config))
	}
	s.readSecrets(ctx)
	return s, nil
}

func (s *kubeSubject) readPod(ctx context.Context, n objectName) error {
	pod, err := s.Pod(ctx, n.namespace, n.name)
	if err != nil {
		return err
	}
	s.pod, s.node, s.images, s.names = pod.Pod, pod.Node, pod.Images, pod.PullSecrets
	return nil
}

func (s *kubeSubject) readAccount(ctx context.Context, n objectName) error {
	names, err := s.AccountPullSecrets(ctx, n.namespace, n.name)
	s.pod, s.names = regcred.Pod{Namespace: n.namespace, ServiceAccount: n.name}, names
	return err
}

// isPod tells a pod from a mere service account.
func (s *kubeSubject) isPod() bool { return s.pod.Name != "" }

// differences says what a kubelet does otherwise for the pods of a service account.
func (s *kubeSubject) differences() []string {
	if s.isPod() {
		return nil
	}
	return []string{
		"a kubelet's token is bound to the pod and its node; this one is bound to neither, and a node's own identity cannot get one",
		"these are the pull secrets of the service account; a pod that names some itself has only those",
		"with cacheType Token a kubelet asks anew for each pod, since each has a token of its own",
	}
}

// noteSubject says what get and pull do not show.
func (a *app) noteSubject(s *kubeSubject) {
	for _, d := range s.differences() {
		a.note("without a pod: %s", d)
	}
}

// noteImage tells of a pod that does not have the image that is asked about.
func (a *app) noteImage(cfg *regcred.Config, s *kubeSubject, repository string) {
	if s == nil || len(s.images) == 0 {
		return
	}
	has := func(image string) bool { return cfg.Explain(image).Repository == repository }
	if !slices.ContainsFunc(s.images, has) {
		a.note("pod %s/%s has no container with this image; it has %s", s.pod.Namespace, s.pod.Name, strings.Join(s.images, ", "))
	}
}

// unreadSecret is a pull secret that could not be had from the API server. It
// is a keyring of its own, which fails. kubelet: one that cannot be read is
// left out, and recorded as an event; one that does not parse fails the pull.
type unreadSecret struct {
	name string // with its namespace
	err  error
}

// unreadError is the failure of an unreadSecret.
type unreadError struct{ error }

func (e *unreadError) Unwrap() error { return e.error }

const unreadPrefix = "pull secret "

// Name is that of the keyring.
func (u *unreadSecret) Name() string { return unreadPrefix + u.name }

// Auths always fails.
func (u *unreadSecret) Auths(context.Context, string) ([]regcred.AuthSet, error) {
	return nil, &unreadError{u.err}
}

// readSecrets reads the pull secrets, and notes which cannot be had.
func (s *kubeSubject) readSecrets(ctx context.Context) {
	var err error
	s.secrets, err = s.PullSecrets(ctx, s.pod.Namespace, s.names)
	for _, err := range flatten(err) {
		name := s.pod.Namespace
		if e, ok := errors.AsType[*kube.Error](err); ok {
			name += "/" + e.Name
		}
		s.unread = append(s.unread, &unreadSecret{name, err})
	}
}
