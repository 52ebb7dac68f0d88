// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// soakDuration is the duration of TestSoak. docs/project/testing.md describes how to run it.
var soakDuration = flag.Duration("soak", 0, "how long TestSoak runs, e.g. 10m; 0 means not at all")

// soakRate is the number of lookups per second: 200,000 in ten minutes.
const soakRate = 334

// Limits for the growth between the first tenth of a soak test (at most a minute) and its end.
const (
	soakDescriptors = 8
	soakGoroutines  = 8
	soakHeap        = 4 << 20  // maximum growth in bytes, in addition to a quarter of the initial heap
	soakRSS         = 24 << 20 // in bytes, plus a quarter of the initial value
)

// soakPlugin is the main function of the plugins in a soak test.
func soakPlugin(kind, user string) int {
	switch kind {
	case "good":
		return plugin.Serve(context.Background(), shortLived(user), plugin.ServeOptions{Args: os.Args[1:]})
	case "fails":
		fmt.Fprintln(os.Stderr, "throttled")
		return 1
	case "garbage":
		os.Stdout.Write(bytes.Repeat([]byte("x"), 100_000))
	case "hangs":
		time.Sleep(time.Minute)
	case "forks": // starts a child process that keeps the plugin's output open
		child := exec.Command(os.Args[0])
		child.Env, child.Stdout, child.Stderr = append(os.Environ(), testPlugin+"=soak-lingers"), os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return plugin.Serve(context.Background(), shortLived(user), plugin.ServeOptions{Args: os.Args[1:]})
	case "lingers":
		time.Sleep(time.Second)
	}
	return 0
}

// shortLived returns a provider whose responses have a short cache duration.
func shortLived(user string) plugin.Provider {
	return plugin.ProviderFunc(func(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
		resp, err := responseForImage(user).GetCredentials(ctx, req)
		resp.CacheDuration = new(5 * time.Second)
		return resp, err
	})
}

// soakTest is a soak test of a keyring.
type soakTest struct {
	t       *testing.T
	opts    Options
	keyring *Keyring
	events  atomic.Int64
	lookups atomic.Int64

	mu       sync.Mutex
	outcomes map[string]int
}

var soakKinds = []string{"good", "fails", "garbage", "hangs", "forks"}

// configForReload returns the configuration for the n-th reload. Some providers change with each
// reload.
func (s *soakTest) configForReload(n int) *config.Config {
	c := &config.Config{}
	add := func(name, host string, attributes *config.TokenAttributes) *config.Provider {
		c.Providers = append(c.Providers, config.Provider{
			Name: name, MatchImages: []string{host}, DefaultCacheDuration: new(time.Hour), APIVersion: plugin.V1, TokenAttributes: attributes,
		})
		return &c.Providers[len(c.Providers)-1]
	}
	for _, kind := range soakKinds {
		p := add(kind, "*."+kind+".example", nil)
		p.Env = []config.EnvVar{{Name: testPlugin, Value: plugin.NewSecret("soak-" + kind)}}
		if kind != "good" && n%2 == 1 {
			p.Args = []plugin.Secret{plugin.NewSecret("other")}
		}
	}
	add("tokens", "*.tokens.example", testTokenAttributes(config.CachePerServiceAccount))
	p := add("images", "*.images.example", nil)
	if n%10 == 0 {
		p.Args = []plugin.Secret{plugin.NewSecret("other")}
	}
	return c
}

func newSoakTest(t *testing.T) *soakTest {
	s := &soakTest{t: t, outcomes: map[string]int{}}
	s.opts = Options{
		BinDir:  testBinDir(t, soakKinds...),
		Environ: append(os.Environ(), "GORACE=atexit_sleep_ms=0", "GOMAXPROCS=1"), Timeout: time.Second,
		Sources:         []Source{NodeDockerConfig(NodePaths{RootDir: t.TempDir()})},
		ServiceAccounts: &staticAccounts{},
		Observer:        func(Event) { s.events.Add(1) },
		MaxCacheEntries: 200, RefreshAhead: time.Second,
		InProcess: map[string]plugin.Provider{
			"tokens": plugin.ProviderFunc(newPluginResponder(plugin.CacheImage, 0, "")),
			"images": plugin.ProviderFunc(newPluginResponder(plugin.CacheImage, time.Hour, "")),
		},
	}
	k := must.Get(New(s.configForReload(0), s.opts))(t)
	s.keyring = k
	return s
}

// randomRequest returns a random request and its kind, which determines the expected result.
func (s *soakTest) randomRequest(rnd *rand.Rand) (req Request, kind string) {
	switch n := rnd.IntN(1000); {
	case n < 870:
		kind = "good"
	case n < 940:
		kind = "images" // a different image each time
	case n < 980:
		kind = "tokens"
		req.Pod = podRequest("", []string{"alice", "bob"}[rnd.IntN(2)], rnd.IntN(1000)).Pod
	case n < 988:
		kind = "fails"
	case n < 990:
		kind = "garbage"
	case n < 996:
		kind = "forks"
	default:
		kind = "hangs"
	}
	req.Image = fmt.Sprintf("r%d.%s.example/app-%d", rnd.IntN(20), kind, rnd.IntN(1_000_000))
	return req, kind
}

