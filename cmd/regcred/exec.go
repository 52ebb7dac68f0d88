// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/dockerclient"
	"github.com/regcred/regcred/internal/dockerhelper"
	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
)

// execFlags holds the flags of "regcred exec".
type execFlags struct {
	images       []string
	allHosts     bool
	materialize  bool
	noNodeConfig bool
}

func (a *app) execCmd() *cobra.Command {
	e := &execFlags{}
	cmd := &cobra.Command{
		Use:   "exec [flags] -- CMD [ARG...]",
		Short: "Run a command with registry credentials from regcred",
		Long: `Run CMD with DOCKER_CONFIG and REGISTRY_AUTH_FILE set to files in a temporary
directory that is removed when CMD exits. These files configure regcred's
credential helper for each exact host in the configuration and for the registry
of each --image. The user's other credentials, contexts, builders and CLI
plugins are copied.

With --materialize, the images' credentials are written to the files instead,
for programs that do not run credential helpers. Docker config files of the node
and the user are used only for images without a provider. The written
credentials are not renewed; a warning states when they expire.

CMD receives the terminal and all signals, except that SIGINT and SIGQUIT are
not forwarded in the terminal's foreground. regcred exits with CMD's exit code,
or is killed by the signal that killed CMD. The exit code is 127 if CMD does not
exist, and 126 if it cannot be run. CMD is not run if a credential cannot be
obtained.`,
		Example: `  regcred exec -- docker compose pull
  regcred exec --image registry.example/team/app -- skopeo inspect docker://registry.example/team/app
  regcred exec --materialize --image registry.example/team/app -- ./build.sh`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("%s: CMD is missing", cmd.CommandPath())
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // flags after CMD belong to the command
	f.StringArrayVar(&e.images, "image", nil, "`image` that CMD pulls; needed if only a wildcard pattern matches its registry; may be repeated")
	f.BoolVar(&e.allHosts, "all-hosts", false, "use regcred's helper for every registry that docker contacts")
	f.BoolVar(&e.materialize, "materialize", false, "write the images' credentials to the files instead of configuring the helper")
	f.BoolVar(&e.noNodeConfig, "no-node-config", false, "with --materialize, ignore the node's docker config files, also for images without a provider")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.execCommand(cmd.Context(), e, args) }
	return cmd
}

// check rejects incompatible flags.
func (e *execFlags) check(a *app) error {
	switch {
	case e.materialize && e.allHosts:
		return usageError("", "--materialize and --all-hosts are mutually exclusive")
	case e.materialize && len(e.images) == 0:
		return usageError("give --image", "--materialize requires --image")
	case e.materialize:
		return nil
	case e.noNodeConfig:
		return usageError("", "--no-node-config requires --materialize, because the helper never uses these files")
	case a.asKubelet != "" || a.rootDir != "" || a.timeout != protocol.KubeletTimeout:
		return usageError("use --config and --bin-dir, or --materialize",
			"exec supports --as-kubelet, --root-dir and --plugin-timeout only with --materialize, because the helper cannot use them")
	}
	return nil
}

func (a *app) execCommand(ctx context.Context, e *execFlags, args []string) error {
	if err := e.check(a); err != nil {
		return err
	}
	o, err := a.sessionOptions(ctx, e)
	if err != nil {
		return err
	}
	session, err := dockerclient.NewSession(a.clientEnv(), o)
	if err != nil && a.Getenv("REGISTRY_AUTH_FILE") == os.DevNull {
		return withHint(fmt.Errorf("REGISTRY_AUTH_FILE: %w", err), "podman cannot read it either: use a file that contains {} instead")
	}
	if err != nil {
		return withHelperHint(err)
	}
	for _, l := range session.Differing {
		a.Warn("docker's config.json can hold only one credential for %s; the credential for %s was written only to the file for podman, skopeo and buildah", l.Host(), l.Repository)
	}
	code, killedBy, err := a.runWithSession(ctx, session, args)
	if err == nil && session.IsChanged() {
		a.Warn("the command changed docker's config.json in the temporary directory; these changes were discarded")
	}
	if closing := session.Close(); closing != nil {
		a.Warn("%v", closing)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		a.Error(err)
	case killedBy == os.Interrupt, killedBy == syscall.SIGTERM, killedBy == syscall.SIGHUP:
		code = exitBySignal(killedBy) // other signals are not repeated; SIGQUIT, for example, could make this program dump its memory
	}
	return exitWithCode(code)
}

