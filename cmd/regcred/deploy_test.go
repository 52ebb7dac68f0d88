// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testenv"
)

// These tests check the files in deploy/, which users copy to their nodes.

const deployDir = "../../deploy/"

func readDeploy(t *testing.T, name string) string {
	t.Helper()
	data := must.Get(os.ReadFile(deployDir + name))(t)
	return string(data)
}

// cloudConfig holds the cloud-init modules that the user data uses.
type cloudConfig struct {
	WriteFiles []struct{ Path, Content string } `yaml:"write_files"`
	RunCmd     []string                         `yaml:"runcmd"` // scripts
}

// userData is the user data for a node's first boot.
type userData struct {
	name    string
	files   map[string]string // by path
	scripts []string
}

// readUserData reads the user data in deploy/cloud-init, including multipart files.
func readUserData(t *testing.T) (list []userData) {
	t.Helper()
	entries := must.Get(os.ReadDir(deployDir + "cloud-init"))(t)
	for _, e := range entries {
		u := userData{name: e.Name(), files: map[string]string{}}
		text := readDeploy(t, "cloud-init/"+e.Name())
		parts := map[string]string{"text/cloud-config": text}
		if filepath.Ext(e.Name()) == ".mime" {
			parts = readParts(t, text)
		}
		for kind, part := range parts {
			switch kind {
			case "text/cloud-config":
				u.cloudConfig(t, part)
			case "text/x-shellscript":
				u.scripts = append(u.scripts, part)
			case "application/node.eks.aws":
				decodeYAML(t, e.Name(), part, &map[string]any{})
			default:
				t.Errorf("%s: a part of type %q", e.Name(), kind)
			}
		}
		list = append(list, u)
	}
	return list
}

// readParts parses a multipart message as cloud-init and nodeadm do (amazon-eks-ami,
// nodeadm/internal/configprovider/mime.go).
func readParts(t *testing.T, text string) map[string]string {
	t.Helper()
	m := must.Get(mail.ReadMessage(strings.NewReader(text)))(t)
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{}
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		p, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return parts
		}
		if err != nil {
			t.Fatal(err)
		}
		data := must.Get(io.ReadAll(p))(t)
		parts[p.Header.Get("Content-Type")] = string(data)
	}
}

func (u *userData) cloudConfig(t *testing.T, text string) {
	t.Helper()
	if !strings.HasPrefix(text, "#cloud-config\n") {
		t.Errorf("%s: cloud-init does not take it for a cloud-config", u.name)
	}
	var c cloudConfig
	decodeYAML(t, u.name, text, &c)
	for _, f := range c.WriteFiles {
		u.files[f.Path] = f.Content
	}
	u.scripts = append(u.scripts, c.RunCmd...)
}

// decodeYAML decodes a YAML document into a value. It reports unknown fields as errors.
func decodeYAML(t *testing.T, name, text string, into any) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// TestUserData checks that user data has a valid configuration, a valid list for
// prepull, and one script, which stops at the first error and starts the kubelet last.
func TestUserData(t *testing.T) {
	starts := map[string]string{"kubeadm.yaml": "kubeadm join ", "k3s.yaml": "systemctl start k3s-agent", "eks-al2023.mime": "systemctl enable regcred-prepull.service"}
	list := readUserData(t)
	if len(list) != len(starts) {
		t.Errorf("%d files, want %d", len(list), len(starts))
	}
	for _, u := range list {
		t.Run(u.name, func(t *testing.T) {
			checkNodeConfig(t, u.files["/etc/regcred/node.yaml"])
			if images, ok := u.files["/etc/regcred/prepull.list"]; ok {
				checkImageList(t, images)
			}
			if len(u.scripts) != 1 {
				t.Fatalf("%d scripts, want one", len(u.scripts))
			}
			lines := strings.Split(strings.TrimSpace(u.scripts[0]), "\n")
			if !slices.Contains(lines, "set -eu") || !strings.HasPrefix(lines[len(lines)-1], starts[u.name]) {
				t.Errorf("it does not end on failures, or with %q:\n%s", starts[u.name], u.scripts[0])
			}
			checkShell(t, u.scripts[0])
		})
	}
}

func checkShell(t *testing.T, script string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		return
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-n")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("sh -n: %v\n%s", err, out)
	}
}

