// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
)

// differenceLine is a case for which the vectors of some kubelets differ from the baseline.
type differenceLine struct {
	ID        string          `json:"id"` // name of the known difference
	Kind      string          `json:"kind"`
	Case      int             `json:"case"` // index in the kind's file
	Name      string          `json:"name,omitempty"`
	TokensOff bool            `json:"tokensOff,omitempty"` // whether the feature gate is off
	Changes   json.RawMessage `json:"says"`                // the parts that differ
	Kubelets  []string        `json:"kubelets"`
}

// recording collects difference lines. Kubelets with the same result share a line.
type recording struct {
	lines      []*differenceLine
	linesByKey map[string]*differenceLine
}

func newRecording() *recording { return &recording{linesByKey: map[string]*differenceLine{}} }

func (r *recording) addLine(l differenceLine, kubelet string) {
	key := fmt.Sprintf("%s %s %d %t %s", l.ID, l.Kind, l.Case, l.TokensOff, l.Changes)
	if r.linesByKey[key] == nil {
		r.linesByKey[key] = &l
		r.lines = append(r.lines, &l)
	}
	r.linesByKey[key].Kubelets = append(r.linesByKey[key].Kubelets, kubelet)
}

// recordFile is the content of skew.json.
type recordFile struct {
	Kubelets []kubeletReport   `json:"kubelets"`
	Command  string            `json:"command"`
	Cases    []*differenceLine `json:"cases"`
}

// write writes the recording with one case per line, so that diffs are readable.
func (r *recording) write(path string, rep *report) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	list := func(name string, n int, item func(int) any) error {
		fmt.Fprintf(&buf, "%q: [\n", name)
		for i := range n {
			if err := enc.Encode(item(i)); err != nil {
				return err
			}
			if i < n-1 {
				buf.Truncate(buf.Len() - 1)
				buf.WriteString(",\n")
			}
		}
		buf.WriteString("]")
		return nil
	}
	fmt.Fprintf(&buf, "{\n\"command\": %q,\n", "go run ./skew -record")
	if err := list("kubelets", len(rep.Kubelets), func(i int) any { return rep.Kubelets[i] }); err != nil {
		return err
	}
	buf.WriteString(",\n")
	if err := list("cases", len(r.lines), func(i int) any { return r.lines[i] }); err != nil {
		return err
	}
	buf.WriteString("\n}\n")
	// Write and rename, so that an interrupted run does not leave a partial file.
	if err := os.WriteFile(path+".new", buf.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// checkWritable returns an error if no file can be created in dir.
func checkWritable(dir string) error {
	f, err := os.CreateTemp(dir, "skew.json.*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// loadRecordFile reads skew.json.
func loadRecordFile(path string) (*recordFile, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := new(recordFile)
	if err := json.Unmarshal(data, f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// compare returns an error unless the file has the same lines and feature gates for each kubelet of
// this run.
func (r *recording) compare(have *recordFile, rep *report) error {
	for _, k := range rep.Kubelets {
		i := slices.IndexFunc(have.Kubelets, func(h kubeletReport) bool { return h.Kubelet == k.Kubelet })
		if i < 0 {
			return fmt.Errorf("skew.json has nothing of kubelet %s: record it", k.Kubelet)
		}
		if !slices.Equal(have.Kubelets[i].Gates, k.Gates) {
			return fmt.Errorf("skew.json has other feature gates of kubelet %s: record them again", k.Kubelet)
		}
		if got, want := formatLines(r.lines, k.Kubelet), formatLines(have.Cases, k.Kubelet); !slices.Equal(got, want) {
			return fmt.Errorf("skew.json is not what kubelet %s says now (%d lines, there %d): record it again", k.Kubelet, len(got), len(want))
		}
	}
	return nil
}

// formatLines formats the lines of a kubelet.
func formatLines(lines []*differenceLine, kubelet string) (list []string) {
	for _, l := range lines {
		if slices.Contains(l.Kubelets, kubelet) {
			list = append(list, fmt.Sprintf("%s %s %d %t %s", l.ID, l.Kind, l.Case, l.TokensOff, l.Changes))
		}
	}
	slices.Sort(list)
	return list
}
