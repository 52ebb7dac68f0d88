// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	credentialproviderapi "k8s.io/kubelet/pkg/apis/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/util/parsers"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/kubelet"
)

const testPassword = "canary-password-4b1d"

// staticPlugin is an in-process plugin for both regcred and the kubelet.
type staticPlugin struct{ scope plugin.CacheKeyType }

// matchAllKey matches all images that the benchmarks look up in process.
const matchAllKey = "*.example.com"

func (a staticPlugin) GetCredentials(context.Context, *plugin.Request) (*plugin.Response, error) {
	return &plugin.Response{
		CacheKeyType: a.scope, CacheDuration: new(time.Hour),
		Auth: map[string]plugin.AuthConfig{matchAllKey: {Username: "user", Password: plugin.NewSecret(testPassword)}},
	}, nil
}

func (a staticPlugin) ExecPlugin(context.Context, string, string, map[string]string) (*credentialproviderapi.CredentialProviderResponse, error) {
	return &credentialproviderapi.CredentialProviderResponse{
		CacheKeyType: credentialproviderapi.PluginCacheKeyType(a.scope), CacheDuration: &metav1.Duration{Duration: time.Hour},
		Auth: map[string]credentialproviderapi.AuthConfig{matchAllKey: {Username: "user", Password: testPassword}},
	}, nil
}

// kubeletLookup looks up an image as a kubelet does for a pull.
func kubeletLookup(image string) []credentialprovider.TrackedAuthConfig {
	repo, _, _, err := parsers.ParseImageName(image)
	if err != nil {
		return nil
	}
	creds, _ := kubelet.NewKeyring("", "", "", "").Lookup(repo)
	return creds
}

func benchMatching(b *bench) ([]row, error) {
	patterns := []string{
		"registry.example.com", "*.dkr.ecr.*.amazonaws.com", "gcr.io", "*.pkg.dev", "*.azurecr.*", "registry.example.com:5000/team",
		"docker.io/library", "*.*.example.com", "localhost:5000", "10.0.0.*:5000",
	}
	images := []string{
		"registry.example.com/team/app", "123456789012.dkr.ecr.us-east-1.amazonaws.com/team/app", "gcr.io/p/app", "europe-docker.pkg.dev/p/r/app",
		"team.azurecr.io/app", "registry.example.com:5000/team/app", "docker.io/library/nginx", "a.b.example.com/app", "localhost:5000/app", "10.0.0.7:5000/app",
	}
	var compiled []match.Pattern
	for _, s := range patterns {
		p, err := match.Parse(s)
		if err != nil {
			return nil, err
		}
		compiled = append(compiled, p)
	}
	ours := func(i int) { compiled[i%10].Match(images[i/10%10]) }
	x, y := b.compareTimes(ours, func(i int) { credentialprovider.URLsMatchStr(patterns[i%10], images[i/10%10]) })
	n := allocsPerCall(ours)
	return []row{{
		What: "`Pattern.Match`, 10 patterns with 10 images", Regcred: fmt.Sprintf("%s, %.0f allocations", formatThreeDigits(x), n), Kubelet: formatThreeDigits(y), Ratio: speedupText(x, y),
		Target: "≥ 10×, 0 allocations", Met: y >= 10*x && n == 0,
	}}, nil
}

// imageReferences returns image references as they appear in pods. Each matches one of the given
// number of patterns.
func imageReferences(patterns int) []string {
	out := make([]string, 10_000)
	for i := range out {
		out[i] = fmt.Sprintf("team-%d.example.com/group-%d/app-%d:v1.%d", i*7919%patterns, i%17, i, i%5)
	}
	return out
}

// distributePatterns distributes n patterns over the providers. One pattern in ten has a wildcard,
// and one in ten has a path.
func distributePatterns(n, providers int) []provider {
	out := make([]provider, providers)
	for i := range n {
		pattern := fmt.Sprintf("team-%d.example.com", i)
		switch i % 10 {
		case 3:
			pattern = fmt.Sprintf("team-%d.*.com", i)
		case 7:
			pattern += "/group"
		}
		p := &out[i*providers/n]
		p.patterns = append(p.patterns, pattern)
	}
	return out
}

// cachedBench is a keyring for which all responses are cached, and images to look up. The kubelet's
// packages have the same configuration.
type cachedBench struct {
	keyring *regcred.Keyring
	images  []string
}

func (b *bench) newCachedBench(patterns, providers int) (*cachedBench, error) {
	s, err := b.loadBothSides(distributePatterns(patterns, providers))
	if err != nil {
		return nil, err
	}
	a := staticPlugin{plugin.CacheGlobal}
	opts, err := s.useInProcessPlugins(a, a)
	if err != nil {
		return nil, err
	}
	ring, err := regcred.New(s.config, opts)
	if err != nil {
		return nil, err
	}
	w := &cachedBench{ring, imageReferences(patterns)}
	for i := range patterns {
		image := fmt.Sprintf("team-%d.example.com/group/app", i)
		res, err := ring.Lookup(context.Background(), regcred.Request{Image: image})
		if err != nil {
			return nil, err
		}
		if n, m := len(res.Credentials), len(kubeletLookup(image)); n != m || n != 1 {
			return nil, fmt.Errorf("%s: %d credentials, the kubelet has %d; want 1", image, n, m)
		}
	}
	return w, nil
}

