// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/textfmt"
)

// DefaultRootDir is the kubelet's default --root-dir.
const DefaultRootDir = "/var/lib/kubelet"

// FindOptions holds the user's settings for [Reader.Find]. With the zero value, Find searches
// for the configuration in the kubelet's flags and in the well-known locations.
type FindOptions struct {
	Config     string // path of the configuration; "" means to search for it
	BinDir     string // absolute path of the plugin directory; "" means to search for it if NeedBinDir is set
	NeedBinDir bool
	RootDir    string // the kubelet's --root-dir; "" means the running kubelet's flag or DefaultRootDir

	// AllowNone allows a kubelet without credential providers. Find then sets
	// Origin.NoProviders instead of returning an error.
	AllowNone bool

	AsKubelet string   // use the flags and environment of this process ID or, with "auto", of the only running kubelet; "" means no
	Environ   []string // environment of the caller
	Dir       string   // working directory of the caller
}

// Origin is the source of a configuration, and the environment in which plugins run.
type Origin struct {
	Config string // path of the configuration, as in the flag or setting
	BinDir string // absolute path of the plugin directory; "" if unknown
	From   string // source of the paths, for messages: "flags", "kubelet process 123", "the EKS node configuration"

	NoProviders *NoProviders // set if the node has no configuration

	KubeletPID int    // process ID of the kubelet whose environment is used; 0 if no kubelet is running
	Unit       string // service whose environment is used, if no kubelet is running
	Environ    []string
	Dir        string
	RootDir    string

	Kubeconfig string // the kubelet's --kubeconfig, if plugins run in a kubelet's environment

	Discovered      bool     // a path was found by searching, so it is rejected if other users can change the files
	DiscoveredFlags []string // flags with which the user can set the discovered paths
	SourceFiles     []string // files that set the discovered paths
	UnreadablePaths []string // paths that this user has no permission to read, and that may set a configuration

	Target *config.Target // kubelet to validate the configuration for; nil means as in [Reader.ValidateConfig]

	reader *Reader
}

// Environment returns a description of the environment in which plugins run: "caller", "kubelet
// pid N" or "unit NAME".
func (o *Origin) Environment() string {
	switch {
	case o.KubeletPID != 0:
		return fmt.Sprintf("kubelet pid %d", o.KubeletPID)
	case o.Unit != "":
		return "unit " + o.Unit
	}
	return "caller"
}

// HasKubeletEnvironment reports whether plugins run in a kubelet's environment.
func (o *Origin) HasKubeletEnvironment() bool { return o.KubeletPID != 0 || o.Unit != "" }

// KubeletName describes the kubelet in messages.
func (o *Origin) KubeletName() string { return (&kubelet{pid: o.KubeletPID, unit: o.Unit}).String() }

// Find returns the configuration that the user has set. If the user has set none, Find searches
// the kubelet's flags and then the well-known locations. With FindOptions.AsKubelet, it uses
// the running kubelet's flags. Errors with a hint are of type *[HintError].
func (r *Reader) Find(ctx context.Context, w FindOptions) (*Origin, error) {
	o, k, err := r.findEnvironment(ctx, w)
	if err != nil {
		return nil, err
	}
	o.Config, o.BinDir, o.RootDir, o.From = w.Config, w.BinDir, w.RootDir, "flags"
	switch {
	case k != nil:
		if o.RootDir != "" && !filepath.IsAbs(o.RootDir) {
			o.RootDir = filepath.Join(w.Dir, o.RootDir)
		}
		err = r.applyKubeletFlags(ctx, o, k, w.AllowNone)
	case o.Config == "" || o.BinDir == "" && w.NeedBinDir:
		err = r.discoverLocation(ctx, o, w)
	}
	if err == nil && o.NoProviders != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	o.RootDir = cmp.Or(o.RootDir, DefaultRootDir)
	return o, nil
}

// FindEnvironment returns only the environment in which plugins run. It does not search for a
// configuration.
func (r *Reader) FindEnvironment(ctx context.Context, w FindOptions) (*Origin, error) {
	o, _, err := r.findEnvironment(ctx, w)
	return o, err
}

