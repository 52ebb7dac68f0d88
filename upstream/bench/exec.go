// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/plugin"
)

// pluginScript returns the script of a plugin that counts its runs, sleeps and prints a response.
func pluginScript(sleep string, scope plugin.CacheKeyType, duration string) string {
	return fmt.Sprintf(`echo >> "${0%%/*}/runs"
%s
echo '{"kind":"CredentialProviderResponse","apiVersion":"%s","cacheKeyType":"%s","cacheDuration":"%s","auth":{"registry.example.com":{"username":"user","password":"%s"}}}'
`, sleep, plugin.V1, scope, duration, testPassword)
}

// takeRunCounts returns how often the plugins of s have run, and resets the count.
func (s loadedConfig) takeRunCounts() int {
	path := filepath.Join(s.bin, "runs")
	data, _ := os.ReadFile(path)
	os.Remove(path)
	return strings.Count(string(data), "\n")
}

// openUncached loads the providers into regcred and into the kubelet's packages, both with empty
// caches.
func (b *bench) openUncached(providers []provider) (loadedConfig, *regcred.Keyring, error) {
	s, err := b.loadBothSides(providers)
	if err != nil {
		return s, nil, err
	}
	ring, err := regcred.New(s.config, regcred.Options{BinDir: s.bin})
	return s, ring, err
}

func regcredLookup(ring *regcred.Keyring, image string) int {
	res, _ := ring.Lookup(context.Background(), regcred.Request{Image: image})
	return len(res.Credentials)
}

// runConcurrently runs f(0) to f(n-1) at the same time and returns how long they took.
func runConcurrently(n int, f func(i int)) time.Duration {
	start := time.Now()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
	return time.Since(start)
}

func measureTime(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func benchBurst(b *bench) ([]row, error) {
	const n = 200
	image := func(i int) string { return fmt.Sprintf("registry.example.com/app-%d:v1", i) }
	slow := []provider{{[]string{"registry.example.com"}, pluginScript("sleep 0.1", plugin.CacheRegistry, "1h")}}
	var x, y, one []time.Duration
	var ourRuns, theirRuns int
	for range b.rounds {
		s, ring, err := b.openUncached(slow)
		if err != nil {
			return nil, err
		}
		x = append(x, runConcurrently(n, func(i int) { regcredLookup(ring, image(i)) }))
		ourRuns = max(ourRuns, s.takeRunCounts())
		y = append(y, runConcurrently(n, func(i int) { kubeletLookup(image(i)) }))
		theirRuns = max(theirRuns, s.takeRunCounts())
		ring.Close()

		s, ring, err = b.openUncached(slow)
		if err != nil {
			return nil, err
		}
		one = append(one, measureTime(func() { regcredLookup(ring, image(0)) }))
		ring.Close()
		s.takeRunCounts()
	}
	run := median(one)
	return []row{{
		What: "200 images of one registry at once, cold, plugin of 100 ms", Regcred: fmt.Sprintf("%d exec, %s", ourRuns, formatMillis(median(x))),
		Kubelet: fmt.Sprintf("%d execs, %s", theirRuns, formatMillis(median(y))), Ratio: speedupText(median(x), median(y)),
		Target: "1 exec, ≤ 2 plugin runs", Met: ourRuns == 1 && median(x) <= 2*run, Notes: []string{"one plugin run takes " + formatMillis(run)},
	}}, nil
}

func benchUncached(b *bench) ([]row, error) {
	s, ring, err := b.openUncached([]provider{{[]string{"registry.example.com"}, pluginScript("", plugin.CacheImage, "0s")}})
	if err != nil {
		return nil, err
	}
	defer ring.Close()
	const image = "registry.example.com/app:v1"
	var x, y []time.Duration
	for range 20 * b.rounds { // regcred and the kubelet are first equally often
		x = append(x, measureTime(func() { regcredLookup(ring, image) }))
		y = append(y, measureTime(func() { kubeletLookup(image) }))
		y = append(y, measureTime(func() { kubeletLookup(image) }))
		x = append(x, measureTime(func() { regcredLookup(ring, image) }))
	}
	if got := s.takeRunCounts(); got != 80*b.rounds {
		return nil, fmt.Errorf("%d runs of the trivial plugin, want %d", got, 80*b.rounds)
	}
	return []row{{
		What: "uncached `Lookup` through a trivial plugin (a shell script)", Regcred: formatThreeDigits(median(x)), Kubelet: formatThreeDigits(median(y)), Ratio: fmt.Sprintf("%.2f×", float64(median(y))/float64(median(x))),
		Target: "not slower", Met: median(x) <= median(y),
	}}, nil
}

func benchThreeProviders(b *bench) ([]row, error) {
	p := provider{[]string{"registry.example.com"}, pluginScript("sleep 0.1", plugin.CacheImage, "1h")}
	var x, y []time.Duration
	for range b.rounds {
		_, ring, err := b.openUncached([]provider{p, p, p})
		if err != nil {
			return nil, err
		}
		x = append(x, measureTime(func() { regcredLookup(ring, "registry.example.com/app:v1") }))
		y = append(y, measureTime(func() { kubeletLookup("registry.example.com/app:v1") }))
		ring.Close()
	}
	return []row{{
		What: "three matching providers, 100 ms each", Regcred: formatMillis(median(x)), Kubelet: formatMillis(median(y)), Ratio: speedupText(median(x), median(y)),
		Target: "one provider's time", Met: median(x) < 150*time.Millisecond,
	}}, nil
}
