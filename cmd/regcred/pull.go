// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/pull"
	"github.com/regcred/regcred/plugin"
)

// pullFlags are the flags of "regcred pull".
type pullFlags struct {
	*lookupFlags
	dir      string
	format   *choice
	platform string
	insecure bool
	quiet    bool // without progress

	runtime runtimeFlags // for a pull that is not into a layout
}

// pullReport is the result of "regcred pull -o json", one for each image.
type pullReport struct {
	Image      string          `json:"image"`
	Output     string          `json:"output"`
	Digest     string          `json:"digest,omitempty"`   // what the layout has; empty if the pull failed
	Resolved   string          `json:"resolved,omitempty"` // what the reference names, if that is an index
	MediaType  string          `json:"mediaType,omitempty"`
	Platform   string          `json:"platform,omitempty"`
	Layers     []layerJSON     `json:"layers"`
	Downloaded int64           `json:"downloaded"`           // bytes
	Credential *credentialJSON `json:"credential,omitempty"` // the one that worked; absent if the pull was anonymous
	Failed     []tryJSON       `json:"failed"`               // what was tried before, in order
	Warnings   []warningJSON   `json:"warnings,omitempty"`   // what failed in the lookup, beside something that answered
	Error      string          `json:"error,omitempty"`
}

// warningJSON is a provider or source that failed.
type warningJSON struct {
	Name  string       `json:"name"`
	Stage plugin.Stage `json:"stage"`
	Error string       `json:"error"`
}

type layerJSON struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
	Reused bool   `json:"reused,omitempty"` // it was there already, and was verified
}

type tryJSON struct {
	Credential *credentialJSON `json:"credential,omitempty"` // absent: anonymous
	Status     int             `json:"status,omitempty"`     // of HTTP
	Code       string          `json:"code,omitempty"`       // the registry's or the runtime's error code
	Error      string          `json:"error"`
}

func (a *app) pullCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pull IMAGE...",
		Short: "Pull images with the credentials that a node would use: into an OCI image layout, or a container runtime",
		Long: `pull looks up the credentials for each IMAGE and pulls it as a kubelet would:
without credentials once anonymously, otherwise once with each of them in order
until one works, and not anonymously after that. If a provider failed and there
is no credential, nothing is pulled.

--output pulls into an OCI image layout, which is created if it does not exist;
one that exists gets the images added. Its index.json changes only when an image
is there whole; layers that are there already are verified before they are used.

--runtime-endpoint pulls into containerd or CRI-O, over CRI. Only credentials of
the node are used then: what is pulled behind the kubelet's back is open to
every pod of the node (KEP-2535). --allow-all-pods lifts that. "regcred prepull"
pulls many images, several at a time.

The exit code is 0 if every image was pulled, and 1 otherwise.`,
		Example: `  regcred pull --output ./images registry.example/team/app:1.2
  regcred pull --output ./images --platform all registry.example/team/app:1.2 nginx:1.27
  sudo regcred pull --as-kubelet --output /tmp/app -o json registry.example/team/app:1.2
  sudo regcred pull --as-kubelet --runtime-endpoint auto registry.example/team/app:1.2`,
	}
	p := &pullFlags{format: &choice{value: "text", values: []string{"text", "json"}}}
	f := cmd.Flags()
	f.StringVar(&p.dir, "output", "", "`directory` of the OCI image layout")
	f.VarP(p.format, "format", "o", "output format: text | json")
	f.StringVar(&p.platform, "platform", "", "`os/arch[/variant]` to take from a multi-platform image, or \"all\" (default linux and this machine's architecture)")
	f.BoolVar(&p.insecure, "insecure-plain-http", false, "speak to the registry without TLS if it has none: passwords can then be read on the way")
	p.runtime.register(cmd, pull.PullAlways, pull.PullIfNotPresent, pull.PullNever)
	// It can only fail for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(p.format.values, cobra.ShellCompDirectiveNoFileComp))
	p.lookupFlags = addLookupFlags(cmd)
	p.runtime.lookupFlags, p.runtime.format, p.runtime.parallel = p.lookupFlags, p.format, 1
	cmd.Args = func(cmd *cobra.Command, args []string) error { return p.checkArgs(cmd, args) }
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if p.runtime.endpoint != "" {
			return a.pullIntoRuntime(cmd.Context(), cmd.OutOrStdout(), &p.runtime, args)
		}
		return a.pullAll(cmd.Context(), cmd.OutOrStdout(), p, args)
	}
	return cmd
}

