// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/plugin"
	"github.com/spf13/cobra"
)

// redacted stands where the exchange has a secret.
const redacted = "[redacted]"

// pluginRunFlags are the flags of "regcred plugin run".
type pluginRunFlags struct {
	output      *choice
	tokenFile   string
	annotations []string
}

// pluginRunReport is the result of "regcred plugin run -o json". Secrets in
// it are replaced by "[redacted]".
type pluginRunReport struct {
	Provider        string        `json:"provider"`
	Path            string        `json:"path"`
	Environment     string        `json:"environment"` // "caller" or "kubelet pid N"
	Args            int           `json:"args"`        // how many; their values may be secrets
	Env             []string      `json:"env"`         // names that the configuration adds
	Request         requestJSON   `json:"request"`
	Response        *responseJSON `json:"response,omitempty"` // if it is one that a kubelet accepts
	ExitCode        int           `json:"exitCode"`           // -1 if it did not exit by itself
	DurationSeconds float64       `json:"durationSeconds"`
	StdoutBytes     *int          `json:"stdoutBytes,omitempty"` // of an answer that was refused
	Stderr          string        `json:"stderr,omitempty"`      // scrubbed
	Accepted        bool          `json:"accepted"`              // by the kubelet
	Credentials     int           `json:"credentials"`           // how many of an accepted answer match the image
	Stage           regcred.Stage `json:"stage,omitempty"`       // where it failed
	Error           string        `json:"error,omitempty"`       // why

	outOfTree bool   // in the predecessor's protocol
	host      string // who judges the answer
}

// requestJSON has neither kind nor version in the predecessor's protocol.
type requestJSON struct {
	Kind                      string            `json:"kind,omitempty"`
	APIVersion                string            `json:"apiVersion,omitempty"`
	Image                     string            `json:"image"`
	ServiceAccountToken       string            `json:"serviceAccountToken,omitempty"`
	ServiceAccountAnnotations map[string]string `json:"serviceAccountAnnotations,omitempty"`
}

// responseJSON is an answer in today's terms. One of the predecessor's has the
// kind and the version of that.
type responseJSON struct {
	Kind          string              `json:"kind"`
	APIVersion    string              `json:"apiVersion"`
	CacheKeyType  plugin.CacheKeyType `json:"cacheKeyType"`
	CacheDuration string              `json:"cacheDuration,omitempty"`
	Auth          map[string]authJSON `json:"auth"`

	duration *time.Duration
}

type authJSON struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

func (a *app) pluginRunCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run NAME IMAGE",
		Short: "Run one provider's plugin as the kubelet does, and show the exchange",
		Long: `run executes the plugin of the provider NAME once, as the kubelet does for
IMAGE: with the configured arguments, environment and protocol version, under
the same deadline, and without a cache. It shows what was sent and what came
back, with tokens and passwords replaced, and whether a kubelet accepts it.

A provider of a RegistryCredentialConfig is run in the protocol of that: no
kubelet speaks it, and what is said is what regcred makes of the answer.

The exit code is 0 if the answer has credentials for the image, 3 if it has
none, and 1 if the run failed or a kubelet would refuse the answer.`,
		Example: `  regcred plugin run ecr-credential-provider 123456789012.dkr.ecr.eu-west-1.amazonaws.com/app
  sudo regcred plugin run --as-kubelet ecr-credential-provider IMAGE
  regcred plugin run --service-account-token-file token --annotation example.com/role=ci NAME IMAGE`,
		Args: exactly("NAME", "IMAGE"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.providerNames(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	f := &pluginRunFlags{output: addOutputFlag(cmd, "text", "json")}
	addIdentityFlags(cmd, &f.tokenFile, &f.annotations)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.pluginRun(cmd.Context(), cmd.OutOrStdout(), f, args[0], args[1])
	}
	return cmd
}

// providerNames is for completion, where there is nobody to tell of an error.
func (a *app) providerNames() []string {
	a.Stderr = io.Discard
	o, err := a.resolve("", false)
	if err != nil {
		return nil
	}
	cfg, err := a.loadValid(o)
	if err != nil {
		return nil
	}
	return doctor.Names(cfg)
}

func (a *app) pluginRun(ctx context.Context, out io.Writer, f *pluginRunFlags, name, image string) error {
	token, annotations, err := readIdentity(f.tokenFile, f.annotations)
	if err != nil {
		return err
	}
	o, err := a.resolve("", true)
	if err != nil {
		return err
	}
	cfg, err := a.loadValid(o)
	if err != nil {
		return err
	}
	i := slices.Index(doctor.Names(cfg), name)
	if i < 0 {
		return withHint(fmt.Errorf("no provider %q in %s", name, o.Config), "it has: "+strings.Join(doctor.Names(cfg), ", "))
	}
	p := &cfg.Providers[i]
	req, err := a.pluginRequest(cfg, i, image, token, annotations)
	if err != nil {
		return err
	}
	x, runErr := a.command(p, o).Run(ctx, req)
	r := newPluginRunReport(p, o, req, x, runErr)
	if err := r.match(ctx, req.Image, x.Response); err != nil {
		return err
	}
	if f.output.value == "json" {
		err = terminal.WriteJSON(out, r)
	} else {
		err = a.renderPluginRun(r).Print(out)
	}
	if err != nil {
		return err
	}
	return r.failure()
}

