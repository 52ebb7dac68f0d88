// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/dockerclient"
	"github.com/regcred/regcred/internal/dockerhelper"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/terminal"
)

func (a *app) helperCmd() *cobra.Command {
	return makeParentCommand(&cobra.Command{
		Use:   "helper",
		Short: "Configure docker, podman and other clients to use regcred",
		Long: `Configure docker, podman and other clients to pull with the credentials from a
node's configuration. These commands add docker-credential-regcred to the
clients' config files or remove it.`,
	}, a.helperInstallCmd(), a.helperUninstallCmd(), a.helperStatusCmd())
}

// helperFlags holds the flags of the helper commands.
type helperFlags struct {
	output             *enumFlag
	docker, containers bool
	dryRun             bool
	allHosts           bool
	others             *enumFlag
}

func addHelperFlags(cmd *cobra.Command) *helperFlags {
	h := &helperFlags{output: addOutputFlag(cmd, "text", "json")}
	f := cmd.Flags()
	f.BoolVar(&h.docker, "docker", false, "only docker's file, which some other clients also read: DOCKER_CONFIG/config.json or ~/.docker/config.json")
	f.BoolVar(&h.containers, "containers", false, "only the file that podman, skopeo and buildah read: REGISTRY_AUTH_FILE or ~/.config/containers/auth.json")
	f.BoolVar(&h.dryRun, "dry-run", false, "show what would change without changing anything")
	cmd.Args = optionalArgs()
	return h
}

// selectedClients returns the clients that the flags select, or the default clients.
func (h *helperFlags) selectedClients(otherwise ...dockerclient.Client) (list []dockerclient.Client) {
	if h.docker {
		list = append(list, dockerclient.ClientDocker)
	}
	if h.containers {
		list = append(list, dockerclient.ClientContainers)
	}
	if len(list) == 0 {
		return otherwise
	}
	return list
}

func (a *app) helperInstallCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Configure clients to use regcred for the configuration's hosts",
		Long: `Add each exact host in the configuration to credHelpers in docker's config.json,
so that docker, compose, buildx, nerdctl, crane, cosign, ko, oras, helm and
other clients call docker-credential-regcred for that host. --containers instead
changes the file that podman, skopeo and buildah read.

The rest of the file is preserved byte for byte. regcred manages all entries for
its helper and removes those for hosts that are no longer in the configuration.

Clients do not support patterns, so hosts that match only a pattern with * are
not included. --all-hosts also sets docker's credsStore, which docker uses for
all other hosts. --all-hosts fails if it would override another credential store
or credentials in the file.`,
		Example: `  regcred helper install --dry-run
  regcred helper install
  regcred helper install --docker --containers
  regcred helper install --all-hosts`,
	}
	h := addHelperFlags(cmd)
	f := cmd.Flags()
	f.BoolVar(&h.allHosts, "all-hosts", false, "use regcred's helper for every registry that docker contacts")
	h.others = addEnumFlag(cmd, "others", "", "`action` if a host has another helper: refuse | keep | replace", string(dockerclient.ConflictFail),
		string(dockerclient.ConflictFail), string(dockerclient.ConflictKeep), string(dockerclient.ConflictReplace))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.helperInstall(cmd.Context(), h) }
	return cmd
}

func (a *app) helperInstall(ctx context.Context, h *helperFlags) error {
	clients := h.selectedClients(dockerclient.ClientDocker)
	if h.allHosts && !slices.Contains(clients, dockerclient.ClientDocker) {
		return usageError("configure the helper in registries.conf: credential-helpers = [\"containers-auth.json\", \"regcred\"]",
			"--all-hosts applies only to docker's file, because podman, skopeo and buildah do not read credsStore")
	}
	cfg, o, err := a.loadForHelper(ctx, !a.config.isSetByFlag()) // with --config, the helper takes the bin dir from its own environment
	if err != nil {
		return err
	}
	hosts := dockerhelper.ExactHosts(cfg)
	edit := func(c dockerclient.Client) func([]byte) ([]byte, error) {
		want := dockerclient.DesiredEntries{Hosts: a.clientKeys(c, hosts), Others: dockerclient.ConflictPolicy(h.others.value),
			AllHosts: h.allHosts && slices.Contains(c.ClientsSharingFile(a.clientEnv()), dockerclient.ClientDocker)}
		return func(data []byte) ([]byte, error) { return dockerclient.PutEntries(data, want) }
	}
	r := &helperReport{Config: o.Config, Hosts: hosts, install: true}
	if err := a.editHelpers(ctx, h, clients, edit, r); err != nil {
		return err
	}
	a.printHelperEnvNote(o)
	if len(hosts) == 0 && !h.allHosts {
		a.printNoHostsNote(o)
		return &exitError{code: exitNoMatch, hint: "add the hosts to matchImages, or use --all-hosts"}
	}
	return nil
}

