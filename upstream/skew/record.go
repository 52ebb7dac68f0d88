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

// line is one case of which some kubelets say something else than the vectors.
type line struct {
	ID        string          `json:"id"` // of the difference
	Kind      string          `json:"kind"`
	Case      int             `json:"case"` // its number in the kind's file
	Name      string          `json:"name,omitempty"`
	TokensOff bool            `json:"tokensOff,omitempty"` // the feature gate is off
	Says      json.RawMessage `json:"says"`                // what is different
	Kubelets  []string        `json:"kubelets"`
}

// recording collects lines; kubelets that say the same share one.
type recording struct {
	lines []*line
	index map[string]*line
}

func newRecording() *recording { return &recording{index: map[string]*line{}} }

func (r *recording) add(l line, kubelet string) {
	key := fmt.Sprintf("%s %s %d %t %s", l.ID, l.Kind, l.Case, l.TokensOff, l.Says)
	if r.index[key] == nil {
		r.index[key] = &l
		r.lines = append(r.lines, &l)
	}
	r.index[key].Kubelets = append(r.index[key].Kubelets, kubelet)
}

// file is skew.json.
type file struct {
	Kubelets []kubeletReport `json:"kubelets"`
	Command  string          `json:"command"`
	Cases    []*line         `json:"cases"`
}

// write records the lines, one on a line, so that a changed one is seen in a diff.
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
	// A run that is ended here leaves the old file or the new one.
	if err := os.WriteFile(path+".new", buf.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// writable fails where no file can be put into a directory.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, "skew.json.*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// loadFile reads what was recorded.
func loadFile(path string) (*file, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := new(file)
	if err := json.Unmarshal(data, f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// compare fails unless a file has these lines and gates, as far as they are
// about the kubelets that were asked.
func (r *recording) compare(have *file, rep *report) error {
	for _, k := range rep.Kubelets {
		i := slices.IndexFunc(have.Kubelets, func(h kubeletReport) bool { return h.Kubelet == k.Kubelet })
		if i < 0 {
			return fmt.Errorf("skew.json has nothing of kubelet %s: record it", k.Kubelet)
		}
		if !slices.Equal(have.Kubelets[i].Gates, k.Gates) {
			return fmt.Errorf("skew.json has other feature gates of kubelet %s: record them again", k.Kubelet)
		}
		if got, want := linesOf(r.lines, k.Kubelet), linesOf(have.Cases, k.Kubelet); !slices.Equal(got, want) {
			return fmt.Errorf("skew.json is not what kubelet %s says now (%d lines, there %d): record it again", k.Kubelet, len(got), len(want))
		}
	}
	return nil
}

// linesOf are the lines that are true of a kubelet, as text.
func linesOf(lines []*line, kubelet string) (list []string) {
	for _, l := range lines {
		if slices.Contains(l.Kubelets, kubelet) {
			list = append(list, fmt.Sprintf("%s %s %d %t %s", l.ID, l.Kind, l.Case, l.TokensOff, l.Says))
		}
	}
	slices.Sort(list)
	return list
}