func (r *Reader) findEnvironment(ctx context.Context, w FindOptions) (*Origin, *kubelet, error) {
	o := &Origin{Environ: w.Environ, Dir: w.Dir, reader: r}
	if w.AsKubelet == "" {
		return o, nil, nil
	}
	k, err := r.findKubelet(w.AsKubelet)
	if errors.Is(err, errKubeletNotRunning) {
		k, err = r.nextKubelet(ctx, err)
	}
	if err != nil {
		return nil, nil, err
	}
	o.KubeletPID, o.Unit, o.Environ, o.Dir, o.Kubeconfig = k.pid, k.unit, k.environ, k.dir, k.flagPath(KubeconfigFlag)
	o.SourceFiles = k.files
	return o, k, nil
}

// applyKubeletFlags sets the paths in o from a kubelet's flags. The user's settings override
// these flags, so that a new configuration can be tested in the kubelet's environment.
func (r *Reader) applyKubeletFlags(ctx context.Context, o *Origin, k *kubelet, orNone bool) error {
	o.From, o.RootDir = k.String(), cmp.Or(o.RootDir, k.flagPath("root-dir"))
	if orNone && o.Config+o.BinDir+k.flagPath(configFlag)+k.flagPath(binDirFlag) == "" {
		o.NoProviders = r.newNoProviders(ctx, k.pid)
		return nil
	}
	if o.Config != "" || o.BinDir != "" {
		o.From += " and flags"
	}
	for _, v := range []struct {
		ours *string
		flag string
	}{{&o.Config, configFlag}, {&o.BinDir, binDirFlag}} {
		if *v.ours != "" {
			continue
		}
		o.Discovered = true
		if *v.ours = k.flagPath(v.flag); *v.ours == "" {
			return withHint(fmt.Errorf("%s runs without --%s, so it has no credential providers", k, v.flag),
				"give a path with --"+v.flag+" to see what the kubelet would do with it")
		}
	}
	return nil
}

// discoverLocation searches for a location on this machine, and sets the paths in o that are
// missing.
func (r *Reader) discoverLocation(ctx context.Context, o *Origin, w FindOptions) error {
	loc, unread, err := r.findLocation(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	o.UnreadablePaths = unread
	if loc == nil {
		given := o.Config != "" || o.BinDir != ""
		if w.AllowNone && !given && len(o.UnreadablePaths) == 0 {
			o.From = "nowhere"
			o.NoProviders, err = r.describeNoProviders(ctx)
			return err
		}
		return r.notDiscoveredError(o, w.NeedBinDir)
	}
	if o.Config == "" {
		o.Config = loc.config
		o.DiscoveredFlags = append(o.DiscoveredFlags, "--config "+textfmt.QuoteShellWord(loc.config))
	}
	if o.BinDir == "" {
		o.BinDir = loc.binDir
		o.DiscoveredFlags = append(o.DiscoveredFlags, "--bin-dir "+textfmt.QuoteShellWord(loc.binDir))
	}
	o.From, o.Discovered, o.SourceFiles = loc.name, true, loc.sourceFiles
	return nil
}

func (n Node) notDiscoveredError(o *Origin, needBinDir bool) error {
	config, binDir := n.settingNames()
	hint := fmt.Sprintf("set both %s and %s, or use the running kubelet's values with --as-kubelet", config, binDir)
	switch {
	case n.ConfigSetting != "" && (!n.hasAbsolutePaths() || slices.Contains(o.UnreadablePaths, n.HostPath(DefaultConfig))):
		hint = fmt.Sprintf("set both %s and %s", config, binDir)
	case n.ConfigSetting != "":
		hint = fmt.Sprintf("set both %s and %s, or put the files at %s and %s", config, binDir, DefaultConfig, DefaultBinDir)
	case !needBinDir:
		hint = fmt.Sprintf("set the configuration's path with %s, or use the running kubelet's configuration with --as-kubelet", config)
	}
	if len(o.UnreadablePaths) > 0 {
		hint = "run it as root (sudo), or " + hint
		return withHint(fmt.Errorf("no node configuration found: this user cannot read %s", strings.Join(o.UnreadablePaths, ", ")), hint)
	}
	if o.Config == "" && (o.BinDir == "" || !needBinDir) {
		return withHint(errors.New("no credential provider configuration was given, and none was found in the usual places"), hint)
	}
	given, missing := config, binDir
	if o.Config == "" {
		given, missing = missing, given
	}
	return usageError(hint, "%s is set, but %s is not set and was not found in a node configuration; the kubelet needs both", given, missing)
}
