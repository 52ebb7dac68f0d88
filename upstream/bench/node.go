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

// oursDir and the following constants are directories of the programs measured on a
// node, relative to the run's directory.
const (
	oursDir       = "regcred"
	upstreamDir   = "upstream" // AWS's plugin
	baseCommitDir = "before"   // regcred's plugins at another commit
	floorDir      = "floor"
)

// insideNamespacesArg is the argument with which this program runs itself in the namespaces.
const insideNamespacesArg = "inside"

// benchNodePlugins measures the plugins as they run on a node: with Debian's certificate store, endpoints
// at their real host names, and latency. It creates namespaces in which the host names resolve to
// loopback and no other network is reachable.
func benchNodePlugins(b *bench) ([]row, error) {
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
	args := []string{"--net", "--mount", "--fork", "--kill-child", "sh", "-c", insideScript, hosts, self, insideNamespacesArg, b.dir, strconv.Itoa(b.runs)}
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

// runInsideNamespaces is the part of nodeRows that runs in the namespaces. Its arguments are the
// working directory and the number of runs.
func runInsideNamespaces(args []string) error {
	if len(args) != 2 {
		return errors.New(insideNamespacesArg + " is for this program itself")
	}
	runs, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	list := nodeSubjects()
	began := loadAverage()
	var rows []row
	for _, c := range networkConditions {
		for _, s := range list {
			if s.only != "" && s.only != c.name {
				continue
			}
			own, err := s.measureOn(c, args[0], runs)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", s.label, c.name, err)
			}
			rows = append(rows, own...)
		}
	}
	if hasBaseCommitBuild(args[0]) {
		sizes, err := sizeRows(args[0], list)
		if err != nil {
			return err
		}
		rows = append(rows, sizes...)
	}
	rows[0].Notes = []string{fmt.Sprintf("medians of %d runs; load of the machine %s when it began, %s at the end", runs, began, loadAverage())}
	return json.NewEncoder(os.Stdout).Encode(rows)
}

// loadAverage returns the one-minute load average from /proc/loadavg.
func loadAverage() string {
	data, _ := os.ReadFile("/proc/loadavg")
	one, _, _ := bytes.Cut(data, []byte(" "))
	return string(one)
}

// buildAll builds all programs that are measured on a node.
func (b *bench) buildAll() error {
	root, err := plugins.RepositoryRoot()
	if err != nil {
		return err
	}
	if err := b.buildPlugins(root, oursDir); err != nil {
		return err
	}
	if b.baseCommit != "" {
		if err := b.buildBaseCommit(root); err != nil {
			return err
		}
	}
	for _, name := range []string{"bench/floor", "bench/vmhwm"} {
		if _, err := plugins.BuildInRepository(b.dir, name); err != nil {
			return err
		}
	}
	_, err = plugins.BuildUpstreamECR(b.dir)
	return err
}

func (b *bench) buildPlugins(root, dir string) error {
	for _, name := range []string{plugins.ECR, plugins.GCR, plugins.ACR, plugins.Token} {
		if _, err := plugins.BuildFrom(root, filepath.Join(b.dir, dir), name); err != nil {
			return err
		}
	}
	return nil
}

// buildBaseCommit builds the plugins of commit b.before in a temporary worktree.
func (b *bench) buildBaseCommit(root string) (err error) {
	git := func(args ...string) error {
		if out, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(out))
		}
		return nil
	}
	if git("rev-parse", "--verify", "--quiet", b.baseCommit+"^{commit}") != nil {
		return fmt.Errorf("-before %s: this clone does not have that commit: fetch it (git fetch --unshallow), or name another", b.baseCommit)
	}
	tree := filepath.Join(b.dir, "tree")
	if err := git("worktree", "add", "--detach", tree, b.baseCommit); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, git("worktree", "remove", "--force", tree)) }()
	return b.buildPlugins(tree, baseCommitDir)
}

// hasBaseCommitBuild reports whether dir contains plugins from buildBaseCommit.
func hasBaseCommitBuild(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, baseCommitDir))
	return err == nil
}

// sizeRows compares the sizes of the executables with the sizes at the base commit.
func sizeRows(dir string, list []nodeSubject) ([]row, error) {
	var rows []row
	done := map[string]bool{}
	for _, s := range list {
		if done[s.name] {
			continue
		}
		done[s.name] = true
		mine, err := fileSize(filepath.Join(dir, oursDir, s.name))
		if err != nil {
			return nil, err
		}
		theirs, err := fileSize(filepath.Join(dir, baseCommitDir, s.name))
		if err != nil {
			return nil, err
		}
		s.label = s.name
		rows = append(rows, s.bytesRow(": executable", baseCommitDir, s.size, mine, theirs))
	}
	return rows, nil
}
