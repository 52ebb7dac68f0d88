// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/plugin"
)

// lookupFlags are the flags of the commands that look up credentials.
type lookupFlags struct {
	noNodeConfig bool
	pullSecrets  []string
	tokenFile    string
	annotations  []string

	pod, serviceAccount objectName
	kubeFlags

	subject *kubeSubject // of pod or serviceAccount; set by openKeyring
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
	addIdentityFlags(cmd, &l.tokenFile, &l.annotations)
	return l
}

// addIdentityFlags adds the flags that give a plugin a service account's identity.
func addIdentityFlags(cmd *cobra.Command, tokenFile *string, annotations *[]string) {
	f := cmd.Flags()
	f.StringVar(tokenFile, "service-account-token-file", "",
		"`file` with a service account token, for providers with tokenAttributes")
	f.StringArrayVar(annotations, "annotation", nil,
		"`key=value` of the service account's annotations; may be repeated")
}

// check refuses flags that do not go together.
func (l *lookupFlags) check() error {
	if _, err := parseAnnotations(l.annotations, l.tokenFile); err != nil {
		return err
	}
	if l.kubeFlags != (kubeFlags{}) && !l.pod.given() && !l.serviceAccount.given() {
		return usageError("", "--kubeconfig and --context say how to ask about a pod: give --pod or --service-account too")
	}
	return oneAtMost(
		given{"pod", l.pod.String()},
		given{"service-account", l.serviceAccount.String()},
		given{"service-account-token-file", l.tokenFile})
}

// podFlags returns the flags that were given and bring credentials of a pod.
// Without them, credentials are the node's.
func (l *lookupFlags) podFlags() []string {
	var list []string
	for _, f := range []given{
		{"pod", l.pod.String()},
		{"service-account", l.serviceAccount.String()},
		{"pull-secret", strings.Join(l.pullSecrets, ",")},
		{"service-account-token-file", l.tokenFile},
	} {
		if f.value != "" {
			list = append(list, "--"+f.flag)
		}
	}
	return list
}

