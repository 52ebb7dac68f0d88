// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// pluginRunFlags holds the flags of "regcred plugin run".
type pluginRunFlags struct {
	output *enumFlag
	identityFlags
}

func (a *app) pluginRunCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run NAME IMAGE",
		Short: "Run one provider's plugin as the kubelet does, and show the request and response",
		Long: `Run the plugin of provider NAME once for IMAGE, as the kubelet does: with the
configured arguments, environment, protocol version and deadline, but without a
cache. Show the request and the response, with tokens and passwords redacted,
and whether the kubelet would accept the response. A provider from a
RegistryCredentialConfig is run with that file's protocol. No kubelet supports
the RegistryCredentialConfig protocol, so the result shows how regcred treats
the response.

The exit code is 0 if the response has credentials for the image, 3 if it has
none, and 1 if the run failed or the kubelet would reject the response.`,
		Example: `  regcred plugin run ecr-credential-provider 123456789012.dkr.ecr.eu-west-1.amazonaws.com/app
  sudo regcred plugin run --as-kubelet ecr-credential-provider IMAGE
  regcred plugin run --service-account-token-file token --annotation example.com/role=ci NAME IMAGE`,
		Args: requireArgs("NAME", "IMAGE"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.completeProviderNames(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
		},
	}
	f := &pluginRunFlags{output: addOutputFlag(cmd, "text", "json")}
	f.identityFlags.register(cmd)
	a.addKubeletFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.pluginRun(cmd.Context(), f, args[0], args[1])
	}
	return cmd
}

// completeProviderNames completes provider names. It ignores errors, because they
// cannot be printed during completion.
func (a *app) completeProviderNames(ctx context.Context) []string {
	a.Stderr = io.Discard
	cfg, _, err := a.resolveAndLoad(ctx, "", false)
	if err != nil {
		return nil
	}
	return doctor.ProviderNames(cfg)
}

func (a *app) pluginRun(ctx context.Context, f *pluginRunFlags, name, image string) error {
	if err := f.identityFlags.validate(); err != nil {
		return err
	}
	token, annotations, err := f.readIdentity(ctx)
	if err != nil {
		return err
	}
	cfg, o, i, err := a.loadProvider(ctx, name)
	if err != nil {
		return err
	}
	req, err := a.newPluginRequest(cfg, i, image, token, annotations)
	if err != nil {
		return err
	}
	p := &cfg.Providers[i]
	x, err := a.pluginCommand(cfg, i, o).Run(ctx, req)
	r := newPluginRunReport(p, o, req, x, err)
	if err := a.printResult(f.output, r, r.render); err != nil {
		return err
	}
	return r.exitError()
}

// newPluginRequest returns the request that the kubelet would send, or an error if it
// would not call the plugin.
func (a *app) newPluginRequest(cfg *config.Config, i int, image string, token plugin.Secret, annotations map[string]string) (*plugin.Request, error) {
	ex, err := a.explainImage(cfg, image)
	if err != nil {
		return nil, err
	}
	p := &cfg.Providers[i]
	if e := ex.Providers[i]; !e.Matched {
		a.Note("%s would not run %s for %s: %q: %s", hostProgram(p), p.Name, ex.Repository, e.Pattern, e.Reason)
	}
	req := &plugin.Request{Image: ex.Repository}
	t := p.TokenAttributes
	if t == nil {
		if !token.IsZero() {
			return nil, usageError("omit --service-account-token-file", "provider %q has no tokenAttributes, so %s does not pass it a token", p.Name, hostProgram(p))
		}
		return req, nil
	}
	if token.IsZero() && *t.RequireServiceAccount {
		a.Note("the kubelet would not run %s for a pod without a service account (requireServiceAccount); use --service-account-token-file", p.Name)
	}
	req.ServiceAccountToken = token
	req.ServiceAccountAnnotations = a.selectAnnotations(t, token, annotations)
	return req, nil
}

// redactedText replaces secrets in the printed request and response.
const redactedText = "[redacted]"