// lookUpRandom does one lookup with a random request. It cancels some lookups.
func (s *soakTest) lookUpRandom(rnd *rand.Rand) {
	req, kind := s.randomRequest(rnd)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if rnd.IntN(20) == 0 || kind == "hangs" && rnd.IntN(2) == 0 {
		stop := time.AfterFunc(time.Duration(rnd.Int64N(int64(50*time.Millisecond))), cancel)
		defer stop.Stop()
	}
	res, err := s.keyring.Lookup(ctx, req)
	s.lookups.Add(1)
	what := kind + ", answered"
	var failed *LookupError
	switch {
	case ctx.Err() != nil:
		what = kind + ", given up"
	case errors.As(err, &failed):
		what = kind + ", failed at " + string(failed.Failed[0].Stage)
	case err != nil:
		s.t.Errorf("%s: %v", kind, err)
	case len(res.Credentials) != 1:
		s.t.Errorf("%s: %d credentials", kind, len(res.Credentials))
	case rnd.IntN(100) == 0:
		s.keyring.Invalidate(res.Credentials[0])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcomes[what]++
}

// run does lookups for the duration d. Meanwhile it reloads the configuration, and opens and
// closes other keyrings. It returns when all goroutines have ended.
func (s *soakTest) run(d time.Duration, seed uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	due := s.lookups.Load() + int64(d.Seconds()*soakRate)
	var wg sync.WaitGroup
	for worker := range 32 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(worker)))
			for ctx.Err() == nil || s.lookups.Load() < due {
				s.lookUpRandom(rnd)
				time.Sleep(time.Duration(rnd.Int64N(int64(2 * 32 * time.Second / soakRate))))
			}
		})
	}
	wg.Go(func() {
		for n := 1; ctx.Err() == nil; n++ {
			time.Sleep(200 * time.Millisecond)
			if err := s.keyring.Reload(s.configForReload(n)); err != nil {
				s.t.Error(err)
			}
			s.closeAnother(seed + uint64(n))
		}
	})
	wg.Wait()
}

// closeAnother creates a keyring and closes it during lookups.
func (s *soakTest) closeAnother(seed uint64) {
	k, err := New(s.configForReload(0), s.opts)
	if err != nil {
		s.t.Error(err)
		return
	}
	var wg sync.WaitGroup
	rnd := rand.New(rand.NewPCG(seed, seed))
	for range 3 {
		req, _ := s.randomRequest(rnd)
		wg.Go(func() { k.Lookup(context.Background(), req) })
	}
	time.Sleep(time.Duration(rnd.Int64N(int64(10 * time.Millisecond))))
	k.Close()
	wg.Wait()
}

// resourceUsage is the amount of resources that the process uses.
type resourceUsage struct {
	descriptors, goroutines int // descriptors and rss are -1 if unknown
	heap, rss               int64
}

func (f resourceUsage) String() string {
	return fmt.Sprintf("%d descriptors, %d goroutines, heap %.1f MiB, RSS %.1f MiB", f.descriptors, f.goroutines, float64(f.heap)/(1<<20), float64(f.rss)/(1<<20))
}

// exceededResources returns the names of the resources of which f uses too much, compared with g.
func (f resourceUsage) exceededResources(g resourceUsage) []string {
	var in []string
	note := func(what string, over bool) {
		if over {
			in = append(in, what)
		}
	}
	note("descriptors", f.descriptors > g.descriptors+soakDescriptors)
	note("goroutines", f.goroutines > g.goroutines+soakGoroutines)
	note("heap", f.heap > g.heap+g.heap/4+soakHeap)
	note("RSS", f.rss > g.rss+g.rss/4+soakRSS)
	return in
}

// stableResourceUsage returns the footprint when the numbers of goroutines and descriptors have
// stopped changing.
func stableResourceUsage() resourceUsage {
	var f, last resourceUsage
	for range 20 {
		f = resourceUsage{descriptors: -1, goroutines: runtime.NumGoroutine(), rss: -1}
		if list, err := os.ReadDir("/proc/self/fd"); err == nil {
			f.descriptors = len(list)
		}
		if f.descriptors == last.descriptors && f.goroutines == last.goroutines {
			break
		}
		last = f
		time.Sleep(1500 * time.Millisecond) // longer than child processes of plugins run
	}
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.heap = int64(m.HeapAlloc)
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := bytes.Fields(statm); len(fields) > 1 {
			pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			f.rss = pages * int64(os.Getpagesize())
		}
	}
	return f
}

// TestSoak runs many lookups with plugins that fail, hang, fork and print garbage, and with
// reloads and cancellations. At the end, the process must use the same resources as after the
// first tenth of the time. After Close, it must use the same resources as before the start.
func TestSoak(t *testing.T) {
	if *soakDuration <= 0 {
		t.Skip("only with -args -soak=10m")
	}
	first := min(*soakDuration/10, time.Minute)
	before := stableResourceUsage()
	s := newSoakTest(t)
	s.run(first, 1)
	early := stableResourceUsage()
	s.run(*soakDuration-first, 2)
	late := stableResourceUsage()
	s.keyring.Close()
	after := stableResourceUsage()
	t.Logf("%d lookups in %v, %d events", s.lookups.Load(), *soakDuration, s.events.Load())
	for _, what := range slices.Sorted(maps.Keys(s.outcomes)) {
		t.Logf("%8d %s", s.outcomes[what], what)
	}
	t.Logf("before:       %v", before)
	t.Logf("after %6v: %v", first, early)
	t.Logf("after %6v: %v", *soakDuration, late)
	t.Logf("closed:       %v", after)
	if in := late.exceededResources(early); in != nil {
		t.Errorf("it grew in %q", in)
	}
	if after.goroutines > before.goroutines || after.descriptors > before.descriptors+1 { // the runtime's network poller keeps one descriptor
		t.Errorf("after Close there is more than before")
	}
	for _, want := range []string{"good, answered", "images, answered", "tokens, answered"} {
		if s.outcomes[want] == 0 {
			t.Errorf("none was %s", want)
		}
	}
	canary.AssertAbsent(t, "the soak", fmt.Sprint(s.outcomes))
}
