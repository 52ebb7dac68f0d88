// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/convert"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/plugin"
)

// convertFlags holds the flags of "regcred convert".
type convertFlags struct {
	write         bool
	to            string // a new file or directory; "" = standard output
	format        *enumFlag
	pluginVersion *enumFlag
	target        config.Target
	targetGiven   bool // a flag selects the target
}

func (a *app) convertCmd() *cobra.Command {
	f := &convertFlags{}
	cmd := &cobra.Command{
		Use:   "convert PATH [NEW]",
		Short: "Convert an older configuration to kubelet.config.k8s.io/v1",
		Long: `Convert the configuration at PATH, a file or a directory, from v1beta1, v1alpha1
or the out-of-tree proposal's RegistryCredentialConfig to
kubelet.config.k8s.io/v1. The result is read back to verify that it has
the same providers as the source, in the same order.

The result is written to stdout as one file, or to NEW. NEW must not be an
existing file. If NEW ends in a slash or is a directory, each provider is
written to its own file, in the same order. --write converts every file in place
and keeps the originals in FILE.bak.

The API version of the file is independent of the exec protocol's version. Each
provider keeps its protocol version unless --plugin-api-version changes it,
because a plugin that supports only v1beta1 cannot respond in v1. No kubelet
supports the proposal's protocol, so its providers are changed to v1.

The exit code is 1 if a kubelet with this --kubelet-version and these
--feature-gates would not start with the converted file. In this case, no file
is written.`,
		Example: `  regcred convert providers.yaml > providers-v1.yaml
  regcred convert --kubelet-version 1.33 --write /etc/kubernetes/credential-providers.yaml
  regcred convert providers.yaml credential-providers.d/`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				f.to = args[1]
			}
			// Check the flags before the arguments. A user who passes --config instead of PATH then
			// gets a specific hint.
			if err := a.checkConvertFlags(f); err != nil {
				return err
			}
			return positionalArgs(1, []string{"PATH", "NEW"})(cmd, args)
		},
	}
	fl := cmd.Flags()
	fl.BoolVarP(&f.write, "write", "w", false, "convert every file in place and keep the original in FILE.bak")
	f.format = addEnumFlag(cmd, "output", "o", "output `format`: yaml | json (default: the source's format)", "", "yaml", "json")
	addTargetFlags(cmd, &f.target, "that the result is for")
	f.pluginVersion = addEnumFlag(cmd, "plugin-api-version", "", "exec protocol `version` for every provider: v1 | v1beta1 | v1alpha1", "", shortAPIVersions()...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f.targetGiven = fl.Changed("kubelet-version") || fl.Changed("feature-gates")
		return a.convert(cmd.Context(), f, args[0])
	}
	return cmd
}

// checkConvertFlags rejects incompatible flags.
func (a *app) checkConvertFlags(f *convertFlags) error {
	switch {
	case a.config.isSetByFlag() || a.binDir.isSetByFlag() || a.asKubelet != "":
		return usageError("pass the configuration as PATH", "convert does not take --config, --bin-dir or --as-kubelet")
	case f.write && f.to != "":
		return usageError("omit one of them", "--write and NEW are mutually exclusive")
	case f.write && f.format.value != "":
		return usageError("omit one of them", "--write and --output are mutually exclusive: --write keeps each file's format")
	}
	return checkKubeletVersion(f.target.KubeletVersion)
}

// checkKubeletVersion rejects an invalid version.
func checkKubeletVersion(kubelet string) error {
	err := (&config.Config{}).ValidateFor(config.Target{KubeletVersion: kubelet})
	if _, ok := errors.AsType[*config.FieldError](err); err != nil && !ok {
		return usageError(fmt.Sprintf("pass a version from 1.20 to %s, as printed by \"kubelet --version\"", config.NewestKubelet), "--kubelet-version: %w", err)
	}
	return nil
}

// targetIsDir reports whether NEW is a directory.
func (f *convertFlags) targetIsDir() bool {
	if f.to == "" || os.IsPathSeparator(f.to[len(f.to)-1]) {
		return f.to != ""
	}
	info, err := os.Stat(f.to)
	return err == nil && info.IsDir()
}

