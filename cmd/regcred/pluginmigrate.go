// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/convert"
	"github.com/regcred/regcred/internal/migrate"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/secretfile"
	"github.com/regcred/regcred/internal/terminal"
)

func (a *app) pluginMigrateCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate [PATH]",
		Short: "Show which arguments to change when you replace a cloud provider's plugin",
		Long: `Check a configuration that uses plugins from Amazon, Google or Azure. Print the
arguments that regcred's plugins with the same names need to return the same
credentials for the same images. These arguments cover hosts outside the cloud
provider's domains, service principals, trust policies that require a session
name, and PrivateLink endpoints. PATH is a file or a directory; the default is
--config or the node's configuration.

The output is a diff that patch can apply. It has no context lines, because
arguments and variables might contain secrets. The reason for each argument, and
any behaviour that no argument can preserve, are printed to stderr. --write
changes the files instead and keeps the originals in FILE.bak.

For Azure, the plugin's cloud configuration is read if this user has permission,
to distinguish a service principal from a managed identity.

The original plugins reject the new arguments, so replace the plugins before you
change the configuration.`,
		Example: `  regcred plugin migrate /etc/eks/image-credential-provider/config.json
  regcred plugin migrate -q /etc/kubernetes/providers.yaml | sudo patch -d / -p1
  sudo regcred plugin migrate --as-kubelet --write`,
		Args: optionalArgs("PATH"),
	}
	output := addOutputFlag(cmd, "text", "json")
	write := cmd.Flags().BoolP("write", "w", false, "change every file in place and keep the original in FILE.bak")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.pluginMigrate(cmd.Context(), output, *write, strings.Join(args, ""))
	}
	return cmd
}

func (a *app) pluginMigrate(ctx context.Context, output *enumFlag, write bool, path string) error {
	o, err := a.resolveOrigin(ctx, path, false)
	if err != nil {
		return err
	}
	cfg, err := a.loadValidConfig(ctx, o)
	if err != nil {
		return err
	}
	plan := migrate.NewPlan(cfg, a.readCloudConfig)
	files, err := convert.AddArgs(cfg, plan.Args())
	if err != nil {
		return err
	}
	a.printPlanNotes(plan, o, cfg)
	diff := ""
	for _, f := range files {
		diff += f.Diff()
	}
	if output.value == "json" {
		err = a.WriteJSON(struct {
			*migrate.Plan
			Diff string `json:"diff"`
		}{plan, diff})
	} else {
		err = a.WriteRaw([]byte(diff))
	}
	if err != nil || !write {
		return err
	}
	return a.replaceFiles(files, "changed")
}

// readCloudConfig reads a cloud config file on the node.
func (a *app) readCloudConfig(path string) (secretfile.File, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(a.dir, path)
	}
	files, err := secretfile.Read(filepath.Join(a.root, path))
	if err != nil {
		return secretfile.File{}, err
	}
	return files[0], nil
}

func (a *app) printPlanNotes(plan *migrate.Plan, o *node.Origin, cfg *config.Config) {
	switch {
	case plan.ProviderCount == 0:
		a.Note("%s: checked %s; none has the name of a cloud provider's plugin", o.Config, terminal.FormatCount(len(cfg.Providers), "provider"))
	case len(plan.Changes) == 0:
		a.Note("%s: regcred's plugins need no additional arguments", o.Config)
	}
	for _, c := range plan.Changes {
		a.Note("%s: %s: %s", c.Provider, c.Arg, c.Reason)
	}
	for _, r := range plan.Remarks {
		a.Note("%s: %s", r.Provider, r.Text)
	}
}
