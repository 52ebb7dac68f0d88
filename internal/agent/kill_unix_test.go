// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/agent"
	"github.com/regcred/regcred/internal/must"
)

// writerDirEnv is an environment variable. It makes the test binary call [runWriter] with the
// directory in its value.
const writerDirEnv = "REGCRED_TEST_AGENT_IN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerDirEnv); dir != "" {
		runWriter(dir)
	}
	os.Exit(m.Run())
}

// instantNode is a node on which every command succeeds immediately.
type instantNode struct{}

func (instantNode) Path(name string) string { return "/node/" + name }

func (instantNode) Run(_ context.Context, args ...string) ([]byte, int, error) {
	if args[0] == "status" {
		return []byte(clean), 0, nil
	}
	return []byte(installed), 0, nil
}

// podFiles returns the configuration and the program of release n. Even and odd releases
// differ.
func podFiles(n int) (config, program []byte) {
	letter := string(rune('a' + n%2))
	return []byte(strings.ReplaceAll(configuration, "r.example", letter+".example")), bytes.Repeat([]byte(letter), 4<<20+n%2)
}

// runWriter runs one agent after another, each until it has installed. It never returns.
func runWriter(dir string) {
	in := func(name string) string { return filepath.Join(dir, name) }
	for n := 0; ; n++ {
		config, program := podFiles(n)
		for name, data := range map[string][]byte{"config/c.yaml": config, "regcred": program, "plugins/ours": program, "plugins/theirs": program, "state": []byte("present")} {
			if err := errors.Join(os.MkdirAll(filepath.Dir(in(name)), 0o700), os.WriteFile(in(name), data, 0o700)); err != nil {
				panic(err)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		a := &agent.Agent{
			Options: agent.Options{Node: "n1", Owner: "ns/rel", Revision: "r", Config: in("config"), StateFile: in("state"), Plugins: in("plugins"), WorkDir: in("work"), RegcredPath: in("regcred"), DispatcherPath: in("regcred")},
			Host:    instantNode{},
			PrintStatus: func(line []byte) error {
				if bytes.Contains(line, []byte(`"phase":"installed"`)) {
					cancel()
				}
				return nil
			},
		}
		if err := a.Run(ctx); err != nil {
			panic(err)
		}
		cancel()
	}
}

// TestKilled verifies that no file is incomplete after the agent is killed, and that the next
// agent removes temporary files.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	left := 0 // number of partial files
	for round := range 100 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), writerDirEnv+"="+dir)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		must.Do(t, cmd.Start())
		time.Sleep(rand.N(400 * time.Millisecond)) // kill at a random time
		must.Do(t, cmd.Process.Kill())
		if err := cmd.Wait(); stderr.Len() > 0 {
			t.Fatalf("%v: %s", err, stderr.String())
		}
		if temporary := checkFiles(t, filepath.Join(dir, "work")); temporary > 0 {
			left++
		}
		if left >= 5 && round >= 10 || t.Failed() {
			break
		}
	}
	if left == 0 {
		t.Error("none was killed while it wrote: this test shows nothing")
	}
}

// checkFiles checks that the agent's files are complete, and counts the temporary files.
func checkFiles(t *testing.T, work string) (temporary int) {
	t.Helper()
	whole := map[string][]string{}
	for n := range 2 {
		config, program := podFiles(n)
		for name, data := range map[string][]byte{"host/config/c.yaml": config, "host/regcred": program, "host/regcred-credential-provider": program, "host/bin/ours": program, "host/bin/theirs": program} {
			whole[name] = append(whole[name], string(data))
		}
	}
	err := filepath.WalkDir(work, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && d.IsDir() {
			return nil
		}
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(work, path)
		if strings.HasSuffix(name, ".regcred-new") {
			temporary++
			return nil
		}
		data, err := os.ReadFile(path)
		switch {
		case err != nil:
			return err
		case strings.HasSuffix(name, ".json"):
			if !json.Valid(data) {
				t.Errorf("%s: %q", name, data)
			}
		case len(whole[name]) == 0:
			t.Errorf("%s: nobody wants it", name)
		case string(data) != whole[name][0] && string(data) != whole[name][1]:
			t.Errorf("%s: %d bytes of an incomplete file", name, len(data))
		default:
			info, err := d.Info()
			if want := fs.FileMode(0o755); err == nil && !strings.HasSuffix(name, ".yaml") && info.Mode() != want {
				t.Errorf("%s: %v", name, info.Mode())
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if temporary > 5 {
		t.Errorf("%d temporary files: earlier ones are not removed", temporary)
	}
	return temporary
}