func (a *app) convert(ctx context.Context, f *convertFlags, path string) error {
	o := convert.Options{Format: convert.Format(f.format.value)}
	if v := f.pluginVersion.value; v != "" {
		o.PluginAPIVersion = protocol.Group + "/" + v
	}
	layout := convert.LayoutSingle
	if f.write {
		layout = convert.LayoutKeep
	} else if f.targetIsDir() {
		layout = convert.LayoutSplit
	}
	res, err := convert.Convert(path, layout, o)
	if err != nil {
		return cmp.Or(node.UncheckedError(err), err)
	}
	a.printTargetNotes(f.target)
	a.printConversionNotes(res)
	at := cmp.Or(f.to, "<stdout>")
	if f.write {
		at = path
	}
	a.useNodeTarget(f, res, at, func() config.Target { return a.localNode().NewReader().InstalledKubelet(ctx).Target })
	if !f.write && f.to == "" {
		return errors.Join(a.WriteRaw(res.Files[0].Data), f.invalidResultError(res, at, ""))
	}
	if err := f.invalidResultError(res, at, "; nothing was written"); err != nil {
		return err
	}
	if f.write {
		return a.replaceFiles(res.Files, "converted")
	}
	return a.createFiles(f, res)
}

// useNodeTarget changes the target to this node's kubelet if no flag selects one and only that
// kubelet accepts the result.
func (a *app) useNodeTarget(f *convertFlags, res *convert.Result, at string, installed func() config.Target) {
	if f.targetGiven || res.Validate(f.target, at) == nil {
		return
	}
	own := installed()
	if own.KubeletVersion == "" || res.Validate(own, at) != nil {
		return
	}
	a.Note("this node's kubelet %s accepts the result, but kubelet %s would not", own.KubeletVersion, f.target.KubeletVersion)
	f.target = own
}

// invalidResultError returns an error for a result that the kubelet would reject.
func (f *convertFlags) invalidResultError(res *convert.Result, at, consequence string) error {
	err := res.Validate(f.target, at)
	if err == nil {
		return nil
	}
	return errors.Join(err, fmt.Errorf("kubelet %s would not start with the converted file%s", strings.TrimPrefix(f.target.KubeletVersion, "v"), consequence))
}

// replaceFiles overwrites existing files and prints a note for each: "FILE is " + done.
func (a *app) replaceFiles(files []convert.File, done string) error {
	list, err := convert.Replace(files)
	if err != nil {
		return cmp.Or(node.UncheckedError(err), err)
	}
	for _, r := range list {
		a.Note("%s is %s; the original is in %s", r.Name, done, r.Backup)
		if r.OwnerChanged {
			a.Warn("the owner of %s could not be preserved; you now own the file and only you can read it", r.Name)
		}
	}
	return nil
}

// createFiles writes the result to new files.
func (a *app) createFiles(f *convertFlags, res *convert.Result) error {
	var err error
	if f.targetIsDir() {
		err = convert.CreateDir(f.to, res.Files)
	} else {
		err = convert.CreateFile(f.to, res.Files[0].Data)
	}
	if errors.Is(err, fs.ErrExist) {
		return withHint(err, "choose another file, or convert PATH in place with --write")
	}
	return cmp.Or(node.UncheckedError(err), err)
}

// printConversionNotes prints notes about changes that the user may not expect.
func (a *app) printConversionNotes(res *convert.Result) {
	if !slices.ContainsFunc(res.Files, convert.File.IsChanged) {
		a.Note("nothing to convert: %s", terminal.FormatCount(len(res.Files), "file")+" in kubelet.config.k8s.io/v1 already")
	}
	a.printProtocolNotes(res)
	for _, p := range res.SecondDocuments {
		a.Warn("%s:%d: the second YAML document, which begins here, is not converted because kubelets ignore it", p.File, p.Line)
	}
	for _, file := range res.LostComments {
		a.Warn("%s: comments were lost in the conversion", file)
	}
}

// printProtocolNotes lists the providers whose protocol version changes, and those with a
// version older than v1.
func (a *app) printProtocolNotes(res *convert.Result) {
	var moved, old, former []string
	for i, p := range res.Providers {
		name, before := fmt.Sprintf("%q", p.Name), res.Source.Providers[i].APIVersion
		switch {
		case p.APIVersion != before:
			moved = append(moved, name)
		case p.APIVersion == plugin.V1Beta1 || p.APIVersion == plugin.V1Alpha1:
			old = append(old, name)
		}
		if before == plugin.OutOfTree {
			former = append(former, name)
		}
	}
	if len(moved) > 0 {
		a.Note("protocol version changed: %s; the command %q shows whether a plugin supports the new version", strings.Join(moved, ", "), "regcred plugin test")
	}
	if len(old) > 0 {
		a.Note("still on a protocol version older than v1: %s; use --plugin-api-version v1 if the plugins support it", strings.Join(old, ", "))
	}
	if n := len(former); n > 0 && n < len(res.Providers) {
		a.Note("with the out-of-tree proposal, the providers for an image were tried in the order %s, but the kubelet sorts credentials by auth key, then by configuration order", strings.Join(former, ", "))
	}
}
