// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/plugin"
)

// lookupFlags holds the flags of the commands that look up credentials.
type lookupFlags struct {
	noNodeConfig bool
	pullSecrets  []string
	identityFlags

	pod, serviceAccount objectNameFlag
	kubeFlags
	contactsRegistries bool // the command contacts registries, so --ca-file applies to them too
	usesService        bool // the command calls the node's credential service before it runs a plugin
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
	assignFlagGroup(cmd, flagGroupSubject, "pull-secret", "no-node-config", "pod", "service-account", "service-account-token-file", "annotation")
	return l
}

// check rejects incompatible flags.
func (l *lookupFlags) check() error {
	if err := l.identityFlags.validate(); err != nil {
		return err
	}
	if given := l.kubeFlags.changedFlags(); len(given) > 0 && !l.queriesCluster() && !(l.contactsRegistries && given[0] == "--ca-file") {
		return usageError("", "%s requires --pod or --service-account", strings.Join(given, " "))
	}
	return checkMutuallyExclusive(
		flagValue{"pod", l.pod.String()},
		flagValue{"service-account", l.serviceAccount.String()},
		flagValue{"service-account-token-file", l.tokenFile})
}

// queriesCluster reports whether the lookup calls an API server for a pod or service
// account.
func (l *lookupFlags) queriesCluster() bool { return l.pod.isSet() || l.serviceAccount.isSet() }

// changedPodFlags returns the flags that are set and that add a pod's credentials. If there
// are none, only the node's credentials are used.
func (l *lookupFlags) changedPodFlags() []string {
	return changedFlagNames(
		flagValue{"pod", l.pod.String()},
		flagValue{"service-account", l.serviceAccount.String()},
		flagValue{"pull-secret", strings.Join(l.pullSecrets, ",")},
		flagValue{"service-account-token-file", l.tokenFile})
}

// subjectArgs returns the flags that select the pod or service account. A hint uses them to repeat
// the lookup with another command.
func (l *lookupFlags) subjectArgs() []string {
	var words []string
	add := func(flag string, values ...string) {
		for _, value := range values {
			if value != "" {
				words = append(words, "--"+flag, terminal.QuoteShellWord(value))
			}
		}
	}
	add("pod", l.pod.String())
	add("service-account", l.serviceAccount.String())
	if l.queriesCluster() { // explain rejects these flags without a pod or service account
		add("kubeconfig", l.kubeconfig)
		add("context", l.context)
		add("ca-file", string(l.caFile))
	}
	if l.noNodeConfig {
		words = append(words, "--no-node-config")
	}
	add("service-account-token-file", l.tokenFile)
	add("pull-secret", l.pullSecrets...)
	add("annotation", l.annotationPairs...)
	return words
}

// repeatCommandLine returns a command line that runs another regcred command with the same
// configuration. The line is quoted for a shell.
func (a *app) repeatCommandLine(command string, words ...string) string {
	line := []string{commandName(os.Args[0]), command}
	for _, s := range []struct {
		*aliasedFlag
		flag string
	}{{&a.config, "--config"}, {&a.binDir, "--bin-dir"}} {
		if s.source != "" {
			if s.isSetByFlag() {
				s.flag = s.source
			}
			line = append(line, s.flag, terminal.QuoteShellWord(s.value))
		}
	}
	switch a.asKubelet {
	case "":
	case autoKubelet:
		line = append(line, "--as-kubelet")
	default:
		line = append(line, "--as-kubelet="+terminal.QuoteShellWord(a.asKubelet))
	}
	if a.rootDir != "" {
		line = append(line, "--root-dir", terminal.QuoteShellWord(a.rootDir))
	}
	if a.timeout != protocol.KubeletTimeout {
		line = append(line, "--plugin-timeout", a.timeout.String())
	}
	return strings.Join(append(line, words...), " ")
}

// addTargetArgs adds the argument IMAGE and the flag --registry to cmd. The request
// given to run has no pod or service account.
func addTargetArgs(cmd *cobra.Command, run func(context.Context, regcred.Request) error) {
	var tgt regcred.Request
	cmd.Flags().StringVar(&tgt.Registry, "registry", "",
		"registry `host`, instead of IMAGE; patterns with a path never match a bare host")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if tgt.Registry != "" {
			return optionalArgs()(cmd, args)
		}
		return requireArgs("IMAGE")(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		tgt.Image = strings.Join(args, "")
		return run(cmd.Context(), tgt)
	}
}