// runWithSession runs a command with the files of a session.
func (a *app) runWithSession(ctx context.Context, s *dockerclient.Session, args []string) (code int, killedBy os.Signal, err error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.Environ(a.environ), a.stdin, a.Stdout, a.Stderr
	for _, f := range []*aliasedFlag{&a.config, &a.binDir} {
		if f.value == "" {
			continue // the helper finds the path itself
		}
		path, err := filepath.Abs(f.value)
		if err != nil {
			return exitFailed, nil, err
		}
		cmd.Env = append(cmd.Env, f.variable+"="+path)
	}
	return runChild(ctx, cmd)
}

// sessionOptions returns the options of the session from which its files are written.
func (a *app) sessionOptions(ctx context.Context, e *execFlags) (o dockerclient.SessionOptions, err error) {
	if e.materialize {
		o.Credentials, err = a.firstCredentials(ctx, e)
		return o, err
	}
	cfg, origin, err := a.loadForHelper(ctx, true)
	if err != nil {
		return o, err
	}
	hosts, err := a.imageHosts(cfg, e.images)
	if err != nil {
		return o, err
	}
	o.AllHosts, o.Hosts = e.allHosts, deduplicate(append(dockerhelper.ExactHosts(cfg), hosts...))
	if len(o.Hosts) == 0 && !o.AllHosts && len(e.images) == 0 {
		a.printNoHostsNote(origin)
		return o, &exitError{code: exitNoMatch, hint: "use --image for the images that the command pulls, or --all-hosts"}
	}
	if findOnPath(a.Getenv("PATH"), helperProgram) == "" {
		if o.Program = nextToProgram(helperProgram); o.Program == "" {
			return o, withHint(fmt.Errorf("%s is neither on the PATH nor next to this program, so clients would not find it", helperProgram),
				"install it, or use --materialize")
		}
	}
	return o, nil
}

// imageHosts returns the registries for which the command must call the helper.
// Registries without a provider are left out, so that the user's own credentials still
// apply. Clients pass only the registry to the helper. So imageHosts returns an error
// for an image whose provider matches only a longer path.
func (a *app) imageHosts(cfg *config.Config, images []string) (hosts []string, err error) {
	for _, image := range images {
		x, err := a.explainImage(cfg, image)
		if err != nil {
			return nil, err
		}
		host, _, _ := strings.Cut(x.Repository, "/")
		switch {
		case dockerhelper.HasProvider(cfg, host):
			hosts = append(hosts, host)
		case slices.ContainsFunc(x.Providers, func(p regcred.ProviderExplanation) bool {
			return p.Matched && !dockerhelper.NeedsPod(&cfg.Providers[p.Index])
		}):
			return nil, withHint(fmt.Errorf("%s: clients pass only the registry to a helper, but every pattern that matches %s has a path", x.Repository, host),
				"give --materialize")
		case slices.ContainsFunc(x.Providers, func(p regcred.ProviderExplanation) bool { return p.Matched }):
			a.Note("the providers for %s serve only pods, so clients use their own credentials", x.Repository)
		default:
			a.Note("no provider serves %s, so clients use their own credentials", x.Repository)
		}
	}
	return hosts, nil
}

