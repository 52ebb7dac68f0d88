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

	"github.com/regcred/regcred/internal/shown"
)

// DefaultRootDir is the kubelet's default --root-dir.
const DefaultRootDir = "/var/lib/kubelet"

// FindOptions holds the user's settings. If it is zero, the configuration is searched
// for in the kubelet's flags and in the well-known locations.
type FindOptions struct {
	Config     string // path of the configuration; "" means to search for it
	BinDir     string // absolute; "" means to search for it if NeedBinDir is set
	NeedBinDir bool
	RootDir    string // the kubelet's --root-dir; "" means the kubelet's own or DefaultRootDir

	// AllowNone allows a kubelet without credential providers: Find sets
	// Origin.NoProviders instead of failing.
	AllowNone bool

	AsKubelet string   // use the running kubelet's flags and environment: "auto", or a process ID; "" means no
	Environ   []string // environment of the caller
	Dir       string   // working directory of the caller
}

// Origin is the source of a configuration, and the environment in which plugins run.
type Origin struct {
	Config string // path of the configuration, as set
	BinDir string // absolute; "" if unknown
	From   string // used in messages: "flags", "kubelet process 123", "the EKS node configuration"

	NoProviders *NoProviders // describes a node without a configuration; nil if there is a configuration

	Kubelet int    // process ID of the running kubelet whose environment is used; 0 if none exists
	Unit    string // service whose environment is used because no kubelet is running
	Environ []string
	Dir     string
	RootDir string

	Kubeconfig string // the kubelet's --kubeconfig, if the environment is the kubelet's

	Discovered      bool     // the user did not set every path, so other users must not be able to change the files
	DiscoveredFlags []string // the flags that would set the discovered paths
	SourceFiles     []string // the files that set the discovered paths
	UnreadablePaths []string // paths that may contain the configuration but that this user has no permission to read

	reading *Reader
}

// Environment describes the environment in which plugins run: "caller",
// "kubelet pid N", or "unit NAME".
func (o *Origin) Environment() string {
	switch {
	case o.Kubelet != 0:
		return fmt.Sprintf("kubelet pid %d", o.Kubelet)
	case o.Unit != "":
		return "unit " + o.Unit
	}
	return "caller"
}

// IsKubelet reports whether the environment is a kubelet's environment.
func (o *Origin) IsKubelet() bool { return o.Kubelet != 0 || o.Unit != "" }

// KubeletName describes this kubelet.
func (o *Origin) KubeletName() string { return (&kubelet{pid: o.Kubelet, unit: o.Unit}).String() }

// Find returns the configuration that the user has set. If the user has set none, it
// looks in the flags of the running kubelet, then of the kubelet's service, and then in
// the well-known locations. An *[HintError] has a hint.
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

// FindEnvironment returns only the environment in which plugins run.
func (r *Reader) FindEnvironment(ctx context.Context, w FindOptions) (*Origin, error) {
	o, _, err := r.findEnvironment(ctx, w)
	return o, err
}

func (r *Reader) findEnvironment(ctx context.Context, w FindOptions) (*Origin, *kubelet, error) {
	o := &Origin{Environ: w.Environ, Dir: w.Dir, reading: r}
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
	o.Kubelet, o.Unit, o.Environ, o.Dir, o.Kubeconfig = k.pid, k.unit, k.environ, k.dir, k.path(KubeconfigFlag)
	o.SourceFiles = k.files
	return o, k, nil
}

// applyKubeletFlags fills in the flags of a kubelet. The user's settings override them, so
// that a new configuration can be tested in the kubelet's environment.
func (r *Reader) applyKubeletFlags(ctx context.Context, o *Origin, k *kubelet, orNone bool) error {
	o.From, o.RootDir = k.String(), cmp.Or(o.RootDir, k.path("root-dir"))
	if orNone && o.Config+o.BinDir+k.path(configFlag)+k.path(binDirFlag) == "" {
		o.NoProviders = r.newNoConfig(ctx, k.pid)
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
		if *v.ours = k.path(v.flag); *v.ours == "" {
			return withHint(fmt.Errorf("%s runs without --%s, so it has no credential providers", k, v.flag),
				"give a path with --"+v.flag+" to see what the kubelet would do with it")
		}
	}
	return nil
}

// discoverLocation fills in the location found on this machine.
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
			o.NoProviders, err = r.describeNoConfig(ctx)
			return err
		}
		return r.notDiscoveredError(o, w.NeedBinDir)
	}
	if o.Config == "" {
		o.Config = loc.config
		o.DiscoveredFlags = append(o.DiscoveredFlags, "--config "+shown.QuoteShellWord(loc.config))
	}
	if o.BinDir == "" {
		o.BinDir = loc.binDir
		o.DiscoveredFlags = append(o.DiscoveredFlags, "--bin-dir "+shown.QuoteShellWord(loc.binDir))
	}
	o.From, o.Discovered, o.SourceFiles = loc.name, true, loc.via
	return nil
}

func (n Node) notDiscoveredError(o *Origin, needBinDir bool) error {
	config, binDir := n.settingNames()
	hint := fmt.Sprintf("set both %s and %s, or use the running kubelet's values with --as-kubelet", config, binDir)
	switch {
	case n.ConfigBy != "" && (!n.hasAbsolutePaths() || slices.Contains(o.UnreadablePaths, n.HostPath(DefaultConfig))):
		hint = fmt.Sprintf("set both %s and %s", config, binDir)
	case n.ConfigBy != "":
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
