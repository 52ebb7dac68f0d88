// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

// TestMain makes the test binary run as regcred, every plugin and a kubelet, so that scripts run real processes.
func TestMain(m *testing.M) {
	setUmask()
	name := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	if plugin, ok := testPlugins()[name]; ok {
		os.Exit(plugin())
	}
	if name == demoProvider { // a copy of this program, made by the demo
		if os.Getenv("TEST_DEMO_FAILS") != "" {
			os.Exit(3)
		}
		os.Exit(regcredMain())
	}
	testscript.Main(m, map[string]func(){
		"regcred":         func() { os.Exit(regcredMain()) },
		"kubectl-regcred": func() { os.Exit(regcredMain()) },
		"kubelet":         kubeletMain,
		"fieldserve":      fieldServeMain,
		"journalctl":      fieldJournalMain,
	})
}

// regcredMain is main with a root directory that a script can set.
func regcredMain() int {
	return runWithSignals(func(ctx context.Context) int {
		root := os.Getenv("TEST_ROOT")
		if root == "" {
			return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ())
		}
		a := newApp(nil, os.Stdout, os.Stderr, os.Environ())
		a.root = root
		return a.run(ctx, os.Args[1:])
	})
}

// kubeletMain imitates a kubelet, as seen in /proc.
func kubeletMain() {
	os.Stdout.WriteString("running\n")
	bufio.NewReader(os.Stdin).ReadByte() // EOF when the script ends
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup:               setupScript,
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, errors.New("unknown condition " + cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":         scriptCode,
			"says":         scriptOutputContains,
			"cmpjson":      scriptCompareJSON,
			"startkubelet": scriptStartKubelet,
			"kube":         scriptKube,
		},
	})
}

// noRaceSleep, in GORACE, prevents a process built with -race from sleeping for a
// second before it exits.
const noRaceSleep = "atexit_sleep_ms=0"

// setupScript writes the canary secrets into the script's files and creates a plugin
// directory. The secrets are not in the environment, because testscript prints it.
func setupScript(env *testscript.Env) error {
	if err := filepath.WalkDir(env.WorkDir, expandPlaceholders); err != nil {
		return err
	}
	bin := filepath.Join(env.WorkDir, "bin")
	env.Setenv("BIN", bin)
	env.Values[kubeKey{}] = &kubeSlot{}
	env.Setenv("GORACE", noRaceSleep)
	return linkPlugins(bin)
}

// linkPlugins creates a directory with the plugins. They are links to one binary,
// because copies would take hundreds of megabytes.
func linkPlugins(dir string) error {
	binary, err := exec.LookPath("regcred")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name := range testPlugins() {
		if err := os.Link(binary, filepath.Join(dir, name+filepath.Ext(binary))); err != nil {
			return err
		}
	}
	return nil
}

// expandPlaceholders replaces the placeholders for secrets and for content that a text archive
// cannot hold.
func expandPlaceholders(name string, d os.DirEntry, err error) error {
	if err != nil || d.IsDir() {
		return err
	}
	data, err := os.ReadFile(name)
	if err != nil || !strings.Contains(string(data), "@") {
		return err
	}
	text := strings.NewReplacer(
		"@CANARY_ENV@", canary.EnvSecret, "@CANARY_ARG@", canary.ArgSecret,
		"@CANARY_TOKEN@", canary.TokenSecret, "@CANARY_PASSWORD@", canary.PasswordSecret,
		"@KUBELET_CMDLINE@\n", "kubelet\x00--image-credential-provider-config\x00c.yaml\x00--image-credential-provider-bin-dir=bin\x00",
	).Replace(string(data))
	if args, ok := strings.CutPrefix(text, "@CMDLINE "); ok { // /proc separates arguments with NUL
		text = "kubelet\x00" + strings.ReplaceAll(strings.TrimSuffix(args, "@\n"), " ", "\x00") + "\x00"
	}
	return os.WriteFile(name, []byte(text), 0o644)
}

// scriptCode is the script command "code N COMMAND...". It runs the command and checks its exit
// code. The output must not contain canary secrets.
func scriptCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N command [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exitErr, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exitErr.ExitCode()
	} else {
		ts.Check(err)
	}
	for _, stream := range []string{"stdout", "stderr"} {
		if canary.FindMarker(ts.ReadFile(stream)) != "" {
			ts.Fatalf("%s holds a planted secret", stream)
		}
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// scriptOutputContains is the script command "says stdout|stderr TEXT". It checks that the output contains
// the text, ignoring line breaks.
func scriptOutputContains(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: says stdout|stderr text")
	}
	got := strings.Join(strings.Fields(ts.ReadFile(args[0])), " ")
	want := strings.Join(strings.Fields(args[1]), " ")
	if strings.Contains(got, want) == neg {
		ts.Fatalf("%s: contains %q: %v", args[0], want, neg)
	}
}

