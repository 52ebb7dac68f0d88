// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/regcred/regcred/upstream/plugins"
)

// Directories of the programs measured on a node, relative to the run's directory.
const (
	ours     = "regcred"
	upstream = "upstream" // AWS's plugin
	before   = "before"   // ours at another commit
	floor    = "floor"
)

// insideArg makes this program measure in the current namespaces.
const insideArg = "inside"

// nodeRows measures the plugins as on a node: with Debian's certificate store, endpoints
// at their real names, and latency. It creates namespaces in which the names resolve to
// loopback and no other network is reachable.
func nodeRows(b *bench) ([]row, error) {
	if err := b.buildAll(); err != nil {
		return nil, err
	}
	hosts := filepath.Join(b.dir, "hosts")
	names := "127.0.0.1 localhost\n127.0.0.1 " + strings.Join(plugins.NodeHosts(), "\n127.0.0.1 ") + "\n"
	if err := os.WriteFile(hosts, []byte(names), 0o644); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"--net", "--mount", "--fork", "--kill-child", "sh", "-c", insideScript, hosts, self, insideArg, b.dir, strconv.Itoa(b.runs)}
	if os.Getuid() != 0 {
		args = append([]string{"--map-root-user"}, args...)
	}
	cmd := exec.Command("unshare", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("plugins on a node, which needs Linux, unshare, ip and root or user namespaces: %w", err)
	}
	var rows []row
	return rows, json.Unmarshal(out, &rows)
}

const insideScript = `ip link set lo up && mount --bind "$0" /etc/hosts && exec "$@"`

// inside runs nodeRows in the namespaces. Its arguments are the directory and the number
// of runs.
func inside(args []string) error {
	if len(args) != 2 {
		return errors.New(insideArg + " is for this program itself")
	}
	runs, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	list := nodeSubjects()
	began := load1()
	var rows []row
	for _, c := range conditions {
		for _, s := range list {
			if s.only != "" && s.only != c.name {
				continue
			}
			own, err := s.measureOn(c, args[0], runs)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", s.what, c.name, err)
			}
			rows = append(rows, own...)
		}
	}
	if hasBefore(args[0]) {
		sizes, err := sizeRows(args[0], list)
		if err != nil {
			return err
		}
		rows = append(rows, sizes...)
	}
	rows[0].Notes = []string{fmt.Sprintf("medians of %d runs; load of the machine %s when it began, %s at the end", runs, began, load1())}
	return json.NewEncoder(os.Stdout).Encode(rows)
}

// load1 returns the one-minute load average from /proc/loadavg.
func load1() string {
	data, _ := os.ReadFile("/proc/loadavg")
	one, _, _ := bytes.Cut(data, []byte(" "))
	return string(one)
}

// buildAll builds all programs.
func (b *bench) buildAll() error {
	root, err := plugins.Repository()
	if err != nil {
		return err
	}
	if err := b.buildFrom(root, ours); err != nil {
		return err
	}
	if b.before != "" {
		if err := b.buildBefore(root); err != nil {
			return err
		}
	}
	for _, name := range []string{"bench/floor", "bench/vmhwm"} {
		if _, err := plugins.BuildHere(b.dir, name); err != nil {
			return err
		}
	}
	_, err = plugins.BuildUpstreamECR(b.dir)
	return err
}

func (b *bench) buildFrom(root, dir string) error {
	for _, name := range []string{plugins.ECR, plugins.GCR, plugins.ACR, plugins.Token} {
		if _, err := plugins.BuildFrom(root, filepath.Join(b.dir, dir), name); err != nil {
			return err
		}
	}
	return nil
}

// buildBefore builds another commit's plugins from a temporary working tree.
func (b *bench) buildBefore(root string) (err error) {
	git := func(args ...string) error {
		if out, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(out))
		}
		return nil
	}
	if git("rev-parse", "--verify", "--quiet", b.before+"^{commit}") != nil {
		return fmt.Errorf("-before %s: this clone does not have that commit: fetch it (git fetch --unshallow), or name another", b.before)
	}
	tree := filepath.Join(b.dir, "tree")
	if err := git("worktree", "add", "--detach", tree, b.before); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, git("worktree", "remove", "--force", tree)) }()
	return b.buildFrom(tree, before)
}

// hasBefore reports whether another commit's plugins were built.
func hasBefore(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, before))
	return err == nil
}

// sizeRows compares the executables' sizes with the other commit's.
func sizeRows(dir string, list []nodeSubject) ([]row, error) {
	var rows []row
	done := map[string]bool{}
	for _, s := range list {
		if done[s.name] {
			continue
		}
		done[s.name] = true
		mine, err := fileSize(filepath.Join(dir, ours, s.name))
		if err != nil {
			return nil, err
		}
		theirs, err := fileSize(filepath.Join(dir, before, s.name))
		if err != nil {
			return nil, err
		}
		s.what = s.name
		rows = append(rows, s.bytesRow(": executable", before, s.size, mine, theirs))
	}
	return rows, nil
}
