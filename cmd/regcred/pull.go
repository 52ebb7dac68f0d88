// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/pull"
	"github.com/spf13/cobra"
)

// pullFlags are the flags of "regcred pull".
type pullFlags struct {
	*lookupFlags
	dir      string
	format   *choice
	platform string
	insecure bool
	quiet    bool // without progress
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
	Name  string        `json:"name"`
	Stage regcred.Stage `json:"stage"`
	Error string        `json:"error"`
}

type layerJSON struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
	Reused bool   `json:"reused,omitempty"` // it was there already, and was verified
}

type tryJSON struct {
	Credential *credentialJSON `json:"credential,omitempty"` // absent: anonymous
	Status     int             `json:"status,omitempty"`     // of HTTP
	Error      string          `json:"error"`
}

func (a *app) pullCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pull IMAGE...",
		Short: "Pull images into an OCI image layout, with the credentials that a node would use",
		Long: `pull looks up the credentials for each IMAGE and pulls it into an OCI image
layout as a kubelet would: without credentials once anonymously, otherwise once
with each of them in order until one works, and not anonymously after that. If
a provider failed and there is no credential, nothing is pulled.

The layout is created if it does not exist; one that exists gets the images
added. Its index.json changes only when an image is there whole; layers that are
there already are verified before they are used.

The exit code is 0 if every image was pulled, and 1 otherwise.`,
		Example: `  regcred pull --output ./images registry.example/team/app:1.2
  regcred pull --output ./images --platform all registry.example/team/app:1.2 nginx:1.27
  sudo regcred pull --as-kubelet --output /tmp/app -o json registry.example/team/app:1.2`,
	}
	p := &pullFlags{format: &choice{value: "text", values: []string{"text", "json"}}}
	f := cmd.Flags()
	f.StringVar(&p.dir, "output", "", "`directory` of the OCI image layout (required)")
	f.VarP(p.format, "format", "o", "output format: text | json")
	f.StringVar(&p.platform, "platform", "", "`os/arch[/variant]` to take from a multi-platform image, or \"all\" (default linux and this machine's architecture)")
	f.BoolVar(&p.insecure, "insecure-plain-http", false, "speak to the registry without TLS if it has none: passwords can then be read on the way")
	// It can only fail for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(p.format.values, cobra.ShellCompDirectiveNoFileComp))
	p.lookupFlags = addLookupFlags(cmd)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return fmt.Errorf("%s: IMAGE is missing", cmd.CommandPath())
		case p.dir == "":
			return fmt.Errorf("%s: --output is missing: name the directory for the images", cmd.CommandPath())
		}
		if err := pull.CheckPlatform(p.platform); err != nil {
			return fmt.Errorf("--platform: %w", err)
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.pullAll(cmd.Context(), cmd.OutOrStdout(), p, args)
	}
	return cmd
}

func (a *app) pullAll(ctx context.Context, out io.Writer, p *pullFlags, images []string) error {
	req, err := p.request(target{})
	if err != nil {
		return err
	}
	cfg, k, _, err := a.openKeyring(ctx, p.lookupFlags)
	if err != nil {
		return err
	}
	defer k.Close()
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
func (a *app) pullOne(ctx context.Context, cfg *regcred.Config, k *regcred.Keyring, p *pullFlags, req regcred.Request) (*pullReport, error) {
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
		return r, a.notPulled(image, res.Attempts)
	}
	a.warnFailed(res.Attempts)
	r.warnings(res.Attempts)
	bars := &progress{}
	if !p.quiet {
		bars = a.newProgress()
	}
	puller := &pull.Puller{Platform: p.platform, Insecure: p.insecure, Refused: k.Invalidate, Progress: bars.event}
	got, err := puller.Pull(ctx, image, res.Credentials, p.dir)
	bars.close()
	if err != nil {
		return r, a.pullFailed(r, err)
	}
	r.succeeded(got)
	return r, nil
}

// notPulled says why nothing is asked of the registry.
func (a *app) notPulled(image string, attempts []regcred.Attempt) error {
	why := "since without credentials that would be anonymous"
	if pullSecretFailed(attempts) {
		why = "since for want of a pull secret the kubelet would not pull it"
	}
	var causes []string
	for _, at := range failedOf(attempts) {
		causes = append(causes, attemptError(at).Error())
	}
	return withHint(fmt.Errorf("%s is not pulled, %s: %s", image, why, strings.Join(causes, "; ")),
		fmt.Sprintf("run %q to see every step", a.explainCommand(image)))
}

// warnings records what failed beside something that answered.
func (r *pullReport) warnings(attempts []regcred.Attempt) {
	for _, at := range failedOf(attempts) {
		r.Warnings = append(r.Warnings, warningJSON{at.Provider, at.Stage, cause(at.Err)})
	}
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
	r.tries(got.Failed)
}

// pullFailed records a pull that did not succeed and returns the error for people.
func (a *app) pullFailed(r *pullReport, err error) error {
	var failed *pull.Error
	if !errors.As(err, &failed) {
		return err
	}
	r.tries(failed.Tries)
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
		return withHint(err, fmt.Sprintf("the registry wants a login, and there is no credential; run %q", a.explainCommand(r.Image)))
	}
	return withHint(err, fmt.Sprintf("the registry refused what the providers returned; run %q to see where each came from", a.explainCommand(r.Image)))
}

func (r *pullReport) tries(tries []pull.Try) {
	for _, t := range tries {
		j := tryJSON{Status: t.Status, Error: t.Err.Error()}
		if t.Credential != nil {
			j.Credential = &toCredentialsJSON([]regcred.Credential{*t.Credential}, false)[0]
		}
		r.Failed = append(r.Failed, j)
	}
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
