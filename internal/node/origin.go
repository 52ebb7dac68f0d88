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

// DefaultRootDir is the kubelet's default of --root-dir.
const DefaultRootDir = "/var/lib/kubelet"

// Want says what is looked for, and what is known already. Its zero value
// finds the configuration of a node in its well-known places.
type Want struct {
	Config     string // path of the configuration; "" = to be found
	BinDir     string // absolute; "" = to be found, if NeedBinDir
	NeedBinDir bool
	RootDir    string // the kubelet's; "" = the kubelet's own or DefaultRootDir

	// OrNone: that nothing was given, and the kubelet has no credential providers
	// either, is no failure but Origin.Without.
	OrNone bool

	AsKubelet string   // take what is not given from the running kubelet: "auto", or a process id; "" = do not
	Environ   []string // the caller's; a kubelet's comes in its place
	Dir       string   // likewise
}

// Origin says where a configuration comes from, and in whose environment
// plugins run.
type Origin struct {
	Config string // path of the configuration, as it was given
	BinDir string // absolute; "" if not known
	From   string // for people: "flags", "kubelet process 123", "the EKS node configuration"

	Without *Without // there is no configuration, and this is known of it; nil if there is one

	Kubelet int    // process id; 0 if it is not a running kubelet's
	Unit    string // the service in whose environment the next kubelet starts, since none runs; "" if that is not meant
	Environ []string
	Dir     string
	RootDir string

	Kubeconfig string // of the kubelet; "" if it has none, or the environment is the caller's

	Discovered bool     // a path was found, not given, also in a kubelet's flags: they must not be writable by others
	Found      []string // the flags that would have said the same
	Via        []string // the files that name them, if any; the same goes for these
	Unread     []string // where this user may not look, although the configuration may be there
}

// Environment names whose environment plugins run in: "caller", "kubelet pid N",
// or "unit NAME".
func (o *Origin) Environment() string {
	switch {
	case o.Kubelet != 0:
		return fmt.Sprintf("kubelet pid %d", o.Kubelet)
	case o.Unit != "":
		return "unit " + o.Unit
	}
	return "caller"
}

// OfKubelet reports whether the environment is a kubelet's, and not the caller's.
func (o *Origin) OfKubelet() bool { return o.Kubelet != 0 || o.Unit != "" }

// Whose names that kubelet.
func (o *Origin) Whose() string { return (&kubelet{pid: o.Kubelet, unit: o.Unit}).String() }

// Find finds a configuration: what was given, or that of a running kubelet, or
// else that in the well-known places of a node. An *[Error] has a hint.
func (n Node) Find(w Want) (*Origin, error) {
	o, k, err := n.environment(w)
	if err != nil {
		return nil, err
	}
	o.Config, o.BinDir, o.RootDir, o.From = w.Config, w.BinDir, w.RootDir, "flags"
	switch {
	case k != nil:
		if o.RootDir != "" && !filepath.IsAbs(o.RootDir) {
			o.RootDir = filepath.Join(w.Dir, o.RootDir) // it was given, in the caller's directory
		}
		err = n.takeKubelet(o, k, w.OrNone)
	case o.Config == "" || o.BinDir == "" && w.NeedBinDir:
		err = n.discover(o, w)
	}
	if err != nil {
		return nil, err
	}
	o.RootDir = cmp.Or(o.RootDir, DefaultRootDir)
	return o, nil
}

// Environment is Find without a configuration: in whose environment plugins run.
func (n Node) Environment(w Want) (*Origin, error) {
	o, _, err := n.environment(w)
	return o, err
}

func (n Node) environment(w Want) (*Origin, *kubelet, error) {
	o := &Origin{Environ: w.Environ, Dir: w.Dir}
	if w.AsKubelet == "" {
		return o, nil, nil
	}
	k, err := n.findKubelet(w.AsKubelet)
	if errors.Is(err, errNoKubelet) {
		k, err = n.nextKubelet(err)
	}
	if err != nil {
		return nil, nil, err
	}
	o.Kubelet, o.Unit, o.Environ, o.Dir, o.Kubeconfig = k.pid, k.unit, k.environ, k.dir, k.path(KubeconfigFlag)
	o.Via = k.files
	return o, k, nil
}

// takeKubelet fills in what a kubelet was or will be started with. What was given
// wins, so that a new configuration can be tried in the kubelet's environment.
func (n Node) takeKubelet(o *Origin, k *kubelet, orNone bool) error {
	o.From, o.RootDir = k.String(), cmp.Or(o.RootDir, k.path("root-dir"))
	if orNone && o.Config+o.BinDir+k.path(configFlag)+k.path(binDirFlag) == "" {
		o.Without = n.without(context.Background(), k.pid)
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

// discover fills in what was not given from where this machine has it.
func (n Node) discover(o *Origin, w Want) error {
	loc, r, err := n.location(context.Background())
	if err != nil {
		return err
	}
	o.Unread = r.unread
	if loc == nil {
		given := o.Config != "" || o.BinDir != ""
		if w.OrNone && !given && len(o.Unread) == 0 {
			o.From = "nowhere"
			o.Without, err = n.noProviders()
			return err
		}
		return n.notDiscovered(o, w.NeedBinDir)
	}
	if o.Config == "" {
		o.Config = loc.config
		o.Found = append(o.Found, "--config "+shown.ShellWord(loc.config))
	}
	if o.BinDir == "" {
		o.BinDir = loc.binDir
		o.Found = append(o.Found, "--bin-dir "+shown.ShellWord(loc.binDir))
	}
	o.From, o.Discovered, o.Via = loc.name, true, loc.via
	return nil
}

func (n Node) notDiscovered(o *Origin, needBinDir bool) error {
	config, binDir := n.by()
	hint := fmt.Sprintf("set both %s and %s, or use the running kubelet's values with --as-kubelet", config, binDir)
	switch {
	case n.ConfigBy != "" && (!n.located() || slices.Contains(o.Unread, n.host(OwnConfig))):
		hint = fmt.Sprintf("set both %s and %s", config, binDir)
	case n.ConfigBy != "":
		hint = fmt.Sprintf("set both %s and %s, or put the files at %s and %s", config, binDir, OwnConfig, OwnBinDir)
	case !needBinDir:
		hint = fmt.Sprintf("set the configuration's path with %s, or use the running kubelet's configuration with --as-kubelet", config)
	}
	if len(o.Unread) > 0 {
		hint = "run it as root (sudo), or " + hint
		return withHint(fmt.Errorf("no node configuration found: this user cannot read %s", strings.Join(o.Unread, ", ")), hint)
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
