// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
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
	Image        string      `json:"image"`
	Digest       string      `json:"digest"`    // digest that the registry reported
	Config       string      `json:"config"`    // content of the configuration file
	Explain      any         `json:"explain"`   // the output of "regcred explain -o json"
	Anonymous    tryReport   `json:"anonymous"` // the pull that the registry rejects
	Pulled       imageReport `json:"pulled"`
	SecondLookup struct {
		Cache     regcred.CacheResult `json:"cache"`
		AgeMillis int64               `json:"ageMillis"`
	} `json:"secondLookup"`
	Execs int `json:"execs"` // plugin execs for two lookups with one keyring
}

func (a *app) demoCmd(run runFunc) *cobra.Command {
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

// demoPluginCmd returns the hidden command that is the demo's plugin. The plugin executable is a
// copy of this program.
func (a *app) demoPluginCmd() *cobra.Command {
	return &cobra.Command{
		Use:    "demo-plugin PASSWORD-FILE REGISTRY",
		Short:  "The demo's plugin",
		Hidden: true,
		Args:   requireArgs("PASSWORD-FILE", "REGISTRY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			provider := plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) {
				password, err := os.ReadFile(args[0]) // as a plugin for an on-premises registry might do
				if err != nil {
					return nil, err
				}
				return &plugin.Response{
					CacheKeyType:  plugin.CacheRegistry,
					CacheDuration: new(10 * time.Minute),
					Auth:          map[string]plugin.AuthConfig{args[1]: {Username: demoUser, Password: plugin.NewSecret(string(password))}},
				}, nil
			})
			return exitWithCode(plugin.Serve(cmd.Context(), provider, plugin.ServeOptions{Stdin: a.stdin, Stdout: a.Stdout, Stderr: a.Stderr}))
		},
	}
}

// demo is a run of "regcred demo".
type demo struct {
	*demoNode
	*terminal.Text
	a      *app
	run    runFunc
	report demoReport
	json   bool // print no text
	out    io.Writer
	steps  int
}

