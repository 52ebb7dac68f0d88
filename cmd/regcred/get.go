// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
)

// getFlags holds the flags of "regcred get".
type getFlags struct {
	*lookupFlags
	output          *enumFlag
	name, namespace string
}

// getResult is the result of "regcred get -o json".
type getResult struct {
	Image       string              `json:"image,omitempty"`
	Registry    string              `json:"registry,omitempty"`
	Repository  string              `json:"repository"` // the name that patterns are matched against; with --registry, only the host
	Credentials []report.Credential `json:"credentials"`
	Error       string              `json:"error,omitempty"` // if set, it is unknown whether the image needs credentials
}

func (a *app) getCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get IMAGE",
		Short: "Print the credentials for an image",
		Long: `Print the credentials that a node would use to pull IMAGE, in the order that the
node would try them.

The text format hides passwords. The other formats contain passwords: json has
all credentials, but docker-config, secret and crictl have only the first
credential, keyed by the registry's own name.

The exit code is 0 if credentials are found, 3 if a pull would be anonymous, and
1 if something failed.`,
		Example: `  regcred get registry.example/team/app:1.2
  regcred get -o docker-config registry.example/team/app > auth.json
  regcred get -o secret --name pull --namespace team registry.example/team/app | kubectl apply -f -
  regcred get --registry registry.example -o json`,
	}
	g := &getFlags{output: addOutputFlag(cmd, "text", "json", "docker-config", "secret", "crictl")}
	f := cmd.Flags()
	f.StringVar(&g.name, "name", "regcred", "`name` of the Secret for -o secret")
	f.StringVar(&g.namespace, "namespace", "", "`namespace` of the Secret for -o secret")
	g.lookupFlags = addLookupFlags(cmd)
	addTargetArgs(cmd, func(ctx context.Context, tgt regcred.Request) error { return a.get(ctx, g, tgt) })
	return cmd
}

func (a *app) get(ctx context.Context, g *getFlags, tgt regcred.Request) error {
	s, err := a.openKeyring(ctx, g.lookupFlags)
	if err != nil {
		return err
	}
	defer s.Close()
	ex, err := a.explainTarget(s.cfg, tgt)
	if err != nil {
		return err
	}
	a.printUnusedImageNote(s.cfg, s.subject, ex.Repository)
	res, failed, err := s.lookupTarget(ctx, tgt)
	if err != nil {
		return err
	}
	r := getResult{Image: tgt.Image, Registry: tgt.Registry, Repository: ex.Repository, Credentials: report.NewCredentials(res.Credentials)}
	if failed {
		r.Error = (&regcred.LookupError{Image: r.Repository, Failed: failedAttempts(res.Attempts)}).Error()
	}
	if err := a.writeGetResult(g, &r, res.Credentials); err != nil {
		return err
	}
	hint := fmt.Sprintf("run \"%s\" to see every step", a.repeatCommandLine("explain", append(g.subjectArgs(), targetArgs(tgt)...)...))
	for _, at := range slices.Backward(res.Attempts) { // use the fix of the first attempt that has one
		hint = cmp.Or(doctor.AttemptFix(at, s.subject != nil, s.origin.Config), hint)
	}
	s.printNodeFindings(ctx, a, res)
	if s.kubeletExitError != nil && !failed {
		a.Warn("%v", s.kubeletExitError)
	}
	return a.lookupResultError(r.Repository, res, failed, hint)
}

func (a *app) writeGetResult(g *getFlags, r *getResult, creds []regcred.Credential) error {
	format := g.output.value
	switch {
	case len(creds) == 0 && format != "json":
		return nil
	case format == "text":
		t := a.NewText()
		credentialTable(t, r.Credentials)
		return t.FlushTo(a.Stdout)
	case format == "json":
		for i, c := range creds {
			r.Credentials[i].Username, r.Credentials[i].Password = c.Username, new(c.Password.Reveal())
		}
		a.printPasswordNote(len(creds))
		return a.WriteJSON(r)
	}
	data, err := formatCredential(format, metav1.ObjectMeta{Name: g.name, Namespace: g.namespace}, r.Repository, creds[0])
	if err != nil {
		return err
	}
	if len(creds) > 1 {
		a.Note("the %s format can hold only one credential; it contains the first of %d", format, len(creds))
	}
	if format == "crictl" {
		a.Warn("crictl accepts passwords only on the command line, where every user on this machine can see them; \"regcred prepull\" does not expose them")
	}
	a.printPasswordNote(1)
	return a.WriteRaw(data)
}

func (a *app) printPasswordNote(n int) {
	if a.StdoutIsTerminal() && n > 0 {
		a.Note("the output contains a password")
	}
}

// lookupResultError returns an error if a lookup failed or there are no credentials.
func (a *app) lookupResultError(repository string, res *regcred.Result, failed bool, hint string) error {
	if failed {
		if isPullSecretInvalid(res.Attempts) {
			a.Note("without the pull secret, the kubelet would not pull the image at all")
		}
		var errs []error
		for _, at := range failedAttempts(res.Attempts) {
			errs = append(errs, fmt.Errorf("no credentials for %s: %w", repository, at.Err))
		}
		return withHint(errors.Join(errs...), hint)
	}
	a.warnFailedAttempts(res.Attempts)
	if len(res.Credentials) > 0 {
		return nil
	}
	for _, at := range res.Attempts {
		if at.Skipped != "" {
			a.Note("provider %q is not run: %s", at.Provider, at.Skipped)
		}
	}
	a.Note("no credentials were found for %s and nothing failed, so a pull would be anonymous", repository)
	return &exitError{code: exitNoMatch, hint: hint}
}

// formatCredential formats a credential for formats that hold only one. meta is the metadata of a
// Secret; its namespace may be empty.
func formatCredential(format string, meta metav1.ObjectMeta, repository string, c regcred.Credential) ([]byte, error) {
	if c.Username == "" {
		return nil, withHint(fmt.Errorf("-o %s: the credential for %s has no user name, and clients reject files with such a credential", format, repository), "use -o json")
	}
	if strings.Contains(c.Username, ":") {
		return nil, withHint(fmt.Errorf("-o %s: user name %q contains a colon, which is not allowed in this format", format, c.Username), "use -o json")
	}
	login := c.Username + ":" + c.Password.Reveal()
	if format == "crictl" {
		if !terminal.IsPrintable(login) {
			// The shell's "$(…)" would strip trailing newlines, and a terminal would
			// interpret other control characters.
			return nil, withHint(errors.New("-o crictl: the user name or password contains a control character"), "use -o json")
		}
		return []byte(login + "\n"), nil
	}
	host, _, _ := strings.Cut(repository, "/")
	if host == "docker.io" || host == "index.docker.io" {
		host = "https://index.docker.io/v1/" // docker's own key for Docker Hub
	}
	auth := map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte(login))}
	config, err := json.MarshalIndent(map[string]any{"auths": map[string]any{host: auth}}, "", "  ")
	config = append(config, '\n')
	if err != nil || format == "docker-config" {
		return config, err
	}
	return yaml.Marshal(corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta,
		Type:       corev1.SecretTypeDockerConfigJson,
		Data:       map[string][]byte{corev1.DockerConfigJsonKey: config},
	})
}