// scriptCompareJSON is the script command "cmpjson GOT WANT". It compares a JSON document with a
// golden file, ignoring times.
func scriptCompareJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: cmpjson got want")
	}
	work := ts.Getenv("WORK")
	var docs [2]any
	for i, name := range args {
		text := strings.ReplaceAll(ts.ReadFile(name), work, "$WORK")
		if err := json.Unmarshal([]byte(text), &docs[i]); err != nil {
			ts.Fatalf("%s: %v", name, err)
		}
		docs[i] = maskTimes(docs[i])
	}
	if diff := cmp.Diff(docs[1], docs[0]); diff != "" {
		ts.Fatalf("-want +got\n%s", diff)
	}
}

// maskTimes replaces valid values of fields that differ between runs. It keeps only the rules of
// findings, because package lint tests their texts. It drops the rule dynamic-binary, which depends
// on how this test binary is linked.
func maskTimes(v any) any {
	switch v := v.(type) {
	case map[string]any:
		_, ofVersion := v["goVersion"] // only the version document has it
		for key, value := range v {
			switch {
			case looksLikeTime(key, value), ofVersion && slices.Contains([]string{"goVersion", "platform", "version"}, key):
				v[key] = "*"
			case key == "findings":
				v[key] = ruleNames(value)
			default:
				v[key] = maskTimes(value)
			}
		}
	case []any:
		for i := range v {
			v[i] = maskTimes(v[i])
		}
	}
	return v
}

// looksLikeTime reports whether a field's name is that of a time, and its value is a valid time or "*".
func looksLikeTime(key string, value any) bool {
	text, isText := value.(string)
	switch key {
	case "durationSeconds", "ageSeconds":
		_, isNumber := value.(float64)
		return isNumber || text == "*"
	case "cachedUntil":
		_, err := time.Parse(time.RFC3339, text)
		return isText && (err == nil || text == "*")
	}
	return false
}

// TestWithoutTimes checks that maskTimes does not replace other values.
func TestWithoutTimes(t *testing.T) {
	parse := func(text string) (v any) {
		must.Do(t, json.Unmarshal([]byte(text), &v))
		return maskTimes(v)
	}
	const golden = `{"runtime": {"version": "1.0"}, "platform": "linux/amd64", "hash": "sha256:1", "cachedUntil": "*", "durationSeconds": 1}`
	for doc, want := range map[string]bool{
		strings.ReplaceAll(golden, "*", "2026-11-21T11:48:47Z"):                       true,
		strings.ReplaceAll(golden, "*", "soon"):                                       false,
		strings.ReplaceAll(golden, "1.0", "2.0"):                                      false,
		strings.ReplaceAll(golden, "amd64", "arm64"):                                  false,
		strings.ReplaceAll(golden, "sha256:1", "sha256:2"):                            false,
		strings.ReplaceAll(golden, `"durationSeconds": 1`, `"durationSeconds": "1s"`): false,
	} {
		if got := cmp.Diff(parse(golden), parse(doc)) == ""; got != want {
			t.Errorf("%s: alike %v, want %v", doc, got, want)
		}
	}
}

func ruleNames(findings any) any {
	names := []any{}
	list, _ := findings.([]any)
	for _, f := range list {
		finding, ok := f.(map[string]any)
		if !ok {
			return findings // a golden file's list of names
		}
		if finding["rule"] != "dynamic-binary" {
			names = append(names, finding["rule"])
		}
	}
	return names
}

// scriptStartKubelet is the script command "startkubelet ARG...". It runs a process named kubelet
// in the directory kubelet-dir and sets KUBELET_PID.
func scriptStartKubelet(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("unsupported: ! startkubelet")
	}
	path, err := exec.LookPath("kubelet")
	ts.Check(err)
	cmd := exec.Command(path, args...)
	cmd.Dir = ts.MkAbs("kubelet-dir")
	cmd.Env = []string{"GORACE=" + noRaceSleep, "WHO=kubelet", "HOME=" + ts.MkAbs("kubelet-home"), "SECRET=" + canary.EnvSecret}
	stdin, err := cmd.StdinPipe()
	ts.Check(err)
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		stdin.Close()
		cmd.Wait()
	})
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		ts.Fatalf("kubelet: %v", err)
	}
	ts.Setenv("KUBELET_PID", strconv.Itoa(cmd.Process.Pid))
}