func (a *app) runDemo(ctx context.Context, output *enumFlag, run runFunc) (err error) {
	n, err := newDemoNode()
	defer func() { err = errors.Join(err, n.close()) }()
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	d := &demo{demoNode: n, Text: a.NewText(), a: a, run: run, json: output.value == "json", out: a.Stdout}
	if d.json {
		d.out = io.Discard
	}
	d.report = demoReport{Image: n.image, Digest: n.digest, Config: n.config}
	for _, step := range []func(context.Context) error{d.showConfig, d.explainImage, d.pullAnonymously, d.pullAndLookUp} {
		if err := cmp.Or(step(ctx), d.FlushTo(d.out)); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	if d.json {
		return a.WriteJSON(d.report)
	}
	d.Quote("", `
The demo has removed its files. On your own node, try:
   regcred validate                   check the kubelet's configuration
   regcred explain IMAGE              see where its credentials come from
   regcred pull --layout DIR IMAGE    pull it with them
`)
	return d.FlushTo(d.out)
}

func (d *demo) printStep(title string) {
	d.steps++
	d.Heading(fmt.Sprintf("%d. %s", d.steps, title))
}

// demoIndent indents the output of a step.
const demoIndent = "   "

func (d *demo) showConfig(context.Context) error {
	d.HangingIndent("", "Everything runs on this machine: a registry on "+d.registry.Addr()+", and files in "+d.dir+".")
	d.printStep("A private image in a registry that requires a credential")
	d.Quote(demoIndent, d.image+"\n"+d.digest)
	d.printStep("A node's configuration, and a plugin with the password")
	d.Quote(demoIndent, strings.TrimPrefix(d.config, "\n"))
	return nil
}

// explainImage runs "regcred explain" as a user would.
func (d *demo) explainImage(ctx context.Context) error {
	var out strings.Builder
	sub := *d.a
	sub.Stdout, sub.config, sub.binDir = &out, aliasedFlag{}, aliasedFlag{}
	if d.Width > 0 {
		sub.Width = d.Width - len(demoIndent)
	}
	args := []string{"explain", d.image, "--config", d.configFile(), "--bin-dir", d.binDir(), "--no-node-config"}
	if d.json {
		args = append(args, "-o", "json")
	}
	code := d.run(&sub, ctx, args)
	d.printStep("regcred explain " + d.image)
	d.Quote(demoIndent, out.String())
	if code != exitOK {
		if d.json {
			why := &terminal.Text{} // the output of explain is not printed elsewhere
			why.Quote("", out.String())
			_ = why.FlushTo(d.a.Stderr)
		}
		return withHint(fmt.Errorf("explain exited with code %d", code),
			fmt.Sprintf("if %s is on a noexec mount, set TMPDIR to a directory where files can be executed", filepath.Dir(d.dir)))
	}
	if d.json {
		d.report.Explain = json.RawMessage(out.String())
	}
	return nil
}

// pullAnonymously shows that the image cannot be pulled without a credential.
func (d *demo) pullAnonymously(ctx context.Context) error {
	_, err := new(pull.Puller).Pull(ctx, d.image, nil, filepath.Join(d.dir, "anonymous"))
	var failed *pull.Error
	if !errors.As(err, &failed) || len(failed.Tries) != 1 || failed.Tries[0].Status != http.StatusUnauthorized {
		return fmt.Errorf("the anonymous pull was not rejected with HTTP 401: %w", err)
	}
	d.report.Anonymous = tryReport{Status: failed.Tries[0].Status, Error: failed.Tries[0].Err.Error()}
	d.printStep("A pull without credentials is rejected")
	d.HangingIndent(demoIndent, d.report.Anonymous.Error)
	return nil
}

// pullAndLookUp pulls with the plugin's credential and then looks the credential up
// again.
func (d *demo) pullAndLookUp(ctx context.Context) error {
	cfg, err := config.Load(d.configFile())
	if err != nil {
		return err
	}
	r := &d.report
	k, err := regcred.New(cfg, regcred.Options{BinDir: d.binDir(), Environ: d.a.environ, Observer: func(e regcred.Event) {
		if e.Kind == regcred.EventExec {
			r.Execs++ // not concurrent, because only one provider runs at a time
		}
	}})
	if err != nil {
		return err
	}
	defer k.Close()
	sub := *d.a
	sub.Quiet = true
	p := newPullRun(&sub, &commonPullFlags{}, &lookupSession{Keyring: k, cfg: cfg})
	p.pullInto = sub.newLayoutPuller(&pull.Puller{}, filepath.Join(d.dir, "image"))
	r.Pulled = p.pullImage(ctx, d.image)
	if r.Pulled.Outcome != outcomePulled {
		return errors.New(r.Pulled.Error)
	}
	d.printStep("A pull with the plugin's credentials succeeds")
	d.HangingIndent(demoIndent, r.Pulled.Digest)
	d.HangingIndent(demoIndent, fmt.Sprintf("%s, with %s", r.Pulled.contentText(), credentialText(r.Pulled.Credential)))
	if r.Pulled.Digest != d.digest {
		return fmt.Errorf("pulled %s, pushed %s", r.Pulled.Digest, d.digest)
	}
	res, err := k.Lookup(ctx, regcred.Request{Image: d.image})
	if err != nil {
		return err
	}
	at := res.Attempts[0]
	r.SecondLookup.Cache, r.SecondLookup.AgeMillis = at.Cache, at.Age.Milliseconds()
	d.printStep("A second lookup uses the cache")
	d.HangingIndent(demoIndent, fmt.Sprintf("cache %s, entry %d ms old; the plugin ran %s in total for both lookups", at.Cache, r.SecondLookup.AgeMillis, timesText(r.Execs)))
	return nil
}

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

// runFunc runs the program with arguments and returns the exit code.
type runFunc func(a *app, ctx context.Context, args []string) int

// demoNode holds the demo's registry, and the directory with the node's configuration.
type demoNode struct {
	dir      string
	registry *testregistry.Server
	image    string
	digest   string
	config   string // content of the configuration
}

func (n *demoNode) configFile() string { return filepath.Join(n.dir, "config.yaml") }

func (n *demoNode) binDir() string { return filepath.Join(n.dir, "bin") }

// newDemoNode creates a demo node. If it fails, the caller must still close the node.
func newDemoNode() (*demoNode, error) {
	n := &demoNode{}
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
