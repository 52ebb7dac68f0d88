// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/internal/terminal"
)

// lookupFlags holds the flags of the commands that look up credentials.
type lookupFlags struct {
	noNodeConfig bool
	pullSecrets  []string
	identityFlags

	pod, serviceAccount objectName
	kubeFlags
	registries bool // the command contacts registries, so --ca-file applies to them too
}

func addLookupFlags(cmd *cobra.Command) *lookupFlags {
	l := &lookupFlags{}
	f := cmd.Flags()
	f.StringArrayVar(&l.pullSecrets, "pull-secret", nil,
		"`file` with an image pull secret: a Secret manifest or a docker config.json; may be repeated")
	f.BoolVar(&l.noNodeConfig, "no-node-config", false, "ignore the node's docker config files")
	f.Var(&l.pod, "pod", "look up credentials for this pod, using its pull secrets and, for providers with tokenAttributes, its service account")
	f.Var(&l.serviceAccount, "service-account", "look up credentials for this service account without a pod, using the service account's pull secrets and a token that is not bound to a pod")
	l.kubeFlags.register(cmd)
	l.identityFlags.register(cmd)
	inGroup(cmd, groupSubject, "pull-secret", "no-node-config", "pod", "service-account", "service-account-token-file", "annotation")
	return l
}

// check rejects incompatible flags.
func (l *lookupFlags) check() error {
	if err := l.identityFlags.check(); err != nil {
		return err
	}
	if given := l.kubeFlags.given(); len(given) > 0 && !l.asksCluster() && !(l.registries && given[0] == "--ca-file") {
		return usageError("", "%s requires --pod or --service-account", strings.Join(given, " "))
	}
	return oneAtMost(
		given{"pod", l.pod.String()},
		given{"service-account", l.serviceAccount.String()},
		given{"service-account-token-file", l.tokenFile})
}

// asksCluster reports whether the lookup queries an API server for a pod or service
// account.
func (l *lookupFlags) asksCluster() bool { return l.pod.given() || l.serviceAccount.given() }

// podFlags returns the flags that are set and add credentials of a pod. Without any,
// only the node's credentials are used.
func (l *lookupFlags) podFlags() []string {
	return whichGiven(
		given{"pod", l.pod.String()},
		given{"service-account", l.serviceAccount.String()},
		given{"pull-secret", strings.Join(l.pullSecrets, ",")},
		given{"service-account-token-file", l.tokenFile})
}

// arguments returns the flags that select the pod or service account, to repeat the
// lookup with another command.
func (l *lookupFlags) arguments() []string {
	var words []string
	add := func(flag string, values ...string) {
		for _, value := range values {
			if value != "" {
				words = append(words, "--"+flag, terminal.ShellWord(value))
			}
		}
	}
	add("pod", l.pod.String())
	add("service-account", l.serviceAccount.String())
	if l.asksCluster() { // otherwise explain rejects them
		add("kubeconfig", l.kubeconfig)
		add("context", l.context)
		add("ca-file", string(l.caFile))
	}
	if l.noNodeConfig {
		words = append(words, "--no-node-config")
	}
	add("service-account-token-file", l.tokenFile)
	add("pull-secret", l.pullSecrets...)
	add("annotation", l.pairs...)
	return words
}

// request returns a lookup request from the flags and the subject, which may be nil.
// The caller sets the image or registry. kubelet: the pod's own pull secrets come
// before secrets from files, in one keyring.
func (l *lookupFlags) request(ctx context.Context, s *kubeSubject) (req regcred.Request, err error) {
	if s != nil {
		req.Pod, req.PullSecrets = &s.pod.Pod, slices.Clone(s.secrets)
	}
	for _, name := range l.pullSecrets {
		secret, err := readPullSecret(ctx, name)
		if err != nil {
			return req, fmt.Errorf("--pull-secret: %w", err)
		}
		req.PullSecrets = append(req.PullSecrets, *secret)
	}
	req.Token, req.Annotations, err = l.identityFlags.read(ctx)
	return req, err
}

// again returns a command line, quoted for a shell, that uses the same configuration.
func (a *app) again(command string, words ...string) string {
	line := []string{calledAs(os.Args[0]), command}
	for _, s := range []struct {
		*setting
		flag string
	}{{&a.config, "--config"}, {&a.binDir, "--bin-dir"}} {
		if s.by != "" {
			if s.byFlag() {
				s.flag = s.by
			}
			line = append(line, s.flag, terminal.ShellWord(s.value))
		}
	}
	switch a.asKubelet {
	case "":
	case kubeletOfNode:
		line = append(line, "--as-kubelet")
	default:
		line = append(line, "--as-kubelet="+terminal.ShellWord(a.asKubelet))
	}
	if a.rootDir != "" {
		line = append(line, "--root-dir", terminal.ShellWord(a.rootDir))
	}
	if a.timeout != protocol.Timeout {
		line = append(line, "--plugin-timeout", a.timeout.String())
	}
	return strings.Join(append(line, words...), " ")
}
