// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command bench compares regcred with the kubelet's own packages, in one process, and regcred's
// plugins with AWS's plugin. It prints both figures, their ratio and the target. Run it in
// upstream/:
//
//	go run ./bench
//	go run ./bench -slow          includes measurements that take minutes
//	go run ./bench -only nodes    plugins with Debian's certificate store, and with latency
//
// Times are medians of rounds that alternate between regcred and the kubelet's packages. The
// measured kubelet code does what a kubelet does before each pull: it parses the reference and
// creates the pod's keyring.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/regcred/regcred/upstream/kubelet"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == insideNamespacesArg {
		exitWithError(runInsideNamespaces(os.Args[2:]))
		return
	}
	var opts options
	flag.StringVar(&opts.output, "o", "table", "output `format`: table or json")
	flag.IntVar(&opts.rounds, "rounds", 7, "how many rounds the medians are taken of")
	flag.IntVar(&opts.runs, "runs", 50, "how many runs of a plugin the medians are taken of")
	flag.StringVar(&opts.only, "only", "", "measure only the part of this `name`; nodes is measured only if it is named")
	flag.StringVar(&opts.baseCommit, "before", "c4d1c2a", "`commit` that the plugins of the part nodes are compared with; none if empty")
	flag.BoolVar(&opts.slow, "slow", false, "measure what takes minutes, too")
	flag.Parse()
	exitWithError(run(os.Stdout, opts))
}

// options holds the flags.
type options struct {
	output           string
	rounds, runs     int
	only, baseCommit string
	slow             bool
}

// isSelected reports whether the flags select a part of the program.
func (o options) isSelected(part string) bool {
	switch {
	case part == "slow" && !o.slow:
		return false
	case o.only == "":
		return part != "nodes"
	}
	return part == o.only
}

func exitWithError(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, opts options) error {
	kubelet.DisableLog()
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{dir: dir, rounds: opts.rounds, sliceDuration: 100 * time.Millisecond, runs: opts.runs, baseCommit: opts.baseCommit}
	rep := report{
		Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
		Kubelet: kubelet.Version, Rounds: opts.rounds,
	}
	for _, part := range []struct {
		name    string
		rows    *[]row
		measure func(*bench) ([]row, error)
	}{
		{"match", &rep.Rows, benchMatching}, {"cached", &rep.Rows, benchCached}, {"burst", &rep.Rows, benchBurst},
		{"uncached", &rep.Rows, benchUncached}, {"three", &rep.Rows, benchThreeProviders}, {"memory", &rep.Rows, benchMemory},
		{"load", &rep.Rows, benchLoad}, {"parallel", &rep.Rows, benchParallel}, {"plugins", &rep.Plugins, benchPlugins},
		{"slow", &rep.Plugins, benchUnresponsiveMetadata}, {"nodes", &rep.Nodes, benchNodePlugins},
	} {
		if !opts.isSelected(part.name) {
			continue
		}
		rows, err := part.measure(b)
		if err != nil {
			return err
		}
		*part.rows = append(*part.rows, rows...)
	}
	if opts.output == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(rep)
	}
	return rep.writeTables(w)
}
