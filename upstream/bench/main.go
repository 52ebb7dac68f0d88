// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command bench measures regcred and the kubelet's own packages side by side,
// in one process, and prints both with their ratio and the target. Run it in
// upstream/:
//
//	go run ./bench
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

// row is one measurement.
type row struct {
	What    string   `json:"what"`
	Regcred string   `json:"regcred"`
	Kubelet string   `json:"kubelet,omitempty"`
	Ratio   string   `json:"ratio,omitempty"`
	Target  string   `json:"target"`
	Met     bool     `json:"met"`
	Notes   []string `json:"notes,omitempty"`
}

// report is a whole run.
type report struct {
	Go      string `json:"go"`
	OS      string `json:"os"`
	CPUs    int    `json:"cpus"`
	Kubelet string `json:"kubelet"`
	Rounds  int    `json:"rounds"`
	Rows    []row  `json:"rows"`
}

func main() {
	output := flag.String("o", "table", "output `format`: table or json")
	rounds := flag.Int("rounds", 7, "how many rounds the medians are taken of")
	only := flag.String("only", "", "measure only the part of this `name`")
	flag.Parse()
	if err := run(os.Stdout, *output, *rounds, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, output string, rounds int, only string) error {
	kubelet.Silence()
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{dir: dir, rounds: rounds, slice: 100 * time.Millisecond}
	rep := report{runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, runtime.NumCPU(), kubelet.Version, rounds, nil}
	for _, part := range []struct {
		name    string
		measure func(*bench) ([]row, error)
	}{
		{"match", match}, {"cached", cached}, {"burst", burst}, {"uncached", uncached},
		{"three", three}, {"memory", memory}, {"load", load}, {"parallel", parallel},
	} {
		if only != "" && only != part.name {
			continue
		}
		rows, err := part.measure(b)
		if err != nil {
			return err
		}
		rep.Rows = append(rep.Rows, rows...)
	}
	if output == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(rep)
	}
	return rep.table(w)
}

func (r report) table(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s, %d cores, kubelet %s, medians of %d rounds\n\n", r.Go, r.OS, r.CPUs, r.Kubelet, r.Rounds)
	fmt.Fprintln(w, "| what | regcred | kubelet | ratio | target | met |\n|---|---|---|---|---|---|")
	var err error
	for _, row := range r.Rows {
		met := "yes"
		if !row.Met {
			met = "**no**"
		}
		_, err = fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", row.What, row.Regcred, row.Kubelet, row.Ratio, row.Target, met)
	}
	for _, row := range r.Rows {
		for _, note := range row.Notes {
			fmt.Fprintf(w, "\n- %s: %s", row.What, note)
		}
	}
	fmt.Fprintln(w)
	return err
}