func (a *app) helperUninstallCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove regcred's helper from the clients' config files",
		Long: `Remove all entries for regcred's helper from docker's config file and from the
config file of podman, skopeo and buildah. Flags select one of these files. A
file that has not changed since "regcred helper install" is restored byte for
byte. A file that was created for the helper's entries is deleted.`,
		Example: `  regcred helper uninstall --dry-run
  regcred helper uninstall --containers`,
	}
	h := addHelperFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		edit := func(dockerclient.Client) func([]byte) ([]byte, error) { return dockerclient.RemoveEntries }
		clients := h.selectedClients(dockerclient.ClientDocker, dockerclient.ClientContainers)
		return a.editHelpers(cmd.Context(), h, clients, edit, &helperReport{})
	}
	return cmd
}

// editHelpers edits the config files of all clients. If one file cannot be edited, none is changed.
func (a *app) editHelpers(ctx context.Context, h *helperFlags, clients []dockerclient.Client,
	edit func(dockerclient.Client) func([]byte) ([]byte, error), r *helperReport) error {
	a.findHelper(r)
	clients = a.dedupeByFile(clients)
	err := a.addFileReports(r, clients, func(c dockerclient.Client, path string) (dockerclient.FileChange, error) {
		return dockerclient.PlanChange(path, edit(c))
	})
	if err == nil && !h.dryRun {
		err = a.addFileReports(r, clients, func(c dockerclient.Client, path string) (dockerclient.FileChange, error) {
			return dockerclient.ApplyChange(ctx, path, edit(c))
		})
	}
	if err != nil {
		return withHelperHint(err)
	}
	r.dryRun = h.dryRun
	if err := a.printResult(h.output, r, r.renderChanges); err != nil {
		return err
	}
	a.printFileNotes(r)
	return nil
}

// addFileReports calls do for the file of each client and adds the results to r.
func (a *app) addFileReports(r *helperReport, clients []dockerclient.Client, do func(dockerclient.Client, string) (dockerclient.FileChange, error)) error {
	r.Files = []helperFileReport{}
	for _, c := range clients {
		path, err := c.Path(a.clientEnv())
		if err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
		change, err := do(c, path)
		if err != nil {
			return err
		}
		r.Files = append(r.Files, newHelperFileReport(c, change, a.clientKeys(c, r.Hosts)))
	}
	return nil
}

// clientKeys returns the keys that hosts have in a client's config file. Clients that share the
// file may spell a host differently, so the keys of all of them are included.
func (a *app) clientKeys(c dockerclient.Client, hosts []string) (keys []string) {
	for _, reader := range c.ClientsSharingFile(a.clientEnv()) {
		keys = append(keys, reader.HelperKeys(hosts)...)
	}
	return deduplicate(keys)
}

// dedupeByFile removes clients that read the same file as an earlier one.
func (a *app) dedupeByFile(clients []dockerclient.Client) (list []dockerclient.Client) {
	for _, c := range clients {
		if !slices.ContainsFunc(c.ClientsSharingFile(a.clientEnv()), func(r dockerclient.Client) bool { return slices.Contains(list, r) }) {
			list = append(list, c)
		}
	}
	return list
}

func (a *app) clientEnv() dockerclient.Env { return dockerclient.Env{Getenv: a.Getenv, Dir: a.dir} }

