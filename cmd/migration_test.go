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

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/lint"
)

const migrationDoc = "../docs/migration.md"

// consoleBlock matches a block of commands, each after a "$ ", with their output.
var consoleBlock = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// TestMigrationCommands runs the commands in docs/migration.md in order in one directory, and
// compares their output with the document. The commands use the ECR plugin and a fake cloud on
// loopback. Files that the document shows are created if they do not exist. With -update, the test
// rewrites the document.
func TestMigrationCommands(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands are those of a Unix shell")
	}
	text := must.Get(os.ReadFile(migrationDoc))(t)
	sh := newDocShell(t)
	got := consoleBlock.ReplaceAllStringFunc(string(text), func(block string) string {
		return "```console\n" + sh.replayBlock(consoleBlock.FindStringSubmatch(block)[1]) + "```"
	})
	if sh.runs < 10 {
		t.Errorf("%d commands were run: has the form of the document changed?", sh.runs)
	}
	if *update {
		must.Do(t, os.WriteFile(migrationDoc, []byte(got), 0o644))
	}
	if diff := cmp.Diff(maskDurations(string(text)), maskDurations(got)); diff != "" && !*update {
		t.Errorf("if that is meant, run the test with -update (-document +run)\n%s", diff)
	}
}

// maskDurations replaces text that differs between runs, such as times.
func maskDurations(s string) string {
	s = regexp.MustCompile(`\b(5h59m[0-9.]+s|6h(0m0s)?)`).ReplaceAllString(s, "LIFE")
	return regexp.MustCompile(`\b[0-9.]+ (µs|ms|s)\b`).ReplaceAllString(s, "SPAN")
}

// docShell runs commands in a directory.
type docShell struct {
	t       *testing.T
	dir     string
	environ []string
	runs    int
}

func newDocShell(t *testing.T) *docShell {
	programs := buildProgramsDir(t)
	cloud := must.Get(testcloud.NewAWS())(t)
	t.Cleanup(cloud.Close)
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	plugin := programPath(programs, "ecr-credential-provider")
	for _, name := range []string{"ecr-creds", "ecr-credential-provider"} {
		must.Do(t, os.Symlink(plugin, filepath.Join(dir, "bin", name)))
	}
	environ := append(cloud.Environ(), "PATH="+programs+string(filepath.ListSeparator)+os.Getenv("PATH"), "TZ=UTC", "TMPDIR="+t.TempDir())
	return &docShell{t: t, dir: dir, environ: environ}
}

// replayBlock runs the commands of a block and returns the block with the new output.
func (sh *docShell) replayBlock(block string) string {
	var out strings.Builder
	for _, part := range regexp.MustCompile(`(?m)^\$ `).Split(block, -1)[1:] {
		command, shown, _ := strings.Cut(part, "\n")
		if name, ok := strings.CutPrefix(command, "cat "); ok {
			sh.writeFile(name, shown)
		}
		out.WriteString("$ " + command + "\n" + sh.run(command))
	}
	return out.String()
}

// writeFile writes a file if it does not exist.
func (sh *docShell) writeFile(name, text string) {
	path := filepath.Join(sh.dir, name)
	if _, err := os.Stat(path); err == nil {
		return
	}
	must.Do(sh.t, os.WriteFile(path, []byte(text), 0o600))
}

// run returns a command's output. The last line is the exit status if it is not 0.
func (sh *docShell) run(command string) string {
	sh.t.Helper()
	sh.runs++
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir, cmd.Env = sh.dir, sh.environ
	out, err := cmd.CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		sh.t.Fatal(err)
	}
	text := strings.ReplaceAll(string(out), sh.dir, "/opt/plugins/..")
	if err != nil {
		text += "(" + err.Error() + ")\n"
	}
	return text
}

// TestMigrationConfigurations checks that a kubelet accepts every configuration in
// docs/migration.md, that lint reports only infos, and that each provider is a plugin
// of this repository.
func TestMigrationConfigurations(t *testing.T) {
	text := must.Get(os.ReadFile(migrationDoc))(t)
	samples := regexp.MustCompile("(?ms)^```yaml\n(apiVersion: kubelet\\.config\\.k8s\\.io/.*?)^```$").FindAllStringSubmatch(string(text), -1)
	seen := map[string]bool{}
	for _, sample := range samples {
		path := filepath.Join(t.TempDir(), "config.yaml")
		must.Do(t, os.WriteFile(path, []byte(sample[1]), 0o600))
		cfg, err := config.Load(path)
		if err == nil {
			err = cfg.ValidateFor(config.Target{KubeletVersion: "1.27"})
		}
		if err != nil {
			t.Error(err)
			continue
		}
		for _, f := range lint.Check(cfg) {
			if f.Severity != finding.SeverityInfo {
				t.Errorf("%s: %s", f.Rule, f.Message)
			}
		}
		for _, p := range cfg.Providers {
			if pluginPages[p.Name] == "" {
				t.Errorf("provider %q is not ours", p.Name)
			}
			seen[p.Name] = true
		}
	}
	for _, name := range []string{"ecr-credential-provider", "auth-provider-gcp", "acr-credential-provider"} {
		if !seen[name] {
			t.Errorf("no configuration has %s", name)
		}
	}
}
