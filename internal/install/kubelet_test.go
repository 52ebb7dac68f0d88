// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package install_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/install"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/service"
)

// fakeNode simulates a node with a kubelet that is running or has failed. The kubelet has the
// flags that systemd has loaded, and reads its configuration only at start. fakeNode saves its
// state in a file outside the node's root directory, because the tests kill the process that
// changes the node.
type fakeNode struct {
	dir    string
	layout layout

	Boot    string
	Ticks   uint64
	Loaded  node.RunningFlags // flags in the unit that systemd has loaded
	Running *node.RunningProcess
	Names   []string // providers in the running kubelet's configuration
	BinDir  string
	PID     int
	Calls   []string
}

const stateDir = "/var/lib/regcred"

func (w *fakeNode) rootDir() string  { return filepath.Join(w.dir, "root") }
func (w *fakeNode) fs() inroot.FS { return inroot.FS{Root: w.rootDir()} }
func (w *fakeNode) store() generation.Store {
	return generation.Store{FS: w.fs(), Dir: stateDir}
}

func (w *fakeNode) saveState() error {
	data, err := json.Marshal(w)
	return errors.Join(err, os.WriteFile(filepath.Join(w.dir, "node.json"), data, 0o600))
}

func (w *fakeNode) loadState() error {
	data, err := os.ReadFile(filepath.Join(w.dir, "node.json"))
	if err != nil {
		return err
	}
	w.Running, w.Names, w.Calls = nil, nil, nil
	return json.Unmarshal(data, w)
}

// readSetup returns the node's current Setup.
func (w *fakeNode) readSetup(ctx context.Context) (*node.Setup, error) {
	s, err := node.Node{Root: w.rootDir()}.NewReader().Setup(ctx)
	if err != nil {
		return nil, err
	}
	s.Version = node.Version{Kubelet: w.layout.version}
	s.Running = w.Running
	if w.layout.spoil != nil {
		w.layout.spoil(s)
	}
	return s, nil
}

// reloadedFlags returns the kubelet's flags if systemd reloaded its units now.
func (w *fakeNode) reloadedFlags() (node.RunningFlags, error) {
	s, err := w.readSetup(context.Background())
	if err != nil {
		return node.RunningFlags{}, err
	}
	if s.Way == node.MethodDefaultPaths && (s.Config.Type != node.TypeFile || s.BinDir.Type != node.TypeDirectory) {
		return node.RunningFlags{}, nil
	}
	return node.RunningFlags{Config: s.Config.Path, BinDir: s.BinDir.Path}, nil
}

// readProviderNames returns the names of the providers that a kubelet with these flags reads at start. It
// returns an error if the kubelet would exit.
func (w *fakeNode) readProviderNames(f node.RunningFlags) (names []string, err error) {
	if f.Config == "" && f.BinDir == "" {
		return nil, nil
	}
	cfg, err := w.readConfig(f.Config)
	if err != nil {
		return nil, err
	}
	if err := cfg.ValidateFor(config.Target{KubeletVersion: w.layout.version}); err != nil {
		return nil, err
	}
	for _, p := range cfg.Providers {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names, w.checkPlugins(f.BinDir, names)
}

// readConfig reads a configuration file or directory on the node. It resolves symlinks within
// the node's root directory.
func (w *fakeNode) readConfig(name string) (*config.Config, error) {
	temp, err := os.MkdirTemp(w.dir, "read")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	info, err := w.fs().Stat(name)
	if err != nil {
		return nil, err
	}
	files := []string{name}
	if info.IsDir() {
		if strings.HasPrefix(w.layout.version, "1.33") {
			return nil, errors.New("a directory, which this kubelet does not read")
		}
		list, err := w.fs().ReadDir(name)
		if err != nil {
			return nil, err
		}
		files = nil
		for _, e := range list {
			if slices.Contains([]string{".json", ".yaml", ".yml"}, path.Ext(e.Name())) {
				files = append(files, path.Join(name, e.Name()))
			}
		}
	}
	for _, file := range files {
		data, err := w.fs().ReadFile(context.Background(), file)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(temp, path.Base(file)), data, 0o600); err != nil {
			return nil, err
		}
	}
	if !info.IsDir() {
		return config.Load(filepath.Join(temp, path.Base(name)))
	}
	return config.Load(temp)
}

// checkPlugins returns an error if a plugin is missing or not executable, or if a plugin is the
// dispatcher and no generation is current.
func (w *fakeNode) checkPlugins(binDir string, names []string) error {
	for _, name := range names {
		info, err := w.fs().Stat(path.Join(binDir, name))
		if err != nil {
			return fmt.Errorf("plugin of %q: %w", name, err)
		}
		if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
			return fmt.Errorf("plugin of %q: not executable: %v", name, info.Mode())
		}
		if !strings.HasPrefix(name, entries.DispatcherName) {
			continue
		}
		c, err := generation.OpenCurrent(filepath.Join(w.rootDir(), stateDir))
		if err != nil {
			return err
		}
		_ = c.Close()
	}
	return nil
}

