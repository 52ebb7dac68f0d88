// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/terminal"
)

// lookupFlags are the flags of the commands that look up credentials.
type lookupFlags struct {
	noNodeConfig bool
	pullSecrets  []string
	identityFlags

	pod, serviceAccount objectName
	kubeFlags
}

func addLookupFlags(cmd *cobra.Command) *lookupFlags {
	l := &lookupFlags{}
	f := cmd.Flags()
	f.StringArrayVar(&l.pullSecrets, "pull-secret", nil,
		"`file` with an image pull secret: a Secret manifest or a docker config.json; may be repeated")
	f.BoolVar(&l.noNodeConfig, "no-node-config", false, "leave out the node's docker config files")
	f.Var(&l.pod, "pod", "look up as for this pod: with its pull secrets, and with its service account for providers with tokenAttributes")
	f.Var(&l.serviceAccount, "service-account", "look up as for a pod of this service account, without one: its pull secrets, and a token that is bound to no pod")
	l.kubeFlags.register(cmd)
	l.identityFlags.register(cmd)
	return l
}

// check refuses flags that do not go together.
func (l *lookupFlags) check() error {
	if err := l.identityFlags.check(); err != nil {
		return err
	}
	if l.kubeFlags != (kubeFlags{}) && !l.asksCluster() {
		return usageError("", "--kubeconfig and --context say how to ask about a pod: give --pod or --service-account too")
	}
	return oneAtMost(
		given{"pod", l.pod.String()},
		given{"service-account", l.serviceAccount.String()},
		given{"service-account-token-file", l.tokenFile})
}

// asksCluster reports whether an API server is asked, about a pod or an account.
func (l *lookupFlags) asksCluster() bool { return l.pod.given() || l.serviceAccount.given() }

// podFlags returns the flags that were given and bring credentials of a pod.
// Without them, credentials are the node's.
func (l *lookupFlags) podFlags() []string {
	return whichGiven(
		given{"pod", l.pod.String()},
		given{"service-account", l.serviceAccount.String()},
		given{"pull-secret", strings.Join(l.pullSecrets, ",")},
		given{"service-account-token-file", l.tokenFile})
}

// arguments are the flags that say for whom is looked up, for a command line
// that asks the same again.
func (l *lookupFlags) arguments() string {
	var b strings.Builder
	add := func(flag string, values ...string) {
		for _, value := range values {
			if value != "" {
				b.WriteString("--" + flag + " " + terminal.ShellWord(value) + " ")
			}
		}
	}
	add("pod", l.pod.String())
	add("service-account", l.serviceAccount.String())
	add("kubeconfig", l.kubeconfig)
	add("context", l.context)
	if l.noNodeConfig {
		b.WriteString("--no-node-config ")
	}
	add("service-account-token-file", l.tokenFile)
	add("pull-secret", l.pullSecrets...)
	add("annotation", l.pairs...)
	return b.String()
}

// request makes the question to a keyring out of the flags, for a subject if
// that is not nil; what is asked about is left open. The pod's own pull secrets
// come before those of files: a kubelet has all in one keyring.
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

// explainCommand is how to ask about an image again, of the same configuration.
func (a *app) explainCommand(image string) string {
	command := "regcred explain"
	for _, s := range []setting{a.config, a.binDir} {
		if s.by != "" {
			command += " --" + s.by + " " + terminal.ShellWord(s.value)
		}
	}
	if a.asKubelet != "" {
		command += " --as-kubelet=" + terminal.ShellWord(a.asKubelet)
	}
	return command + " " + image
}