// firstCredentials looks up the first credential for each image. A failed lookup is an
// error, because the command would otherwise pull anonymously or with an old credential.
func (a *app) firstCredentials(ctx context.Context, e *execFlags) (logins []dockerclient.Credential, err error) {
	s, err := a.openKeyring(ctx, &lookupFlags{noNodeConfig: e.noNodeConfig})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for _, image := range e.images {
		x, err := a.explainImage(s.cfg, image)
		if err != nil {
			return nil, err
		}
		res, failed, err := s.lookupTarget(ctx, regcred.Request{Image: image})
		if err != nil {
			return nil, err
		}
		failed = preferProviders(res) || failed
		if failed || len(res.Credentials) == 0 {
			hint := fmt.Sprintf("run \"%s\" to see every step", a.repeatCommandLine("explain", terminal.QuoteShellWord(image)))
			err := a.lookupResultError(x.Repository, res, failed, hint)
			if failed {
				return nil, err
			}
			continue // lookupResultError has printed a note
		}
		a.warnFailedAttempts(res.Attempts)
		c := res.Credentials[0]
		if c.Username == "" && c.Password.Reveal() == "" {
			a.Note("the first credential for %s is empty, so a pull would be anonymous", x.Repository)
			continue
		}
		a.warnExpiry(x.Repository, c)
		logins = append(logins, dockerclient.Credential{Repository: x.Repository, Username: c.Username, Password: c.Password})
	}
	return logins, nil
}

// preferProviders removes the node's credentials if a provider has one, because the user's own docker
// config may be among the node's files, and the command gets only one credential. It reports
// whether a provider failed and no provider has a credential. Then the helper fails too.
func preferProviders(res *regcred.Result) (failed bool) {
	isFromNode := func(c regcred.Credential) bool { return c.Origin.Kind == regcred.FromNode }
	own := slices.DeleteFunc(slices.Clone(res.Credentials), isFromNode)
	failed = len(own) == 0 && slices.ContainsFunc(failedAttempts(res.Attempts), func(at regcred.Attempt) bool { return at.Kind == regcred.FromProvider })
	if len(own) > 0 {
		res.Credentials = own
	}
	return failed
}

// warnExpiry warns that a credential in a file is not renewed, and states when it expires if that
// is known.
func (a *app) warnExpiry(repository string, c regcred.Credential) {
	claims, err := jwt.Parse(c.Password.Reveal())
	switch at := (&terminal.Text{Now: a.Now}); {
	case err == nil && !claims.Expires.IsZero() && claims.Expires.Before(a.Now()):
		a.Warn("the credential for %s expired at %s", repository, claims.Expires.UTC().Format(time.RFC3339))
	case err == nil && !claims.Expires.IsZero():
		a.Warn("the credential for %s expires %s and is not renewed in the files", repository, at.FormatExpiry(&claims.Expires))
	case !c.CachedUntil.IsZero():
		a.Warn("the credential for %s is not renewed in the files; its cache entry expires at %s, but the credential might be valid for longer", repository, at.FormatExpiry(report.NewCredential(&c).CachedUntil))
	case c.Provider != "":
		a.Warn("the credential for %s is not renewed in the files, and its lifetime is unknown", repository)
	}
}

// Exit codes for a command that could not be run, the same as for env and nice.
const (
	exitCannotRun = 126
	exitNotFound  = 127
)

// runChild runs a command in this program's process group, so that it can use the
// terminal, and waits for it. Signals sent only to this program are forwarded to the
// command. runChild returns the command's exit code or, if a signal killed it, the
// signal and the exit code that shells use for it. err is not nil only if the command
// did not start.
func runChild(ctx context.Context, cmd *exec.Cmd) (code int, killedBy os.Signal, err error) {
	got := make(chan os.Signal, 16)
	signal.Notify(got, forwardedSignals(signal.Ignored)...) // never stopped, because a signal must not end this program before it has cleaned up
	if err := takeOverSignals(ctx); err != nil {
		return exitFailed, nil, err
	}
	if err := cmd.Start(); errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitNotFound, nil, err
	} else if err != nil {
		return exitCannotRun, nil, err
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case sig := <-got:
				forwardSignal(cmd.Process, sig)
			case <-done:
				return
			}
		}
	}()
	err = cmd.Wait()
	close(done)
	if _, ok := errors.AsType[*exec.ExitError](err); ok || err == nil {
		code, killedBy = exitStatus(cmd.ProcessState)
		return code, killedBy, nil
	}
	return exitFailed, nil, err
}
