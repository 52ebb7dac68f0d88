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

// script returns a plugin that counts its runs, sleeps and prints a response.
func script(sleep string, scope plugin.CacheKeyType, duration string) string {
	return fmt.Sprintf(`echo >> "${0%%/*}/runs"
%s
echo '{"kind":"CredentialProviderResponse","apiVersion":"%s","cacheKeyType":"%s","cacheDuration":"%s","auth":{"registry.example.com":{"username":"user","password":"%s"}}}'
`, sleep, plugin.V1, scope, duration, password)
}

// runs returns how often the plugins of s have run, and resets the count.
func (s sides) runs() int {
	path := filepath.Join(s.bin, "runs")
	data, _ := os.ReadFile(path)
	os.Remove(path)
	return strings.Count(string(data), "\n")
}

// fresh opens the providers with empty caches, on both sides.
func (b *bench) fresh(providers []provider) (sides, *regcred.Keyring, error) {
	s, err := b.load(providers)
	if err != nil {
		return s, nil, err
	}
	ring, err := regcred.New(s.config, regcred.Options{BinDir: s.bin})
	return s, ring, err
}

func ourLookup(ring *regcred.Keyring, image string) int {
	res, _ := ring.Lookup(context.Background(), regcred.Request{Image: image})
	return len(res.Credentials)
}

// concurrently runs f(0) to f(n-1) at the same time and returns how long they took.
func concurrently(n int, f func(i int)) time.Duration {
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

func burst(b *bench) ([]row, error) {
	const n = 200
	image := func(i int) string { return fmt.Sprintf("registry.example.com/app-%d:v1", i) }
	slow := []provider{{[]string{"registry.example.com"}, script("sleep 0.1", plugin.CacheRegistry, "1h")}}
	var x, y, one []time.Duration
	var ourRuns, theirRuns int
	for range b.rounds {
		s, ring, err := b.fresh(slow)
		if err != nil {
			return nil, err
		}
		x = append(x, concurrently(n, func(i int) { ourLookup(ring, image(i)) }))
		ourRuns = max(ourRuns, s.runs())
		y = append(y, concurrently(n, func(i int) { theirLookup(image(i)) }))
		theirRuns = max(theirRuns, s.runs())
		ring.Close()

		s, ring, err = b.fresh(slow)
		if err != nil {
			return nil, err
		}
		one = append(one, measureTime(func() { ourLookup(ring, image(0)) }))
		ring.Close()
		s.runs()
	}
	run := median(one)
	return []row{{
		What: "200 images of one registry at once, cold, plugin of 100 ms", Regcred: fmt.Sprintf("%d exec, %s", ourRuns, ms(median(x))),
		Kubelet: fmt.Sprintf("%d execs, %s", theirRuns, ms(median(y))), Ratio: times(median(x), median(y)),
		Target: "1 exec, ≤ 2 plugin runs", Met: ourRuns == 1 && median(x) <= 2*run, Notes: []string{"one plugin run takes " + ms(run)},
	}}, nil
}

func uncached(b *bench) ([]row, error) {
	s, ring, err := b.fresh([]provider{{[]string{"registry.example.com"}, script("", plugin.CacheImage, "0s")}})
	if err != nil {
		return nil, err
	}
	defer ring.Close()
	const image = "registry.example.com/app:v1"
	var x, y []time.Duration
	for range 20 * b.rounds { // each side is first equally often
		x = append(x, measureTime(func() { ourLookup(ring, image) }))
		y = append(y, measureTime(func() { theirLookup(image) }))
		y = append(y, measureTime(func() { theirLookup(image) }))
		x = append(x, measureTime(func() { ourLookup(ring, image) }))
	}
	if got := s.runs(); got != 80*b.rounds {
		return nil, fmt.Errorf("%d runs of the trivial plugin, want %d", got, 80*b.rounds)
	}
	return []row{{
		What: "uncached `Lookup` through a trivial plugin (a shell script)", Regcred: nice(median(x)), Kubelet: nice(median(y)), Ratio: fmt.Sprintf("%.2f×", float64(median(y))/float64(median(x))),
		Target: "not slower", Met: median(x) <= median(y),
	}}, nil
}

func threeProviders(b *bench) ([]row, error) {
	p := provider{[]string{"registry.example.com"}, script("sleep 0.1", plugin.CacheImage, "1h")}
	var x, y []time.Duration
	for range b.rounds {
		_, ring, err := b.fresh([]provider{p, p, p})
		if err != nil {
			return nil, err
		}
		x = append(x, measureTime(func() { ourLookup(ring, "registry.example.com/app:v1") }))
		y = append(y, measureTime(func() { theirLookup("registry.example.com/app:v1") }))
		ring.Close()
	}
	return []row{{
		What: "three matching providers, 100 ms each", Regcred: ms(median(x)), Kubelet: ms(median(y)), Ratio: times(median(x), median(y)),
		Target: "one provider's time", Met: median(x) < 150*time.Millisecond,
	}}, nil
}