// checkKubelets returns an error if the running kubelet, a restarted kubelet, or the kubelet after a
// reboot does not work. names lists the providers that a kubelet reads after a reboot.
func (w *fakeNode) checkKubelets() (names []string, err error) {
	if w.Running != nil {
		if err := w.checkPlugins(w.BinDir, w.Names); err != nil {
			return nil, fmt.Errorf("the kubelet that runs: %w", err)
		}
	}
	f, err := w.reloadedFlags()
	if err != nil {
		return nil, err
	}
	if w.layout.name == "k3s" {
		w.Loaded = f // k3s reads the files at each start
	}
	if _, err := w.readProviderNames(w.Loaded); err != nil {
		return nil, fmt.Errorf("a kubelet that is started again: %w", err)
	}
	if names, err = w.readProviderNames(f); err != nil {
		return nil, fmt.Errorf("a kubelet after a boot: %w", err)
	}
	return names, nil
}

// startKubelet simulates a start of the kubelet. The kubelet exits at once if it rejects its
// configuration.
func (w *fakeNode) startKubelet() {
	w.Running = nil
	w.Ticks += 2000
	if f, err := w.reloadedFlags(); w.layout.name == "k3s" && err == nil {
		w.Loaded = f // k3s reads the files at each start
	}
	names, err := w.readProviderNames(w.Loaded)
	if err != nil {
		w.Calls = append(w.Calls, "ended: "+err.Error())
		return
	}
	w.PID++
	w.Running = &node.RunningProcess{PID: w.PID, Start: w.Ticks, Flags: &node.RunningFlags{Config: w.Loaded.Config, BinDir: w.Loaded.BinDir}}
	if w.layout.name == "k3s" {
		w.Running.Flags = nil
	}
	w.Names, w.BinDir = names, w.Loaded.BinDir
}

// nextTime returns the simulated time, which increases with each call.
func (w *fakeNode) nextTime() (generation.BootTime, error) {
	w.Ticks += 2000
	return generation.BootTime{Boot: w.Boot, Ticks: w.Ticks}, w.saveState()
}

// fakeSystemd is a fake systemd for a fakeNode.
type fakeSystemd struct {
	*fakeNode
	fail              func(call string) error // returns the error of a call; nil means that all calls succeed
	exitsAfterRestart func() bool             // reports whether the kubelet exits after a restart; nil means never
}

func (m fakeSystemd) call(name string) error {
	m.Calls = append(m.Calls, name)
	if m.fail != nil {
		return m.fail(name)
	}
	return nil
}

func (m fakeSystemd) Reload(context.Context) (err error) {
	if err := m.call("reload"); err != nil {
		return err
	}
	if m.Loaded, err = m.reloadedFlags(); err != nil {
		return err
	}
	return m.saveState()
}

func (m fakeSystemd) Restart(context.Context, string) error {
	if err := m.call("restart"); err != nil {
		return err
	}
	m.startKubelet()
	if m.Running != nil && m.exitsAfterRestart != nil && m.exitsAfterRestart() {
		m.Running = nil
	}
	return m.saveState()
}

func (m fakeSystemd) State(context.Context, string) (service.State, error) {
	s := service.State{Load: "loaded", Active: "failed", Sub: "failed", Result: "exit-code", Started: time.Unix(int64(m.Ticks), 0)}
	if r := m.Running; r != nil {
		s.Active, s.Sub, s.MainPID, s.Started = "active", "running", r.PID, time.Unix(int64(r.Start), 0)
	}
	return s, nil
}

func (m fakeSystemd) Log(context.Context, string, time.Time, int) ([]string, error) {
	return []string{"the kubelet's last line"}, nil
}

// installerWithHook returns an installer for this node. before is called before each file system
// operation.
func (w *fakeNode) installerWithHook(before func(step, name string) error) (*install.Installer, error) {
	s, err := w.readSetup(context.Background())
	if err != nil {
		return nil, err
	}
	store := w.store()
	store.FS.BeforeStep = before
	return &install.Installer{
		Store: store, Setup: s, ReadSetup: w.readSetup, Now: w.nextTime, Version: "test",
		Service:  service.Service{Manager: fakeSystemd{fakeNode: w}, Name: "kubelet.service", Poll: time.Millisecond},
		Criteria: service.HealthCriteria{MinHealthy: time.Nanosecond, Timeout: 10 * time.Second},
	}, nil
}
