// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/pull"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/plugin"
)

// demoReport is the result of "regcred demo -o json".
type demoReport struct {
	Image     string                 `json:"image"`
	Digest    string                 `json:"digest"`    // from the registry
	Config    string                 `json:"config"`    // content of the configuration file
	Explain   any                    `json:"explain"`   // the output of "regcred explain -o json"
	Anonymous tryReport              `json:"anonymous"` // the pull that the registry rejects
	Pulled    imageReport            `json:"pulled"`
	Second    demoSecondLookupReport `json:"secondLookup"`
	Execs     int                    `json:"execs"` // plugin execs for two lookups with one keyring
}

type demoSecondLookupReport struct {
	Cache     regcred.CacheResult `json:"cache"`
	AgeMillis int64               `json:"ageMillis"`
}

func (a *app) demoCmd(run runner) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a registry, a plugin, a lookup and a pull on this machine",
		Long: `Start a registry on loopback that requires a credential, push a private image to
it, write a configuration and a plugin to a temporary directory, then look up
the credentials and pull the image as a node would. No other machine is
contacted, and all files are removed at the end.`,
		Example: `  regcred demo
  regcred demo -o json | jq .pulled.digest`,
		Args: optionalArgs(),
	}
	output := addOutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.runDemo(cmd.Context(), output, run)
	}
	return cmd
}

// demoPluginCmd returns the hidden command that implements the demo's plugin, which is a copy of
// this program under the plugin's name.
func (a *app) demoPluginCmd() *cobra.Command {
	return &cobra.Command{
		Use:    "demo-plugin PASSWORD-FILE REGISTRY",
		Short:  "The demo's plugin",
		Hidden: true,
		Args:   requireArgs("PASSWORD-FILE", "REGISTRY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return exitWithCode(plugin.Serve(cmd.Context(), demoPlugin(args[0], args[1]), plugin.ServeOptions{
				Stdin: a.stdin, Stdout: a.Stdout, Stderr: a.Stderr,
			}))
		},
	}
}

// demoPlugin returns a plugin that reads the password from a file, as a plugin for an
// on-premises registry might.
func demoPlugin(passwordFile, registry string) plugin.Provider {
	return plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) {
		password, err := os.ReadFile(passwordFile)
		if err != nil {
			return nil, err
		}
		return &plugin.Response{
			CacheKeyType:  plugin.CacheRegistry,
			CacheDuration: new(10 * time.Minute),
			Auth:          map[string]plugin.AuthConfig{registry: {Username: demoUser, Password: plugin.NewSecret(string(password))}},
		}, nil
	})
}