// checkNodeConfig validates a configuration with all plugins present.
func checkNodeConfig(t *testing.T, text string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "node.yaml")
	name := "static-credential-provider"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	for path, text := range map[string]string{file: text, filepath.Join(dir, name): "#!/bin/sh\n"} {
		must.Do(t, os.WriteFile(path, []byte(text), 0o700))
	}
	if code, out, errOut := runApp(t, "validate", "--bin-dir", dir, file); code != exitOK {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
}

func checkImageList(t *testing.T, list string) {
	t.Helper()
	if images, err := readImages(t.Context(), "-", strings.NewReader(list)); err != nil || len(images) == 0 {
		t.Errorf("%d images, %v", len(images), err)
	}
}

// TestCloudInitSchema validates the user data with cloud-init.
func TestCloudInitSchema(t *testing.T) {
	program, err := exec.LookPath("cloud-init")
	if err != nil {
		testenv.SkipUnlessAvailable(t, "cloud-init", "cloud-init is not installed: Debian's package of that name has it")
	}
	for _, name := range []string{"kubeadm.yaml", "k3s.yaml"} {
		if out, err := exec.CommandContext(t.Context(), program, "schema", "--config-file", deployDir+"cloud-init/"+name).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// TestPackerFiles validates the files next to the Packer template.
func TestPackerFiles(t *testing.T) {
	checkNodeConfig(t, readDeploy(t, "packer/node.yaml"))
	checkImageList(t, readDeploy(t, "packer/prepull.list"))
}

// TestPackerTemplate validates the template with Packer, without Packer plugins.
func TestPackerTemplate(t *testing.T) {
	program, err := exec.LookPath("packer")
	if err != nil {
		testenv.SkipUnlessAvailable(t, "packer", "packer is not installed; it has to be 1.7 or later, and Debian 12 has 1.6")
	}
	for _, args := range [][]string{{"fmt", "-check", "-diff"}, {"validate", "-syntax-only"}} {
		cmd := exec.CommandContext(t.Context(), program, append(args, ".")...)
		cmd.Dir = deployDir + "packer"
		cmd.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1", "HOME="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("packer %q: %v\n%s", args, err, out)
		}
	}
}

// TestDeployCommands checks that the regcred commands in deploy/ exist and accept their
// flags and arguments.
func TestDeployCommands(t *testing.T) {
	var files []string
	for _, glob := range []string{"*/*", "chart/templates/*", "../docs/node-images.md"} {
		found := must.Get(filepath.Glob(deployDir + glob))(t)
		files = append(files, slices.DeleteFunc(found, isDir)...)
	}
	// A command is at the beginning of a line, a string or a value, or follows another command and
	// "&&".
	command := regexp.MustCompile(`(?m)(?:^|["=]|&& )\s*(?:\$ )?(?:sudo )?(?:\./|/usr/local/bin/)?regcred ([a-z][^"|&#\n]*)`)
	commands := 0
	for _, file := range files {
		data := must.Get(os.ReadFile(file))(t)
		text := strings.ReplaceAll(string(data), "$REGCRED_PREPULL_FLAGS", prepullUnitFlags(string(data)))
		for _, m := range command.FindAllStringSubmatch(text, -1) {
			commands++
			if err := acceptsCommand(strings.Fields(m[1])); err != nil {
				t.Errorf("%s: regcred %s: %v", strings.TrimPrefix(file, "../../"), m[1], err)
			}
		}
	}
	if commands < 6 {
		t.Errorf("%d commands found, want more: are they written in another way?", commands)
	}
	for _, wrong := range [][]string{{"none"}, {"prepull", "--none", "x"}, {"prepull"}, {"prepull", "x", "-f", "y"}} {
		if acceptsCommand(wrong) == nil {
			t.Errorf("regcred %q counts as a command", wrong)
		}
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// prepullUnitFlags returns the flags that the service passes to prepull, or "" for other
// files.
func prepullUnitFlags(text string) string {
	_, flags, _ := strings.Cut(text, `"REGCRED_PREPULL_FLAGS=`)
	flags, _, _ = strings.Cut(flags, `"`)
	return flags
}

// acceptsCommand returns an error if regcred does not accept a command line. It does not run the
// command.
func acceptsCommand(args []string) error {
	root := (&app{}).rootCmd()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if cmd == root {
		return fmt.Errorf("there is no command %q", args[0])
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}
