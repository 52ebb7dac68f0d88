// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"fmt"
	"io"
)

// row is one measurement. The target is optional.
type row struct {
	What     string   `json:"what"`
	Regcred  string   `json:"regcred"`
	Kubelet  string   `json:"kubelet,omitempty"`
	Upstream string   `json:"upstream,omitempty"` // figure of the program in Plugins and Nodes that regcred is compared with
	Ratio    string   `json:"ratio,omitempty"`
	Target   string   `json:"target"`
	Met      bool     `json:"met"`
	Notes    []string `json:"notes,omitempty"`
}

// report is the result of a run.
type report struct {
	Go      string `json:"go"`
	OS      string `json:"os"`
	CPUs    int    `json:"cpus"`
	Kubelet string `json:"kubelet"`
	Rounds  int    `json:"rounds"`
	Rows    []row  `json:"rows,omitempty"`
	Plugins []row  `json:"plugins,omitempty"` // compared with the cloud providers' plugins
	Nodes   []row  `json:"nodes,omitempty"`   // plugins on a node, compared with the named program
}

func (r report) writeTables(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s, %d cores, kubelet %s, medians of %d rounds\n", r.Go, r.OS, r.CPUs, r.Kubelet, r.Rounds)
	if len(r.Rows) > 0 {
		writeTable(w, "kubelet", r.Rows)
	}
	if len(r.Plugins) > 0 {
		writeTable(w, "upstream", r.Plugins)
	}
	if len(r.Nodes) > 0 {
		writeTable(w, "beside", r.Nodes)
	}
	_, err := fmt.Fprintln(w)
	return err
}

// writeTable writes the rows and then their notes. The column of the compared program has the
// header other.
func writeTable(w io.Writer, other string, rows []row) {
	fmt.Fprintf(w, "\n| what | regcred | %s | ratio | target | met |\n|---|---|---|---|---|---|\n", other)
	for _, row := range rows {
		met := "yes"
		switch {
		case row.Target == "":
			met = ""
		case !row.Met:
			met = "**no**"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", row.What, row.Regcred, row.Kubelet+row.Upstream, row.Ratio, row.Target, met)
	}
	for _, row := range rows {
		for _, note := range row.Notes {
			fmt.Fprintf(w, "\n- %s: %s", row.What, note)
		}
	}
	fmt.Fprintln(w)
}