func (a *app) runDemo(ctx context.Context, output *enumFlag, run runner) (err error) {
	n, err := newDemoNode(run)
	defer func() { err = errors.Join(err, n.close()) }()
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	say := &demoText{Text: a.NewText(), out: a.Stdout, silent: output.value == "json"}
	if say.silent {
		say.out = io.Discard
	}
	r := &demoReport{Image: n.image, Digest: n.digest, Config: n.config}
	for _, step := range []func(context.Context, *demoNode, *demoReport, *demoText) error{
		a.demoConfigStep, a.demoExplainStep, a.demoAnonymousStep, a.demoPullStep,
	} {
		if err := step(ctx, n, r, say); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	if say.silent {
		return a.WriteJSON(r)
	}
	say.Quote("", `
The demo has removed its files. On your own node, try:
   regcred validate                   check the kubelet's configuration
   regcred explain IMAGE              see where its credentials come from
   regcred pull --layout DIR IMAGE    pull it with them
`)
	return say.flush()
}

func (a *app) demoConfigStep(_ context.Context, n *demoNode, _ *demoReport, t *demoText) error {
	t.HangingIndent("", "Everything runs on this machine: a registry on "+n.registry.Addr()+", and files in "+n.dir+".")
	t.printStep("A private image in a registry that requires a credential")
	t.printIndented(n.image + "\n" + n.digest)
	t.printStep("A node's configuration, and a plugin with the password")
	t.printIndented(strings.TrimPrefix(n.config, "\n"))
	return t.flush()
}

// demoExplainStep runs "regcred explain" as a user would.
func (a *app) demoExplainStep(ctx context.Context, n *demoNode, r *demoReport, t *demoText) error {
	var out strings.Builder
	sub := *a
	sub.Stdout, sub.config, sub.binDir = &out, aliasedFlag{}, aliasedFlag{}
	if t.Width > 0 {
		sub.Width = t.Width - len(demoIndent)
	}
	args := []string{"explain", n.image, "--config", n.configFile(), "--bin-dir", n.binDir(), "--no-node-config"}
	if t.silent {
		args = append(args, "-o", "json")
	}
	code := n.run(&sub, ctx, args)
	t.printStep("regcred explain " + n.image)
	t.printIndented(out.String())
	if err := t.flush(); err != nil {
		return err
	}
	if code != exitOK {
		if t.silent {
			why := &terminal.Text{} // the reason is not printed elsewhere
			why.Quote("", out.String())
			_ = why.FlushTo(a.Stderr)
		}
		return withHint(fmt.Errorf("explain exited with code %d", code),
			fmt.Sprintf("if %s is on a noexec mount, set TMPDIR to a directory where files can be executed", filepath.Dir(n.dir)))
	}
	if t.silent {
		r.Explain = json.RawMessage(out.String())
	}
	return nil
}

// demoAnonymousStep shows that the image cannot be pulled without a credential.
func (a *app) demoAnonymousStep(ctx context.Context, n *demoNode, r *demoReport, t *demoText) error {
	_, err := new(pull.Puller).Pull(ctx, n.image, nil, filepath.Join(n.dir, "anonymous"))
	var failed *pull.Error
	if !errors.As(err, &failed) || len(failed.Tries) != 1 || failed.Tries[0].Status != http.StatusUnauthorized {
		return fmt.Errorf("the anonymous pull was not rejected with HTTP 401: %w", err)
	}
	r.Anonymous = tryReport{Status: failed.Tries[0].Status, Error: failed.Tries[0].Err.Error()}
	t.printStep("A pull without credentials is rejected")
	t.printWrapped(r.Anonymous.Error)
	return t.flush()
}

// demoPullStep pulls with the plugin's credential and then looks the credential up
// again.
func (a *app) demoPullStep(ctx context.Context, n *demoNode, r *demoReport, t *demoText) error {
	cfg, err := config.Load(n.configFile())
	if err != nil {
		return err
	}
	k, err := regcred.New(cfg, regcred.Options{BinDir: n.binDir(), Environ: a.environ, Observer: func(e regcred.Event) {
		if e.Kind == regcred.EventExec {
			r.Execs++ // one provider runs at a time here
		}
	}})
	if err != nil {
		return err
	}
	defer k.Close()
	sub := *a
	sub.Quiet = true
	p := newPullRun(&sub, &commonPullFlags{}, &lookupSession{Keyring: k, cfg: cfg})
	p.pullInto = sub.newLayoutPuller(&pull.Puller{}, filepath.Join(n.dir, "image"))
	pulled := p.pullImage(ctx, n.image)
	if pulled.Outcome != outcomePulled {
		return errors.New(pulled.Error)
	}
	r.Pulled = pulled
	t.printStep("A pull with the plugin's credentials succeeds")
	t.printWrapped(pulled.Digest)
	t.printWrapped(fmt.Sprintf("%s, with %s", pulled.contentText(), credentialText(pulled.Credential)))
	if pulled.Digest != n.digest {
		return fmt.Errorf("pulled %s, pushed %s", pulled.Digest, n.digest)
	}
	res, err := k.Lookup(ctx, regcred.Request{Image: n.image})
	if err != nil {
		return err
	}
	at := res.Attempts[0]
	r.Second = demoSecondLookupReport{at.Cache, at.Age.Milliseconds()}
	t.printStep("A second lookup uses the cache")
	t.printWrapped(fmt.Sprintf("cache %s, entry %d ms old; the plugin ran %s in total for both lookups", at.Cache, r.Second.AgeMillis, timesText(r.Execs)))
	return t.flush()
}

// demoText prints the demo step by step.
type demoText struct {
	*terminal.Text
	out    io.Writer
	silent bool // -o json prints no text
	steps  int
}

func (t *demoText) printStep(title string) {
	t.steps++
	t.Heading(fmt.Sprintf("%d. %s", t.steps, title))
}

// demoIndent indents the output of a step.
const demoIndent = "   "

func (t *demoText) printIndented(s string) { t.Quote(demoIndent, s) }

// printWrapped prints running text, wrapped and indented.
func (t *demoText) printWrapped(s string) { t.HangingIndent(demoIndent, s) }

// flush prints the text so far, so that each step appears as it happens.
func (t *demoText) flush() error { return t.FlushTo(t.out) }

func timesText(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

const (
	demoProvider = "demo-credential-provider"
	demoUser     = "demo"
	demoRepo     = "team/app"
	demoTag      = "v1"
)

// runner runs the program with arguments and returns the exit code.
type runner func(a *app, ctx context.Context, args []string) int

// demoNode holds the demo's registry, and the directory with the node's configuration.
type demoNode struct {
	dir      string
	registry *testregistry.Server
	image    string
	digest   string
	config   string // content of the configuration
	run      runner
}

func (n *demoNode) configFile() string { return filepath.Join(n.dir, "config.yaml") }

func (n *demoNode) binDir() string { return filepath.Join(n.dir, "bin") }

// newDemoNode creates a demo node. If it fails, the caller must still close the node.
func newDemoNode(run runner) (*demoNode, error) {
	n := &demoNode{run: run}
	var err error
	if n.dir, err = os.MkdirTemp("", "regcred-demo-"); err != nil {
		return n, err
	}
	password := rand.Text()
	n.registry, err = testregistry.New(testregistry.Options{Auth: testregistry.AuthBearer, Users: map[string]string{demoUser: password}})
	if err != nil {
		return n, err
	}
	n.image = n.registry.Addr() + "/" + demoRepo + ":" + demoTag
	if n.digest, err = n.registry.Push(demoRepo, demoTag, testregistry.Image{LayerSize: 256 << 10}); err != nil {
		return n, err
	}
	return n, n.writeFiles(password)
}

// writeFiles writes the configuration, the password and the plugin into the directory.
func (n *demoNode) writeFiles(password string) error {
	passwordFile := filepath.Join(n.dir, "password")
	n.config = fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: %s
  matchImages: [%q]
  defaultCacheDuration: 10m
  apiVersion: %s
  args:
  - demo-plugin
  - %q
  - %q
`, demoProvider, n.registry.Addr(), plugin.V1, passwordFile, n.registry.Addr())
	return errors.Join(
		os.WriteFile(passwordFile, []byte(password), 0o600),
		os.WriteFile(n.configFile(), []byte(n.config), 0o600),
		os.Mkdir(n.binDir(), 0o700),
		copyProgram(filepath.Join(n.binDir(), demoProvider)),
	)
}

// copyProgram copies this program to path.
func copyProgram(path string) error {
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	return os.WriteFile(path, program, 0o700)
}

// close stops the registry and removes the directory.
func (n *demoNode) close() error {
	var errs []error
	if n.registry != nil {
		errs = append(errs, n.registry.Close())
	}
	if n.dir != "" {
		errs = append(errs, os.RemoveAll(n.dir))
	}
	return errors.Join(errs...)
}