// pluginRequest makes the request that a kubelet would, and says where a
// kubelet would not make one.
func (a *app) pluginRequest(cfg *regcred.Config, i int, image string, token regcred.Secret, annotations map[string]string) (*plugin.Request, error) {
	ex, err := a.explainTarget(cfg, target{image: image})
	if err != nil {
		return nil, err
	}
	p := &cfg.Providers[i]
	if e := ex.Providers[i]; !e.Matched {
		a.Note("%s would not ask %s about %s: %q: %s", hostOf(p), p.Name, ex.Repository, e.Pattern, e.Reason)
	}
	req := &plugin.Request{Image: ex.Repository}
	t := p.TokenAttributes
	if t == nil {
		if token != "" {
			return nil, usageError("leave out --service-account-token-file", "provider %q has no tokenAttributes: %s gives it no token", p.Name, hostOf(p))
		}
		return req, nil
	}
	if token == "" && *t.RequireServiceAccount {
		a.Note("the kubelet would not ask %s for a pod without a service account (requireServiceAccount); --service-account-token-file gives it one", p.Name)
	}
	req.ServiceAccountToken = token
	req.ServiceAccountAnnotations = a.selectAnnotations(t, token, annotations)
	return req, nil
}

func newPluginRunReport(p *regcred.Provider, o *node.Origin, req *plugin.Request, x *plugin.Exchange, err error) *pluginRunReport {
	r := &pluginRunReport{
		Provider:        p.Name,
		Path:            filepath.Join(o.BinDir, p.Name),
		Environment:     o.Environment(),
		Args:            len(p.Args),
		outOfTree:       p.APIVersion == plugin.OutOfTree,
		host:            hostOf(p),
		Env:             []string{},
		Request:         toRequestJSON(p.APIVersion, req),
		ExitCode:        x.ExitCode,
		DurationSeconds: seconds(x.Duration),
		Stderr:          x.Stderr,
		Accepted:        err == nil,
	}
	for _, e := range p.Env {
		r.Env = append(r.Env, e.Name)
	}
	if r.outOfTree {
		r.Args++ // get-credentials
	}
	if e, ok := errors.AsType[*plugin.ExecError](err); ok {
		n := len(x.Stdout)
		r.Stage, r.Error, r.StdoutBytes = e.Stage, e.Err.Error(), &n
	}
	if x.Response != nil {
		r.Response = toResponseJSON(x.Response)
		r.refuseEcho(p, req, x.Response)
	}
	return r
}

// refuseEcho judges as the kubelet does an answer whose password is the token.
func (r *pluginRunReport) refuseEcho(p *regcred.Provider, req *plugin.Request, resp *plugin.Response) {
	if req.ServiceAccountToken == "" || p.TokenAttributes.CacheType == regcred.CachePerToken {
		return
	}
	for _, auth := range resp.Auth {
		if auth.Password == req.ServiceAccountToken {
			r.Accepted, r.Stage = false, regcred.StageEchoedToken
			r.Error = "the password is the service account token, which the kubelet accepts with cacheType: Token alone"
		}
	}
}

func toRequestJSON(apiVersion string, req *plugin.Request) requestJSON {
	j := requestJSON{
		Kind:                      plugin.KindRequest,
		APIVersion:                apiVersion,
		Image:                     req.Image,
		ServiceAccountAnnotations: req.ServiceAccountAnnotations,
	}
	if apiVersion == plugin.OutOfTree {
		j.Kind, j.APIVersion = "", ""
	}
	if req.ServiceAccountToken != "" {
		j.ServiceAccountToken = redacted
	}
	return j
}

func toResponseJSON(resp *plugin.Response) *responseJSON {
	j := &responseJSON{
		Kind:         plugin.KindResponse,
		APIVersion:   resp.APIVersion,
		CacheKeyType: resp.CacheKeyType,
		Auth:         map[string]authJSON{},
		duration:     resp.CacheDuration,
	}
	if resp.APIVersion == plugin.OutOfTree {
		j.Kind = plugin.KindOutOfTreeResponse
	}
	if resp.CacheDuration != nil {
		j.CacheDuration = resp.CacheDuration.String()
	}
	for key, auth := range resp.Auth {
		j.Auth[withoutUserinfo(key)] = authJSON{auth.Username, auth.Password.String()}
	}
	return j
}

// withoutUserinfo hides what an auth key has before an @: it may be a password.
func withoutUserinfo(key string) string {
	at := strings.LastIndexByte(key, '@')
	if at < 0 {
		return key
	}
	return redacted + key[at:]
}

func (r *pluginRunReport) failure() error {
	switch {
	case !r.Accepted:
		return exit(exitFailed)
	case r.Credentials == 0:
		return exit(exitEmpty)
	}
	return nil
}

// match counts the credentials of an accepted answer that are for the image.
func (r *pluginRunReport) match(ctx context.Context, image string, resp *plugin.Response) error {
	if !r.Accepted {
		return nil
	}
	k, err := regcred.New(&regcred.Config{}, regcred.Options{
		BinDir:  filepath.Dir(r.Path), // nothing of it is run
		Sources: []regcred.AuthSource{answerSource(resp.Auth)},
	})
	if err != nil {
		return err
	}
	defer k.Close()
	res, err := k.Lookup(ctx, regcred.Request{Image: image})
	if err != nil {
		return err
	}
	r.Credentials = len(res.Credentials)
	return nil
}

// answerSource makes a keyring of an answer, so that its keys are matched as
// in any other.
type answerSource map[string]plugin.AuthConfig

func (s answerSource) Name() string { return "answer" }

func (s answerSource) Auths(context.Context, string) ([]regcred.AuthSet, error) {
	return []regcred.AuthSet{{Auths: s}}, nil
}
