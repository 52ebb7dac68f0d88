// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// defaultRootDir is the kubelet's default of --root-dir.
const defaultRootDir = "/var/lib/kubelet"

// origin says where the configuration of a run comes from, and in whose
// environment plugins run.
type origin struct {
	config string // path of the configuration, as it was given
	binDir string // absolute; "" if not known
	from   string // for people: "flags", "kubelet process 123", "the EKS node configuration"

	kubelet int // process id; 0 if the environment is the caller's
	environ []string
	dir     string
	rootDir string

	kubeconfig string // of a running kubelet; "" if it has none, or the environment is the caller's

	discovered bool     // the paths were found, not given: they must not be writable by others
	via        []string // the files that name them, if any; the same goes for these
}

// environment names whose environment plugins run in.
func (o *origin) environment() string {
	if o.kubelet == 0 {
		return "caller"
	}
	return fmt.Sprintf("kubelet pid %d", o.kubelet)
}

// resolve finds the configuration: from the flags, from a running kubelet
// (--as-kubelet), or from the well-known places of a node. path, if not
// empty, is a configuration given as an argument. Where needBinDir is false,
// a missing bin dir is not searched for.
func (a *app) resolve(path string, needBinDir bool) (*origin, error) {
	o := &origin{from: "flags", environ: a.environ, dir: a.dir, rootDir: a.rootDir}
	if err := a.takeFlags(o, path); err != nil {
		return nil, err
	}
	var err error
	switch {
	case a.asKubelet != "":
		err = a.takeKubelet(o)
	case o.config == "" || o.binDir == "" && needBinDir:
		err = a.takeDiscovered(o, needBinDir)
	}
	if err != nil {
		return nil, err
	}
	if o.rootDir == "" {
		o.rootDir = defaultRootDir
	}
	return o, nil
}

func (a *app) takeFlags(o *origin, path string) error {
	o.config = a.config.value
	if path != "" {
		if o.config != "" && o.config != path {
			return usageError("", "PATH is %q, but --%s says %q", path, a.config.by, o.config)
		}
		o.config = path
	}
	if a.timeout <= 0 {
		return usageError("", "--plugin-timeout is %v; it must be positive", a.timeout)
	}
	if a.binDir.value == "" {
		return nil
	}
	// Plugins may run in another directory than ours, so a relative path
	// would not mean the same there.
	abs, err := filepath.Abs(a.binDir.value)
	o.binDir = abs
	return err
}

// takeKubelet fills in what a running kubelet was started with. Flags of ours
// win, so that a new configuration can be tried in the kubelet's environment.
func (a *app) takeKubelet(o *origin) error {
	k, err := a.findKubelet()
	if err != nil {
		return err
	}
	o.kubelet, o.environ, o.dir, o.kubeconfig = k.pid, k.environ, k.dir, k.path(kubeconfigFlag)
	o.from = fmt.Sprintf("kubelet process %d", k.pid)
	if o.config != "" || o.binDir != "" {
		o.from += " and flags"
	}
	for _, v := range []struct {
		ours *string
		flag string
	}{{&o.config, configFlag}, {&o.binDir, binDirFlag}} {
		if *v.ours != "" {
			continue
		}
		if *v.ours = k.path(v.flag); *v.ours == "" {
			return withHint(fmt.Errorf("kubelet process %d runs without --%s, so it has no credential providers", k.pid, v.flag),
				"give the path with --"+v.flag+" to see what it would do with one")
		}
	}
	if o.rootDir == "" {
		o.rootDir = k.path("root-dir")
	}
	return nil
}

// takeDiscovered fills in what was not given from the first well-known
// location, and says so.
func (a *app) takeDiscovered(o *origin, needBinDir bool) error {
	loc, err := a.discover()
	if err != nil {
		return err
	}
	if loc == nil {
		return notDiscovered(o, needBinDir)
	}
	var took []string
	if o.config == "" {
		o.config = loc.config
		took = append(took, "--config "+loc.config)
	}
	if o.binDir == "" {
		o.binDir = loc.binDir
		took = append(took, "--bin-dir "+loc.binDir)
	}
	o.from, o.discovered, o.via = loc.name, true, loc.via
	a.Note("using %s: %s", loc.name, strings.Join(took, " "))
	return nil
}

func notDiscovered(o *origin, needBinDir bool) error {
	hint := "give both --config and --bin-dir, or --as-kubelet to take those of the running kubelet"
	if !needBinDir {
		hint = "give its path with --config, or --as-kubelet to take that of the running kubelet"
	}
	if o.config == "" && (o.binDir == "" || !needBinDir) {
		return withHint(errors.New("no credential provider configuration: none was given, and none is in the places where nodes have it"), hint)
	}
	given, missing := "--config", "--bin-dir"
	if o.config == "" {
		given, missing = missing, given
	}
	return usageError(hint, "%s is given without %s, and no node configuration was found to take it from; a kubelet would not start either", given, missing)
}

func describeEnvironment(env string) string {
	if env == "caller" {
		return "the caller's, not the kubelet's; --as-kubelet takes the kubelet's"
	}
	return "that of " + strings.Replace(env, "pid", "process", 1)
}