// arguments are the flags that say for whom is looked up, for a command line
// that asks the same again.
func (l *lookupFlags) arguments() string {
	var b strings.Builder
	add := func(flag string, values ...string) {
		for _, value := range values {
			if value != "" {
				b.WriteString("--" + flag + " " + shellWord(value) + " ")
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
	add("annotation", l.annotations...)
	return b.String()
}

// openKeyring finds, loads and validates the configuration and makes a
// keyring of it, with the sources and in the environment of a pull on this
// node, for the pod that l names. The caller closes the keyring, and makes its
// requests with l.request.
func (a *app) openKeyring(ctx context.Context, l *lookupFlags) (*config.Config, *regcred.Keyring, *origin, error) {
	if err := l.check(); err != nil {
		return nil, nil, nil, err
	}
	o, err := a.resolve("", true)
	if err != nil {
		return nil, nil, nil, err
	}
	cfg, err := a.loadValid(o)
	if err != nil {
		return nil, nil, nil, err
	}
	if l.subject, err = a.findSubject(ctx, o, l); err != nil {
		return nil, nil, nil, err
	}
	if l.subject != nil {
		a.noteSubject(l.subject)
	}
	k, err := a.newKeyring(cfg, o, l)
	return cfg, k, o, err
}

func (a *app) newKeyring(cfg *config.Config, o *origin, l *lookupFlags) (*regcred.Keyring, error) {
	opts := regcred.Options{
		BinDir:        o.binDir,
		Logger:        a.logger(),
		Environ:       o.environ,
		Dir:           o.dir,
		PluginTimeout: a.timeout,
	}
	if l.subject != nil {
		opts.ServiceAccounts = l.subject.Client
		opts.Sources = append(opts.Sources, l.subject.unread...)
	}
	if !l.noNodeConfig {
		opts.Sources = append(opts.Sources, o.dockerConfig())
	}
	return regcred.New(cfg, opts)
}

// dockerConfig is the keyring of the node's docker config files.
func (o *origin) dockerConfig() regcred.AuthSource {
	return regcred.NodeDockerConfig(regcred.NodePaths{
		RootDir: o.rootDir,
		WorkDir: o.dir,
		Home:    lookupEnv(o.environ, "HOME"),
	})
}

// lookupEnv returns the value that a process with this environment sees.
func lookupEnv(environ []string, name string) string {
	for i := len(environ) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(environ[i], name+"="); ok {
			return value
		}
	}
	return ""
}

// request makes the question to a keyring out of the flags. The pod's own pull
// secrets come before those of files: a kubelet has all in one keyring.
func (l *lookupFlags) request(tgt target) (regcred.Request, error) {
	req := regcred.Request{Image: tgt.image, Registry: tgt.registry}
	if l.subject != nil {
		req.Pod, req.PullSecrets = &l.subject.pod, slices.Clone(l.subject.secrets)
	}
	for _, name := range l.pullSecrets {
		secret, err := readPullSecret(name)
		if err != nil {
			return req, fmt.Errorf("--pull-secret: %w", err)
		}
		req.PullSecrets = append(req.PullSecrets, *secret)
	}
	var err error
	req.Token, req.Annotations, err = readIdentity(l.tokenFile, l.annotations)
	return req, err
}

// maxTokenFile and maxPullSecretFile bound files that are given by name, in bytes.
const (
	maxTokenFile      = 1 << 20
	maxPullSecretFile = 16 << 20
)

// readBounded reads a file that has at most limit bytes.
func readBounded(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is larger than %s", name, bytesText(limit))
	}
	return data, err
}

// readIdentity reads what --service-account-token-file and --annotation name.
func readIdentity(tokenFile string, pairs []string) (token plugin.Secret, annotations map[string]string, err error) {
	if annotations, err = parseAnnotations(pairs, tokenFile); err != nil || tokenFile == "" {
		return "", nil, err
	}
	data, err := readBounded(tokenFile, maxTokenFile)
	if err != nil {
		return "", nil, fmt.Errorf("--service-account-token-file: %w", err)
	}
	token = plugin.Secret(strings.TrimSpace(string(data)))
	if token == "" {
		return "", nil, fmt.Errorf("--service-account-token-file: %s is empty", tokenFile)
	}
	return token, annotations, nil
}

// parseAnnotations reads what --annotation says.
func parseAnnotations(pairs []string, tokenFile string) (map[string]string, error) {
	var annotations map[string]string
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, usageError("", "--annotation %q: want key=value", pair)
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
	}
	if annotations != nil && tokenFile == "" {
		return nil, usageError("", "--annotation needs --service-account-token-file: without a service account there are no annotations")
	}
	return annotations, nil
}

// lookup asks k. A failure of everything, or of a pull secret, is no error
// here: it is returned as failure, beside the result that says what happened.
func lookup(ctx context.Context, k *regcred.Keyring, req regcred.Request, repository string) (res *regcred.Result, failure *regcred.LookupError, err error) {
	res, err = k.Lookup(ctx, req)
	if errors.As(err, &failure) {
		return res, failure, nil
	}
	if err == nil && pullSecretFailed(res.Attempts) {
		// kubelet: MakeDockerKeyring fails as a whole, and the pull with it.
		res.Credentials = nil
		failure = &regcred.LookupError{Image: repository, Failed: failedOf(res.Attempts)}
	}
	return res, failure, err
}

func failedOf(attempts []regcred.Attempt) []regcred.Attempt {
	return slices.DeleteFunc(slices.Clone(attempts), func(at regcred.Attempt) bool { return at.Err == nil })
}

func pullSecretFailed(attempts []regcred.Attempt) bool {
	return slices.ContainsFunc(failedOf(attempts), func(at regcred.Attempt) bool { return at.Kind == regcred.SourcePullSecret })
}

// warnFailed tells of what failed beside something that answered, and passes
// on what a plugin had to say of having no credentials: a kubelet drops that.
func (a *app) warnFailed(attempts []regcred.Attempt) {
	for _, at := range failedOf(attempts) {
		a.warn("%v", at.Err)
	}
	for _, at := range attempts {
		if said := strings.TrimSpace(at.Stderr); at.Err == nil && at.Matched == 0 && said != "" {
			a.note("provider %q has no credentials: %s", at.Provider, said[strings.LastIndexByte(said, '\n')+1:])
		}
	}
}