// targetArgs returns the command-line arguments that select the target.
func targetArgs(tgt regcred.Request) []string {
	if tgt.Registry != "" {
		return []string{"--registry", terminal.QuoteShellWord(tgt.Registry)}
	}
	return []string{terminal.QuoteShellWord(tgt.Image)}
}

// imageSyntaxHint explains the syntax of an image.
const imageSyntaxHint = "an image has the form [registry[:port]/]repository[:tag][@digest], in lowercase"

// explainTarget matches the target against the providers, and rejects an invalid
// target. It is for commands with [addTargetArgs].
func (a *app) explainTarget(cfg *config.Config, tgt regcred.Request) (regcred.Explanation, error) {
	return a.explainRequest(cfg, tgt, "for the registry with this name, use --registry "+terminal.QuoteShellWord(tgt.Image))
}

// explainImage is like explainTarget. It is used by commands that accept only images.
func (a *app) explainImage(cfg *config.Config, image string) (regcred.Explanation, error) {
	return a.explainRequest(cfg, regcred.Request{Image: image}, "for the registry with this name, add the repository: "+terminal.QuoteShellWord(image+"/REPOSITORY"))
}

func (a *app) explainRequest(cfg *config.Config, tgt regcred.Request, registryAdvice string) (regcred.Explanation, error) {
	e := regcred.Explain(cfg, tgt)
	switch {
	case e.Error != "" && tgt.Registry != "":
		return e, withHint(errors.New("--"+e.Error), "a registry is host[:port]")
	case e.Error != "":
		return e, withHint(errors.New(e.Error), imageSyntaxHint)
	}
	// A name such as docker.io/library/registry.example was probably meant as a registry.
	name, found := strings.CutPrefix(e.Repository, "docker.io/library/")
	if found && (strings.Contains(name, ".") || name == "localhost") {
		a.Note("%q is the image %s on Docker Hub; %s", tgt.Image, e.Repository, registryAdvice)
	}
	return e, nil
}

// identityFlags holds the flags for the service account token and annotations that a
// plugin receives.
type identityFlags struct {
	tokenFile       string
	annotationPairs []string // annotations as key=value
}

func (i *identityFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&i.tokenFile, "service-account-token-file", "",
		"`file` with a service account token, for providers with tokenAttributes")
	f.StringArrayVar(&i.annotationPairs, "annotation", nil,
		"service account annotation `key=value`; may be repeated")
}

// validate rejects annotations without a service account.
func (i *identityFlags) validate() error {
	annotations, err := i.parseAnnotations()
	if err == nil && annotations != nil && i.tokenFile == "" {
		err = usageError("", "--annotation requires --service-account-token-file")
	}
	return err
}

// parseAnnotations parses --annotation. It returns nil if the flag is not set.
func (i *identityFlags) parseAnnotations() (map[string]string, error) {
	var annotations map[string]string
	for _, pair := range i.annotationPairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, usageError("", "--annotation %q: want key=value", pair)
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
	}
	return annotations, nil
}

// maxTokenFileSize limits the size of a token file, in bytes.
const maxTokenFileSize = 1 << 20

// readIdentity returns the token and the annotations from the flags. Both are empty if no flag
// is set.
func (i *identityFlags) readIdentity(ctx context.Context) (token plugin.Secret, annotations map[string]string, err error) {
	if annotations, err = i.parseAnnotations(); err != nil || i.tokenFile == "" {
		return token, annotations, err
	}
	data, err := regularfile.Read(ctx, i.tokenFile, maxTokenFileSize)
	if err != nil {
		return token, nil, fmt.Errorf("--service-account-token-file: %w", err)
	}
	if token = plugin.NewSecret(strings.TrimSpace(string(data))); token.IsZero() {
		return token, nil, fmt.Errorf("--service-account-token-file: %s is empty", i.tokenFile)
	}
	return token, annotations, nil
}
