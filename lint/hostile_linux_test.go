// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/must"
)

var (
	hostileSize  = flag.Int("hostile.size", 0, "bytes of each configuration of TestHostile; 0 takes every tenth, small")
	measuredSide = flag.String("hostile.side", "", "what to measure in this process: ours or theirs")
	hostileFile  = flag.String("hostile.file", "", "the configuration to measure it with")
)

// TestHostile verifies that regcred needs little more memory for a hostile configuration than the YAML
// parser. Each of them runs in a separate process. The test logs times, but does not check them.
// To test all configurations with another size:
//
//	go test ./lint -run 'TestHostile$' -v -hostile.size=2000000
func TestHostile(t *testing.T) {
	dir := t.TempDir()
	type row struct {
		hostileConfig
		ours, theirs resourceUsage
		ratio        float64
	}
	var rows []row
	size := cmp.Or(*hostileSize, 50<<10)
	for i, h := range hostileConfigs() {
		if *hostileSize == 0 && i%10 != 0 {
			continue
		}
		path := filepath.Join(dir, fmt.Sprint(i)+".yaml")
		must.Do(t, os.WriteFile(path, []byte(h.largestAccepted(size)), 0o600))
		r := row{hostileConfig: h, ours: measureUsage(t, "ours", path), theirs: measureUsage(t, "theirs", path)}
		r.ratio = float64(r.ours.peak) / float64(r.theirs.peak)
		rows = append(rows, r)
		if most := 120 << 10; r.ours.peak > most {
			t.Errorf("%s: %d KiB, want at most %d", h.name, r.ours.peak, most)
		}
		if most := r.theirs.peak*3/2 + memorySlack; r.ours.peak > most {
			t.Errorf("%s: %d KiB, want at most %d", h.name, r.ours.peak, most)
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(b.ratio, a.ratio) })
	t.Logf("%-55s %9s %9s %5s %9s %9s %7s %7s", "configuration", "ours KiB", "theirs", "ratio", "allocated", "theirs", "ms", "theirs")
	for _, r := range rows {
		t.Logf("%-55s %9d %9d %5.2f %9d %9d %7d %7d", r.name, r.ours.peak, r.theirs.peak, r.ratio,
			r.ours.allocated, r.theirs.allocated, r.ours.time.Milliseconds(), r.theirs.time.Milliseconds())
	}
}

// memorySlack is the memory in KiB that regcred may use in addition to the parser's. It allows for a late
// garbage collection, and for computing positions in a file that the parser rejects immediately.
const memorySlack = 32 << 10

// measureTimeout is the time after which a measured process is killed.
const measureTimeout = 10 * time.Second

// resourceUsage is the time, and the memory in KiB, that a process needs to read a configuration.
type resourceUsage struct {
	peak, allocated int
	time            time.Duration
}

func measureUsage(t *testing.T, side, path string) (c resourceUsage) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), measureTimeout)
	defer stop()
	out, err := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestHostileSide$", "-hostile.side="+side, "-hostile.file="+path).CombinedOutput()
	if side == "theirs" && ctx.Err() != nil {
		return resourceUsage{peak: math.MaxInt32, time: measureTimeout} // the parser would probably exhaust the memory
	}
	if err != nil {
		t.Fatalf("%s of %s: %v\n%.2000s", side, path, err, out)
	}
	if _, err := fmt.Sscanf(string(out), "%d %d %d", &c.peak, &c.allocated, &c.time); err != nil {
		t.Fatalf("%s of %s: %v: %.500s", side, path, err, out)
	}
	return c
}

// TestHostileSide measures regcred or the YAML parser, in a process that [TestHostile] starts.
func TestHostileSide(t *testing.T) {
	if *measuredSide == "" {
		t.Skip("started by TestHostile alone")
	}
	start := time.Now()
	if *measuredSide == "ours" {
		loadAndCheck(*hostileFile)
	} else {
		parseOnly(*hostileFile)
	}
	took := time.Since(start)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Println(peakMemoryKiB(t), m.TotalAlloc>>10, int64(took))
}

func loadAndCheck(path string) []finding.Finding {
	c, err := config.Load(path)
	if err != nil {
		return nil
	}
	c.Validate()
	return Check(c)
}

// parseOnly parses a file with the kubelet's YAML parser, but without the kubelet's types.
func parseOnly(path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	var c struct {
		Kind, APIVersion string
		Providers        []config.Provider
	}
	_ = yaml.UnmarshalStrict(data, &c)
}

// peakMemoryKiB returns the peak resident memory of this process in KiB.
func peakMemoryKiB(t *testing.T) int {
	status, err := os.ReadFile("/proc/self/status")
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if err != nil || m == nil {
		t.Fatalf("no VmHWM: %v", err)
	}
	n, _ := strconv.Atoi(string(m[1]))
	return n
}