// withHelperHint adds a hint on how to fix err.
func withHelperHint(err error) error {
	if _, ok := errors.AsType[*dockerclient.ConflictError](err); ok {
		return withHint(err, "use --others keep to leave these hosts unchanged, or --others replace to replace their helpers; \"regcred helper uninstall\" does not restore a replaced helper")
	}
	if e, ok := errors.AsType[*dockerclient.CredsStoreError](err); ok {
		hint := "remove credsStore from the file, or omit --all-hosts"
		if len(e.AuthKeys) > 0 {
			hint = "log out of these registries (docker logout), or omit --all-hosts to use only the configuration's exact hosts"
		}
		return withHint(err, hint)
	}
	if errors.Is(err, fs.ErrPermission) {
		// Do not suggest sudo: it would edit root's file, or create one that the user's clients
		// may not read.
		return withHint(err, "chown the file and its directory to this user (\"sudo docker login\" creates them as root), or set HOME or DOCKER_CONFIG")
	}
	return err
}

func (a *app) helperStatusCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show which clients use regcred, and for which hosts",
		Long: `Compare docker's config file and the config file of podman, skopeo and buildah
with the configuration. Show which hosts use regcred's helper, and why the
others do not.

The exit code is 0 if a file has the helper for every exact host in the
configuration, 3 if no file has the helper, and 1 if an entry is missing,
obsolete or blocked by another entry.`,
		Example: `  regcred helper status
  regcred helper status -o json`,
		Args: optionalArgs(),
	}
	output := addOutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.helperStatus(cmd.Context(), output) }
	return cmd
}

func (a *app) helperStatus(ctx context.Context, output *enumFlag) error {
	r := &helperReport{}
	cfg, o, failed := a.loadForHelper(ctx, !a.config.isSetByFlag())
	if failed == nil {
		r.Config, r.Hosts = o.Config, dockerhelper.ExactHosts(cfg)
	}
	a.findHelper(r)
	clients := []dockerclient.Client{dockerclient.ClientDocker, dockerclient.ClientContainers}
	same := func(data []byte) ([]byte, error) {
		_, err := dockerclient.ReadEntries(data)
		return data, err
	}
	err := a.addFileReports(r, clients, func(_ dockerclient.Client, path string) (dockerclient.FileChange, error) {
		return dockerclient.PlanChange(path, same)
	})
	if err != nil {
		return errors.Join(failed, withHelperHint(err))
	}
	for i := range r.Files {
		if failed != nil {
			r.Files[i].LeftOver = nil // unknown, because the configuration could not be loaded
		}
	}
	if err := a.printResult(output, r, r.renderStatus); err != nil {
		return err
	}
	a.printFileNotes(r)
	return errors.Join(failed, exitWithCode(r.exitCode()))
}

// loadForHelper loads the configuration that the helper will find. The helper has no flags, so
// error messages mention only the environment variables.
func (a *app) loadForHelper(ctx context.Context, needBinDir bool) (*config.Config, *node.Origin, error) {
	a.forHelper = true
	return a.resolveAndLoad(ctx, "", needBinDir)
}

// printNoHostsNote prints that there are no hosts to list in a client's file.
func (a *app) printNoHostsNote(o *node.Origin) {
	a.Note("%s does not list any exact hosts (except for providers that serve only pods), and clients do not support patterns", o.Config)
}

// printHelperEnvNote prints a note or warning if clients might run the helper with a different
// configuration than this command.
func (a *app) printHelperEnvNote(o *node.Origin) {
	switch {
	case a.config.isSetByFlag() || a.binDir.isSetByFlag() || a.asKubelet != "":
		config := o.Config
		if !filepath.IsAbs(config) {
			config = filepath.Join(a.dir, config)
		}
		a.Warn("clients run the helper without this command's flags: set REGCRED_CONFIG=%s and REGCRED_BIN_DIR in their environment", terminal.QuoteShellWord(config))
	case a.config.isRelativePath() || a.binDir.isRelativePath():
		a.Warn("REGCRED_CONFIG or REGCRED_BIN_DIR is a relative path: set absolute paths in the clients' environment")
	case !o.Discovered:
		a.Note("the helper finds this configuration if clients run with the same REGCRED_CONFIG and REGCRED_BIN_DIR")
	}
}

func deduplicate(list []string) (once []string) {
	for _, s := range list {
		if !slices.Contains(once, s) {
			once = append(once, s)
		}
	}
	return once
}