// pluginRunReport is the result of "regcred plugin run -o json". Secrets in
// it are replaced by "[redacted]".
type pluginRunReport struct {
	Provider        string          `json:"provider"`
	Path            string          `json:"path"`
	Environment     string          `json:"environment"` // "caller" or "kubelet pid N"
	Args            int             `json:"args"`        // number of arguments; the values may be secret
	Env             []string        `json:"env"`         // names of the variables set by the configuration
	Request         json.RawMessage `json:"request"`
	Response        *responseReport `json:"response,omitempty"` // set if the kubelet accepts the response
	ExitCode        int             `json:"exitCode"`           // -1 if a signal killed the plugin
	DurationSeconds float64         `json:"durationSeconds"`
	StdoutBytes     *int            `json:"stdoutBytes,omitempty"` // size of a rejected response
	Stderr          string          `json:"stderr,omitempty"`      // redacted
	Accepted        bool            `json:"accepted"`              // whether the kubelet accepts the response
	Credentials     int             `json:"credentials"`           // number of credentials for the image in an accepted response
	Stage           plugin.Stage    `json:"stage,omitempty"`       // where the run failed
	Error           string          `json:"error,omitempty"`       // why the run failed

	outOfTree   bool   // the plugin uses the out-of-tree proposal's protocol
	hostProgram string // program that would run the plugin
}

// responseReport is a response in the current protocol's field names. A response in the out-of-tree
// proposal's protocol is converted, but keeps its kind and version.
type responseReport struct {
	Kind          string                `json:"kind"`
	APIVersion    string                `json:"apiVersion"`
	CacheKeyType  plugin.CacheKeyType   `json:"cacheKeyType"`
	CacheDuration string                `json:"cacheDuration,omitempty"`
	Auth          map[string]authReport `json:"auth"`

	duration *time.Duration
}

type authReport struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

func newPluginRunReport(p *config.Provider, o *node.Origin, req *plugin.Request, x *plugin.Exchange, err error) *pluginRunReport {
	r := &pluginRunReport{
		Provider:        p.Name,
		Path:            filepath.Join(o.BinDir, p.Name),
		Environment:     o.Environment(),
		Args:            len(p.Args),
		outOfTree:       p.APIVersion == plugin.OutOfTree,
		hostProgram:     hostProgram(p),
		Env:             []string{},
		Request:         redactRequest(p.APIVersion, req),
		ExitCode:        x.ExitCode,
		DurationSeconds: report.Seconds(x.Duration),
		Stderr:          x.Stderr,
		Accepted:        err == nil,
	}
	for _, e := range p.Env {
		r.Env = append(r.Env, e.Name)
	}
	if r.outOfTree {
		r.Args++ // the protocol adds the argument get-credentials
	}
	if e, ok := errors.AsType[*plugin.ExecError](err); ok {
		n := len(x.Stdout.Reveal())
		r.Stage, r.Error, r.StdoutBytes = e.Stage, e.Err.Error(), &n
		if errors.Is(err, regularfile.ErrLimit) {
			r.hostProgram = "regcred"
		}
	}
	if x.Response != nil {
		r.Response = newResponseReport(x.Response)
		r.rejectEchoedToken(p, req, x.Response)
	}
	if r.Accepted {
		r.Credentials = len(match.Select(slices.Collect(maps.Keys(x.Response.Auth)), req.Image))
	}
	return r
}

// rejectEchoedToken marks the response as rejected if a password is the service account token. The
// kubelet rejects such a response too.
func (r *pluginRunReport) rejectEchoedToken(p *config.Provider, req *plugin.Request, resp *plugin.Response) {
	if req.ServiceAccountToken.IsZero() || p.TokenAttributes.CacheType == config.CachePerToken {
		return
	}
	for _, auth := range resp.Auth {
		if auth.Password.Equal(req.ServiceAccountToken) {
			r.Accepted, r.Stage = false, regcred.StageEchoedToken
			r.Error = "the password is the service account token; the kubelet accepts such a password only with cacheType: Token"
		}
	}
}

// redactRequest returns the request that the plugin receives, without the token.
func redactRequest(apiVersion string, req *plugin.Request) json.RawMessage {
	shown := *req
	shown.APIVersion, shown.ServiceAccountToken = apiVersion, plugin.NewSecret(req.ServiceAccountToken.String())
	data, _ := plugin.EncodeRequest(&shown) // fails only for an unknown version
	return data
}

