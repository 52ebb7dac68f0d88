// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/kubernetes/pkg/credentialprovider/plugin"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	ourplugin "github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/kubelet"
)

// bench holds the working directory and the settings of the measurements.
type bench struct {
	dir           string
	rounds        int
	sliceDuration time.Duration // time to measure regcred or the kubelet in a round
	n             int           // number of directories created

	runs       int    // runs per plugin, for the median
	baseCommit string // commit whose plugins are measured on a node for comparison
}

// measurePerOp calls f repeatedly for b.sliceDuration and returns the time per call.
func (b *bench) measurePerOp(f func(i int)) time.Duration {
	start := time.Now()
	for n := 0; ; {
		for range 1 + n/4 {
			f(n)
			n++
		}
		if d := time.Since(start); d >= b.sliceDuration {
			return d / time.Duration(n)
		}
	}
}

// compareTimes alternates between ours and theirs and returns the median time per operation of
// each.
func (b *bench) compareTimes(ours, theirs func(i int)) (time.Duration, time.Duration) {
	var x, y []time.Duration
	for range b.rounds {
		x = append(x, b.measurePerOp(ours))
		y = append(y, b.measurePerOp(theirs))
	}
	return median(x), median(y)
}

func median[T cmp.Ordered](d []T) T {
	slices.Sort(d)
	return d[len(d)/2]
}

// allocsPerCall returns the number of allocations per call of f.
func allocsPerCall(f func(i int)) float64 {
	i := 0
	return testing.AllocsPerRun(1000, func() { f(i); i++ })
}

// heapInUse returns the bytes in use after a garbage collection.
func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// loadedConfig is a configuration that regcred and the kubelet's packages have loaded.
type loadedConfig struct {
	config *config.Config
	bin    string
}

// provider is a provider's patterns and its plugin's script.
type provider struct {
	patterns []string
	script   string
}

// loadBothSides writes a configuration and its plugins, and loads it into regcred and into the
// kubelet's packages. The kubelet's packages hold one configuration at a time.
func (b *bench) loadBothSides(providers []provider) (loadedConfig, error) {
	b.n++
	dir := filepath.Join(b.dir, fmt.Sprint(b.n))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return loadedConfig{}, err
	}
	var cfg strings.Builder
	cfg.WriteString("apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n")
	for i, p := range providers {
		fmt.Fprintf(&cfg, "- name: p%d\n  defaultCacheDuration: 1h\n  apiVersion: %s\n  matchImages:\n", i, ourplugin.V1)
		for _, pattern := range p.patterns {
			fmt.Fprintf(&cfg, "  - %q\n", pattern)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("p%d", i)), []byte("#!/bin/sh\n"+p.script), 0o700); err != nil {
			return loadedConfig{}, err
		}
	}
	path := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(path, []byte(cfg.String()), 0o600); err != nil {
		return loadedConfig{}, err
	}
	c, err := config.Load(path)
	if err != nil {
		return loadedConfig{}, err
	}
	return loadedConfig{c, dir}, kubelet.RegisterPlugins(path, dir, kubelet.TokenFuncs{})
}

// useInProcessPlugins replaces all plugins with in-process plugins: ours for regcred, theirs for
// the kubelet.
func (s loadedConfig) useInProcessPlugins(ours ourplugin.Provider, theirs plugin.Plugin) (regcred.Options, error) {
	opts := regcred.Options{BinDir: s.bin, InProcess: map[string]ourplugin.Provider{}}
	for i, p := range s.config.Providers {
		opts.InProcess[p.Name] = ours
		if err := kubelet.SetPlugin(i, theirs); err != nil {
			return opts, err
		}
	}
	return opts, nil
}

// speedupText formats how many times faster ours is than theirs.
func speedupText(ours, theirs time.Duration) string {
	return fmt.Sprintf("%.1f×", float64(theirs)/float64(ours))
}

func formatMillis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }

// formatThreeDigits formats a duration with up to three significant digits.
func formatThreeDigits(d time.Duration) string {
	switch {
	case d >= time.Millisecond:
		return fmt.Sprintf("%.3g ms", float64(d)/1e6)
	case d >= time.Microsecond:
		return fmt.Sprintf("%.3g µs", float64(d)/1e3)
	}
	return fmt.Sprintf("%d ns", d)
}
