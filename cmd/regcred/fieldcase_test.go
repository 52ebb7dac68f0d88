// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"debug/elf"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/testelf"
)

// fieldCase is a misconfiguration that a user reported in public.
type fieldCase struct {
	name          string
	path          string // path of the case's file
	thread        string // URL of the report
	class         string
	mustBeFixedBy string // who must fix the output; "" if the output names the problem
	run           string // regcred's arguments
	want          []string
	not           []string
	env           []string
	setup         []string // "VERB ARGS", in order
	servers       []string
	files         []txtar.File
}

// readFieldCase parses a case. In the comment, lines that start with a word and a colon are fields.
// Other lines are ignored.
func readFieldCase(path string) (*fieldCase, error) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		return nil, err
	}
	c := &fieldCase{name: strings.TrimSuffix(filepath.Base(path), ".txtar"), path: path, files: archive.Files}
	for line := range strings.Lines(string(archive.Comment)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch value = strings.TrimSpace(value); key {
		case "thread":
			c.thread = value
		case "class":
			c.class = value
		case "open":
			c.mustBeFixedBy = value
		case "run":
			c.run = strings.TrimPrefix(value, "regcred ")
		case "want":
			c.want = append(c.want, value)
		case "not":
			c.not = append(c.not, value)
		case "env":
			c.env = append(c.env, value)
		case "server":
			c.servers = append(c.servers, value)
		case "kube", "kubelet", "unit":
			c.servers = append(c.servers, key+" "+value)
		case "mode", "link", "plugin", "mkdir", "elf":
			c.setup = append(c.setup, key+" "+value)
		}
	}
	if !strings.HasPrefix(c.thread, "https://") || c.class == "" || c.run == "" || len(c.want) == 0 {
		return nil, fmt.Errorf("%s: a case has thread, class, run and want", path)
	}
	return c, nil
}

// commandEnviron returns the command's environment.
func (c *fieldCase) commandEnviron(dir string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "GORACE=" + noRaceSleep}
	if cover := os.Getenv("GOCOVERDIR"); cover != "" {
		env = append(env, "GOCOVERDIR="+cover)
	}
	for _, e := range c.env {
		env = append(env, c.expandVariables(e, dir))
	}
	return env
}

var encodeBase64 = regexp.MustCompile(`@(base64|base64url|file)\{([^}]*)\}@`)

// expandVariables replaces variables, and expressions such as @base64{TEXT}@ and @file{NAME}@.
func (c *fieldCase) expandVariables(s, dir string) string {
	s = strings.NewReplacer("$WORK", dir, "@CANARY_PASSWORD@", canary.PasswordSecret).Replace(s)
	return encodeBase64.ReplaceAllStringFunc(s, func(m string) string {
		parts := encodeBase64.FindStringSubmatch(m)
		text := strings.ReplaceAll(parts[2], `\n`, "\n")
		switch parts[1] {
		case "base64url":
			return base64.RawURLEncoding.EncodeToString([]byte(text))
		case "file":
			data, err := os.ReadFile(filepath.Join(dir, parts[2]))
			if err != nil {
				panic(err)
			}
			text = string(data)
		}
		return base64.StdEncoding.EncodeToString([]byte(text))
	})
}

// writeFiles writes the files of a case in order. A file that contains @file{NAME}@ must come after the
// file NAME.
func (c *fieldCase) writeFiles(t *testing.T, dir string) error {
	t.Helper()
	for _, f := range c.files {
		name := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		text := c.expandVariables(string(f.Data), dir)
		if strings.HasSuffix(f.Name, ".nonl") { // files in an archive always end with a newline
			name, text = strings.TrimSuffix(name, ".nonl"), strings.TrimSuffix(text, "\n")
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
		if err := expandPlaceholders(name, fs.FileInfoToDirEntry(fileInfo(name)), nil); err != nil {
			return err
		}
	}
	for _, s := range c.setup {
		if err := c.createSpecialFile(t, dir, strings.Fields(s)); err != nil {
			return fmt.Errorf("%s: %s: %w", c.path, s, err)
		}
	}
	return nil
}

func fileInfo(name string) fs.FileInfo {
	info, err := os.Stat(name)
	if err != nil {
		panic(err)
	}
	return info
}

// createSpecialFile creates files that a text archive cannot hold:
//
//	mode OCTAL PATH          link PATH TARGET         mkdir PATH
//	plugin PATH NAME         a plugin that the test binary plays
//	elf PATH MACHINE LOADER  a program for this ("native") or another machine
func (c *fieldCase) createSpecialFile(t *testing.T, dir string, args []string) error {
	t.Helper()
	at := func(name string) string { return filepath.Join(dir, name) }
	switch args[0] {
	case "mode":
		mode, err := strconv.ParseUint(args[1], 8, 32)
		if err != nil {
			return err
		}
		return os.Chmod(at(args[2]), fs.FileMode(mode))
	case "mkdir":
		return os.MkdirAll(at(args[1]), 0o755)
	case "link":
		if err := os.MkdirAll(filepath.Dir(at(args[1])), 0o755); err != nil {
			return err
		}
		return os.Symlink(c.expandVariables(args[2], dir), at(args[1]))
	case "plugin":
		binary, err := exec.LookPath("regcred")
		if err != nil {
			return err
		}
		if err := os.MkdirAll(at(args[1]), 0o755); err != nil {
			return err
		}
		return os.Link(binary, filepath.Join(at(args[1]), args[2]+filepath.Ext(binary)))
	case "elf":
		machine := map[string]elf.Machine{"arm64": elf.EM_AARCH64, "s390x": elf.EM_S390, "amd64": elf.EM_X86_64}
		name := strings.Replace(args[2], "native", runtime.GOARCH, 1)
		if machine[name] == 0 {
			t.Skipf("no program for %s", name)
		}
		image := testelf.BuildFile(t, elf.ELFCLASS64, binary.LittleEndian, machine[name], strings.Join(args[3:], ""))
		return os.WriteFile(at(args[1]), image, 0o755)
	}
	return fmt.Errorf("what is %s?", args[0])
}

// skipReason returns why a case cannot run on this machine, or "" if it can.
func (c *fieldCase) skipReason() string {
	if runtime.GOOS == "windows" {
		return "nodes here are Linux nodes, and plugins shell scripts"
	}
	return ""
}