func (w *cachedBench) regcredLookup(i int) {
	w.keyring.Lookup(context.Background(), regcred.Request{Image: w.images[i%len(w.images)]})
}

func (w *cachedBench) kubeletLookup(i int) { kubeletLookup(w.images[i%len(w.images)]) }

func benchCached(b *bench) ([]row, error) {
	var rows []row
	var first time.Duration
	for _, c := range []struct {
		patterns, providers int
		want                float64
	}{{10, 1, 10}, {1_000, 100, 300}, {10_000, 100, 3_000}} {
		w, err := b.newCachedBench(c.patterns, c.providers)
		if err != nil {
			return nil, err
		}
		x, y := b.compareTimes(w.regcredLookup, w.kubeletLookup)
		n := allocsPerCall(w.regcredLookup)
		r := row{
			What:    fmt.Sprintf("cached `Lookup`, %d patterns, providers: %d", c.patterns, c.providers),
			Regcred: fmt.Sprintf("%s, %.0f allocations", formatThreeDigits(x), n), Kubelet: fmt.Sprintf("%s, %.0f allocations", formatThreeDigits(y), allocsPerCall(w.kubeletLookup)),
			Ratio: speedupText(x, y), Target: fmt.Sprintf("≥ %.0f×, ≤ 3 allocations", c.want), Met: float64(y) >= c.want*float64(x) && n <= 3,
		}
		if first == 0 {
			first = x
			r.Notes = []string{w.memoryGrowth()}
		} else {
			r.Target += ", ≤ 2× the first"
			r.Met = r.Met && x <= 2*first
			r.Regcred += fmt.Sprintf(", %.2f× the first", float64(x)/float64(first))
		}
		rows = append(rows, r)
		w.keyring.Close()
	}
	return rows, nil
}

// memoryGrowth reports how much memory stays in use after lookups of many different references.
func (w *cachedBench) memoryGrowth() string {
	before := heapInUse()
	for i := range 1_000_000 {
		w.keyring.Lookup(context.Background(), regcred.Request{Image: fmt.Sprintf("team-%d.example.com/g/app-%d:v1", i%10, i)})
	}
	grown := int64(heapInUse()) - int64(before)
	runtime.KeepAlive(w)
	return fmt.Sprintf("1,000,000 other references leave %d KiB behind", grown/1024)
}

func benchParallel(b *bench) ([]row, error) {
	w, err := b.newCachedBench(10, 1)
	if err != nil {
		return nil, err
	}
	defer w.keyring.Close()
	rate := func(workers int, f func(int)) float64 {
		// With one worker, the garbage collector must also use only one core.
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(workers))
		var wg sync.WaitGroup
		perOp := make([]time.Duration, workers)
		for i := range workers {
			wg.Go(func() { perOp[i] = b.measurePerOp(f) })
		}
		wg.Wait()
		var sum float64
		for _, d := range perOp {
			sum += 1 / d.Seconds()
		}
		return sum
	}
	gain := func(f func(int)) time.Duration { // in thousandths
		var list []time.Duration
		for range b.rounds {
			list = append(list, time.Duration(1000*rate(2, f)/rate(1, f)))
		}
		return median(list)
	}
	x, y := gain(w.regcredLookup), gain(w.kubeletLookup)
	// Also measure CPU time: other processes on the second core slow the lookups down, but add no
	// CPU time.
	one, two := measureCPUPerOp(1, w.regcredLookup), measureCPUPerOp(2, w.regcredLookup)
	return []row{{
		What: "cached `Lookup` on 2 cores", Regcred: fmt.Sprintf("%.2f× of one core", float64(x)/1000), Kubelet: fmt.Sprintf("%.2f× of one core", float64(y)/1000),
		Target: "≥ 1.6× of one core", Met: x >= 1600,
		Notes: []string{fmt.Sprintf("CPU time of one lookup is %s on one core and %s on two, so that two idle cores do %.2f× the work", formatThreeDigits(one), formatThreeDigits(two), 2*float64(one)/float64(two))},
	}}, nil
}

// measureCPUPerOp returns the CPU time per call of f when the workers run it concurrently.
func measureCPUPerOp(workers int, f func(int)) time.Duration {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(workers))
	const n = 300_000
	begin := cpuTime()
	runConcurrently(workers, func(int) {
		for i := range n {
			f(i)
		}
	})
	return (cpuTime() - begin) / time.Duration(workers*n)
}

// cpuTime returns the CPU time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail with these arguments
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
