// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command bench measures regcred and the kubelet's own packages side by side,
// in one process, and its plugins beside the real one of AWS. It prints both
// sides with their ratio and the target. Run it in upstream/:
//
//	go run ./bench
//	go run ./bench -slow      with what takes minutes
//
// Times are medians of rounds in which the two take turns. The kubelet's side
// does what a kubelet does before each pull: it parses the reference and makes
// the pod's keyring.
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
	output := flag.String("o", "table", "output `format`: table or json")
	rounds := flag.Int("rounds", 7, "how many rounds the medians are taken of")
	only := flag.String("only", "", "measure only the part of this `name`")
	slow := flag.Bool("slow", false, "measure what takes minutes, too")
	flag.Parse()
	if err := run(os.Stdout, *output, *rounds, *only, *slow); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, output string, rounds int, only string, slow bool) error {
	kubelet.Silence()
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{dir: dir, rounds: rounds, slice: 100 * time.Millisecond}
	rep := report{runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, runtime.NumCPU(), kubelet.Version, rounds, nil, nil}
	for _, part := range []struct {
		name    string
		rows    *[]row
		measure func(*bench) ([]row, error)
	}{
		{"match", &rep.Rows, matching}, {"cached", &rep.Rows, cached}, {"burst", &rep.Rows, burst}, {"uncached", &rep.Rows, uncached},
		{"three", &rep.Rows, three}, {"memory", &rep.Rows, memory}, {"load", &rep.Rows, load}, {"parallel", &rep.Rows, parallel},
		{"plugins", &rep.Plugins, pluginRows}, {"slow", &rep.Plugins, slowRows},
	} {
		if only != "" && only != part.name || part.name == "slow" && !slow {
			continue
		}
		rows, err := part.measure(b)
		if err != nil {
			return err
		}
		*part.rows = append(*part.rows, rows...)
	}
	if output == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(rep)
	}
	return rep.table(w)
}