// checkArgs demands images and one place to pull them to, with the flags of
// that place alone.
func (p *pullFlags) checkArgs(cmd *cobra.Command, args []string) error {
	place, others := "--output", []string{"pull-policy", "timeout", "allow-all-pods"}
	if p.runtime.endpoint != "" {
		place, others = "--runtime-endpoint", []string{"output", "platform", "insecure-plain-http"}
	}
	switch {
	case len(args) == 0:
		return fmt.Errorf("%s: IMAGE is missing", cmd.CommandPath())
	case p.dir == "" && p.runtime.endpoint == "":
		return fmt.Errorf("%s: where to? name a directory for the images (--output), or a container runtime (--runtime-endpoint)", cmd.CommandPath())
	}
	for _, name := range others {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("%s: --%s does not go with %s", cmd.CommandPath(), name, place)
		}
	}
	if err := pull.CheckPlatform(p.platform); err != nil {
		return fmt.Errorf("--platform: %w", err)
	}
	return nil
}

func (a *app) pullAll(ctx context.Context, out io.Writer, p *pullFlags, images []string) error {
	cfg, k, _, err := a.openKeyring(ctx, p.lookupFlags)
	if err != nil {
		return err
	}
	defer k.Close()
	req, err := p.request(target{})
	if err != nil {
		return err
	}
	reports := make([]pullReport, 0, len(images))
	var errs []error
	for _, image := range images {
		req.Image = image
		r, err := a.pullOne(ctx, cfg, k, p, req)
		if err != nil {
			r.Error = err.Error()
			errs = append(errs, err)
		}
		reports = append(reports, *r)
		if p.format.value == "text" {
			if err := a.writePull(out, r); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	if p.format.value == "json" {
		errs = append(errs, writeJSON(out, reports))
	}
	return errors.Join(errs...)
}

// pullOne looks up the credentials of one image and pulls it. The report says
// how far that got, also beside an error.
func (a *app) pullOne(ctx context.Context, cfg *config.Config, k *regcred.Keyring, p *pullFlags, req regcred.Request) (*pullReport, error) {
	image := req.Image
	r := &pullReport{Image: image, Output: p.dir, Layers: []layerJSON{}, Failed: []tryJSON{}}
	ex, err := a.explainTarget(cfg, target{image: image})
	if err != nil {
		return r, err
	}
	res, failure, err := lookup(ctx, k, req, ex.Repository)
	if err != nil {
		return r, err
	}
	if failure != nil {
		return r, p.notPulled(a, image, res.Attempts)
	}
	a.warnFailed(res.Attempts)
	r.Warnings = warningsOf(res.Attempts)
	bars := &progress{}
	if !p.quiet {
		bars = a.newProgress()
	}
	puller := &pull.Puller{Platform: p.platform, Insecure: p.insecure, Refused: k.Invalidate, Progress: bars.event}
	got, err := puller.Pull(ctx, image, res.Credentials, p.dir)
	bars.close()
	if err != nil {
		return r, p.pullFailed(a, r, err)
	}
	r.succeeded(got)
	return r, nil
}

// notPulled says why nothing is asked of the registry.
func (p *pullFlags) notPulled(a *app, image string, attempts []regcred.Attempt) error {
	return withHint(fmt.Errorf("%s is not pulled, %s", image, whyNotPulled(attempts)),
		fmt.Sprintf("run %q to see every step", a.explainCommand(p.arguments()+image)))
}

// whyNotPulled says what failed, and why a pull without it would be wrong.
func whyNotPulled(attempts []regcred.Attempt) string {
	why := "since without credentials that would be anonymous"
	if pullSecretFailed(attempts) {
		why = "since for want of a pull secret the kubelet would not pull it"
	}
	var causes []string
	for _, at := range failedOf(attempts) {
		causes = append(causes, at.Err.Error())
	}
	return why + ": " + strings.Join(causes, "; ")
}

// warningsOf lists what failed beside something that answered.
func warningsOf(attempts []regcred.Attempt) []warningJSON {
	var list []warningJSON
	for _, at := range failedOf(attempts) {
		list = append(list, warningJSON{at.Provider, at.Stage, toAttemptJSON(at).Error})
	}
	return list
}

func (r *pullReport) succeeded(got *pull.Result) {
	r.Image, r.Digest, r.MediaType, r.Platform, r.Downloaded = got.Image, got.Digest, got.MediaType, got.Platform, got.Bytes
	if got.Resolved != got.Digest {
		r.Resolved = got.Resolved
	}
	for _, l := range got.Layers {
		r.Layers = append(r.Layers, layerJSON{l.Digest, l.Size, l.Reused})
	}
	if got.Credential != nil {
		r.Credential = &toCredentialsJSON([]regcred.Credential{*got.Credential}, false)[0]
	}
	r.Failed = triesJSON(got.Failed)
}

// pullFailed records a pull that did not succeed and returns the error for people.
func (p *pullFlags) pullFailed(a *app, r *pullReport, err error) error {
	var failed *pull.Error
	if !errors.As(err, &failed) {
		return err
	}
	r.Failed = triesJSON(failed.Tries)
	err = errors.New(failed.Error()) // not taken apart: it names every try in one line
	refused := 0
	for _, t := range failed.Tries {
		if t.Status == 401 {
			refused++
		}
	}
	switch {
	case refused == 0:
		return err
	case failed.Tries[0].Credential == nil:
		return withHint(err, fmt.Sprintf("the registry wants a login, and there is no credential; run %q", a.explainCommand(p.arguments()+r.Image)))
	}
	return withHint(err, fmt.Sprintf("the registry refused what the providers returned; run %q to see where each came from", a.explainCommand(p.arguments()+r.Image)))
}

// triesJSON is never nil, so that an empty list reads [].
func triesJSON(tries []pull.Try) []tryJSON {
	list := make([]tryJSON, 0, len(tries))
	for _, t := range tries {
		j := tryJSON{Status: t.Status, Code: t.Code, Error: t.Err.Error()}
		if t.Credential != nil {
			j.Credential = &toCredentialsJSON([]regcred.Credential{*t.Credential}, false)[0]
		}
		list = append(list, j)
	}
	return list
}

// writePull prints what came of one image.
func (a *app) writePull(out io.Writer, r *pullReport) error {
	t := a.newText()
	if r.Error != "" {
		t.line(markFail, r.Image)
		return t.print(out)
	}
	t.line(markOK, r.Image)
	t.pair("  digest", r.Digest)
	if r.Resolved != "" {
		t.pair("  of index", r.Resolved)
	}
	t.pair("  content", r.content())
	t.pair("  login", loginText(r.Credential))
	for _, f := range r.Failed {
		t.pair("  refused", loginText(f.Credential)+": "+f.Error)
	}
	t.pair("  output", r.Output)
	return t.print(out)
}

// content says what was pulled.
func (r *pullReport) content() string {
	var total int64
	reused := 0
	for _, l := range r.Layers {
		total += l.Size
		if l.Reused {
			reused++
		}
	}
	parts := []string{fmt.Sprintf("%s, %s", count(len(r.Layers), "layer"), bytesText(total))}
	if r.Platform != "" {
		parts = append([]string{r.Platform}, parts...)
	}
	if reused > 0 {
		parts = append(parts, fmt.Sprintf("%d there already", reused))
	}
	return strings.Join(parts, ", ")
}

// loginText names a credential, or says that there was none.
func loginText(c *credentialJSON) string {
	if c == nil {
		return "none (anonymous)"
	}
	return fmt.Sprintf("%s, user %q", c.Source.describe(), c.Username)
}

// bytesText is a number of bytes for people.
func bytesText(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, prefix := float64(n)/unit, 0
	for value >= unit {
		value, prefix = value/unit, prefix+1
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTPE"[prefix])
}
