// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cmd_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/internal/must"
)

// action is the part of action.yml that the test runs.
type action struct {
	Inputs map[string]struct{ Default string }
	Runs   struct {
		Steps []struct {
			Name, Run, Uses, Shell string
			Env                    map[string]string
		}
	}
}

// run runs the action's shell steps as a GitHub runner does. It returns their output
// and the exit code of the first step that fails.
func (a *action) run(t *testing.T, dir, temp string, inputs map[string]string) (out string, code int) {
	t.Helper()
	module := must.Get(filepath.Abs(".."))(t)
	value := func(expression string) string {
		switch name := strings.TrimSpace(strings.Trim(expression, "${}")); {
		case name == "github.action_path":
			return module
		case name == "runner.temp":
			return temp
		case strings.HasPrefix(name, "inputs."):
			input := strings.TrimPrefix(name, "inputs.")
			if v, ok := inputs[input]; ok {
				return v
			}
			return a.Inputs[input].Default
		}
		t.Fatalf("%s is not known", expression)
		return ""
	}
	expressions := regexp.MustCompile(`\$\{\{.*?\}\}`)
	for _, step := range a.Runs.Steps {
		if step.Uses != "" {
			continue
		}
		if expressions.MatchString(step.Run) {
			t.Errorf("%s: an input that stands in a script is a script", step.Name)
		}
		cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run)
		cmd.Dir, cmd.Env = dir, os.Environ()
		for name, text := range step.Env {
			cmd.Env = append(cmd.Env, name+"="+expressions.ReplaceAllStringFunc(text, value))
		}
		said, err := cmd.CombinedOutput()
		out += string(said)
		if exited, ok := errors.AsType[*exec.ExitError](err); ok {
			return out, exited.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return out, 0
}

// TestAction runs the steps of the GitHub action.
func TestAction(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("its scripts are run by the bash that a runner has")
	}
	data := must.Get(os.ReadFile("../action.yml"))(t)
	var a action
	must.Do(t, yaml.Unmarshal(data, &a))
	dir, temp := t.TempDir(), t.TempDir()
	const good = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n" +
		"- {name: good, matchImages: [registry.example], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n"
	for name, text := range map[string]string{
		"good.yaml":     good,
		"a b $(x).yaml": good,
		"bad.yaml":      strings.Replace(good, "1m", "-1m", 1),
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	for _, tt := range []struct {
		name   string
		inputs map[string]string
		code   int
		says   string
	}{
		{"good", map[string]string{"paths": "good.yaml"}, 0, "good.yaml: 1 provider, accepted by kubelet"},
		{"several, with the line ends of Windows", map[string]string{"paths": "good.yaml\r\n\r\na b $(x).yaml\r\n"}, 0, "a b $(x).yaml: 1 provider"},
		{"one is bad", map[string]string{"paths": "good.yaml\nbad.yaml", "sarif-file": "out.sarif"}, 1, "bad.yaml:4:"},
		{"an older kubelet", map[string]string{"paths": "good.yaml", "kubelet-version": "1.25"}, 1, "kubelet 1.25 does not support"},
		{"strict", map[string]string{"paths": "good.yaml", "strict": "true"}, 0, "accepted"},
		{"none", map[string]string{"paths": " \n"[1:]}, 2, "names no file"},
		{"a new directory for the findings", map[string]string{"paths": "good.yaml", "sarif-file": "-new/a b/out.sarif"}, 0, "accepted"},
		{"findings that cannot be written", map[string]string{"paths": "good.yaml", "sarif-file": "good.yaml/out.sarif"}, 1, "good.yaml"},
		{"findings where a directory is", map[string]string{"paths": "good.yaml", "sarif-file": "-new"}, 1, "-new"},
		{"no kubelet", map[string]string{"paths": "good.yaml", "kubelet-version": "new", "sarif-file": "usage.sarif"}, 2, "--kubelet-version"},
		{"no option", map[string]string{"paths": "--help"}, 1, "--help"},
	} {
		out, code := a.run(t, dir, temp, tt.inputs)
		if code != tt.code || !strings.Contains(out, tt.says) {
			t.Errorf("%s: exit code %d, want %d with %q in:\n%s", tt.name, code, tt.code, tt.says, out)
		}
	}
	if sarif, err := os.ReadFile(filepath.Join(dir, "out.sarif")); err != nil || !strings.Contains(string(sarif), `"uri": "bad.yaml"`) {
		t.Errorf("%v in\n%s", err, sarif)
	}
}

// TestPreCommitHooks runs the pre-commit hooks on files with common names.
func TestPreCommitHooks(t *testing.T) {
	data := must.Get(os.ReadFile("../.pre-commit-hooks.yaml"))(t)
	var hooks []struct {
		ID, Name, Description, Entry, Language, Files string
		Types                                         []string `json:"types_or"`
	}
	if err := yaml.UnmarshalStrict(data, &hooks); err != nil || len(hooks) != 2 {
		t.Fatalf("%d hooks, %v", len(hooks), err)
	}
	for _, h := range hooks {
		if h.Entry != "regcred validate" {
			t.Errorf("%s runs %q", h.ID, h.Entry)
		}
		files := regexp.MustCompile(h.Files)
		for name, want := range map[string]bool{
			"nodes/credential-provider-config.yaml": true, "credential_providers/eks.json": true, "credentialproviderconfig.yaml": true, "deploy/app.yaml": false,
		} {
			if files.MatchString(name) != want {
				t.Errorf("%s: %s: want %t", h.ID, name, want)
			}
		}
	}
}