func newResponseReport(resp *plugin.Response) *responseReport {
	j := &responseReport{
		Kind:         protocol.KindResponse,
		APIVersion:   resp.APIVersion,
		CacheKeyType: resp.CacheKeyType,
		Auth:         map[string]authReport{},
		duration:     resp.CacheDuration,
	}
	if resp.APIVersion == plugin.OutOfTree {
		j.Kind = protocol.KindOutOfTreeResponse
	}
	if resp.CacheDuration != nil {
		j.CacheDuration = resp.CacheDuration.String()
	}
	for key, auth := range resp.Auth {
		j.Auth[redactUserinfo(key)] = authReport{auth.Username, auth.Password.String()}
	}
	return j
}

// redactUserinfo hides the part of an auth key before "@", because it may be a
// password.
func redactUserinfo(key string) string {
	at := strings.LastIndexByte(key, '@')
	if at < 0 {
		return key
	}
	return redactedText + key[at:]
}

func (r *pluginRunReport) exitError() error {
	switch {
	case !r.Accepted:
		return exitWithCode(exitFailed)
	case r.Credentials == 0:
		return exitWithCode(exitNoMatch)
	}
	return nil
}

// render prints the request and the response.
func (r *pluginRunReport) render(t *terminal.Text) {
	t.Pair("plugin", r.Path)
	t.Pair("arguments", r.argsText())
	t.Pair("environment", environmentText(r.Environment))
	if len(r.Env) > 0 {
		t.Pair("", "with "+strings.Join(r.Env, ", ")+" from the configuration (values not shown)")
	}
	t.Heading("stdin")
	renderJSON(t, r.Request)
	if r.Response != nil {
		head := "stdout"
		if r.outOfTree {
			head += ", in today's terms"
		}
		t.Heading(head)
		renderJSON(t, r.Response)
	}
	if r.Stderr != "" {
		t.Heading("stderr")
		t.Quote("  ", r.Stderr)
	}
	t.Heading("result")
	r.renderResult(t)
}

// argsText returns the number of arguments. It shows only get-credentials, because other arguments
// may be secret.
func (r *pluginRunReport) argsText() string {
	switch {
	case !r.outOfTree:
		return argCountText(r.Args)
	case r.Args == 1:
		return "get-credentials"
	}
	return "get-credentials, " + argCountText(r.Args-1)
}

// renderJSON prints a value as indented JSON.
func renderJSON(t *terminal.Text, v any) {
	data, _ := json.MarshalIndent(v, "", "  ") // cannot fail for these structs
	t.Quote("  ", string(data))
}

func (r *pluginRunReport) renderResult(t *terminal.Text) {
	took := fmt.Sprintf("exit code %d after %s", r.ExitCode, terminal.FormatMillis(r.DurationSeconds))
	switch {
	case r.Stage == plugin.StageStart:
		took = "not started"
	case r.ExitCode < 0:
		took = "did not exit on its own; terminated after " + terminal.FormatMillis(r.DurationSeconds)
	}
	if !r.Accepted {
		t.Item(terminal.MarkError, took)
		t.Detail("%s rejects this: %s: %s", r.hostProgram, r.Stage, r.Error)
		if r.StdoutBytes != nil && *r.StdoutBytes > 0 {
			t.Detail("stdout contained %s; the output is not shown because it might contain a password", terminal.FormatCount(*r.StdoutBytes, "byte"))
		}
		return
	}
	m := terminal.MarkOK
	if r.Credentials == 0 {
		m = terminal.MarkNoCredential
	}
	t.Item(m, took)
	t.Detail("%s accepts this: %s, valid for %s%s", r.hostProgram, terminal.FormatCount(len(r.Response.Auth), "credential"), scopeText(r.Response.CacheKeyType), cacheDurationText(r.Response.duration))
	if keys := slices.Sorted(maps.Keys(r.Response.Auth)); len(keys) > 0 && r.Credentials == 0 {
		t.Detail("none of the auth keys in the response match the image: %s", strings.Join(keys, ", "))
	}
}

func cacheDurationText(d *time.Duration) string {
	switch {
	case d == nil:
		return ", cached for the provider's defaultCacheDuration"
	case *d <= 0:
		return ", not cached"
	}
	return ", cached for " + terminal.FormatDuration(*d)
}
