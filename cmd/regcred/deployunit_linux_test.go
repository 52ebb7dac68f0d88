// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testenv"
)

const prepullUnit = "regcred-prepull.service"

// systemdRoot creates a file tree with only the service and a kubelet. systemd does not
// run.
func systemdRoot(t *testing.T, unit string) string {
	t.Helper()
	for _, tool := range []string{"systemctl", "systemd-analyze"} {
		if _, err := exec.LookPath(tool); err != nil {
			testenv.SkipUnlessAvailable(t, "systemd", "%s is not installed: Debian's package systemd has it", tool)
		}
	}
	root := t.TempDir()
	files := map[string]string{
		"/etc/systemd/system/" + prepullUnit:      unit,
		"/usr/lib/systemd/system/kubelet.service": "[Service]\nExecStart=/usr/bin/kubelet\n[Install]\nWantedBy=multi-user.target\n",
		"/usr/local/bin/regcred":                  "#!/bin/sh\n",
		"/usr/bin/kubelet":                        "#!/bin/sh\n",
	}
	for _, target := range []string{"sysinit", "basic", "shutdown", "network-online", "multi-user"} {
		files["/usr/lib/systemd/system/"+target+".target"] = "[Unit]\n"
	}
	for name, text := range files {
		path := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		must.Do(t, os.WriteFile(path, []byte(text), mode))
	}
	if out, err := exec.CommandContext(t.Context(), "systemctl", "--root", root, "enable", prepullUnit).CombinedOutput(); err != nil {
		t.Fatalf("systemctl enable: %v\n%s", err, out)
	}
	return root
}

// systemdAnalyze returns the output of systemd-analyze, which is empty if there is no problem. The exit
// code is not enough, because it is 0 even if systemd-analyze ignores a line.
func systemdAnalyze(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", args...).CombinedOutput()
	if err != nil {
		return string(out) + err.Error()
	}
	return string(out)
}

// TestPrepullUnit checks that systemd accepts every line of the service and orders the service
// before the kubelet. An enabled service must start with the kubelet, but must not block it.
func TestPrepullUnit(t *testing.T) {
	text := readDeploy(t, "systemd/"+prepullUnit)
	root := systemdRoot(t, text)
	if said := systemdAnalyze(t, "verify", "--root="+root, "kubelet.service", prepullUnit); said != "" {
		t.Errorf("systemd-analyze verify:\n%s", said)
	}
	if said := systemdAnalyze(t, "security", "--offline=true", "--threshold=30", "--root="+root, prepullUnit); strings.Contains(said, "exit status") {
		t.Errorf("systemd-analyze security:\n%s", said)
	} else {
		t.Log(said[strings.LastIndex(strings.TrimSpace(said), "\n")+1:])
	}
	wants := filepath.Join(root, "/etc/systemd/system/kubelet.service.wants", prepullUnit)
	if _, err := os.Lstat(wants); err != nil {
		t.Error(err)
	}
	if found, err := filepath.Glob(filepath.Join(root, "/etc/systemd/system/*.requires")); err != nil || len(found) > 0 {
		t.Errorf("the kubelet cannot start without it: %q, %v", found, err)
	}
	for _, line := range []string{"Type=oneshot", "Before=kubelet.service", "RemainAfterExit=yes", "TimeoutStartSec=2min", "NoNewPrivileges=yes", "ProtectSystem=strict"} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("it has no line %s", line)
		}
	}
}

// TestPrepullUnitWrong checks that systemd-analyze detects errors in the service.
func TestPrepullUnitWrong(t *testing.T) {
	text := readDeploy(t, "systemd/"+prepullUnit)
	for _, tt := range []struct{ from, to, want string }{
		{"ProtectHome=", "ProtectHomes=", "Unknown key"},
		{"@system-service", "@system-servant", "system-servant"},
		{"/usr/local/bin/regcred", "/usr/local/bin/regcret", "not executable"},
		{"After=network-online.target", "After=network-online.target kubelet.service", "ordering cycle"},
	} {
		root := systemdRoot(t, strings.Replace(text, tt.from, tt.to, 1))
		if said := systemdAnalyze(t, "verify", "--root="+root, "kubelet.service", prepullUnit); !strings.Contains(said, tt.want) {
			t.Errorf("%s: no %q in %q", tt.to, tt.want, said)
		}
	}
}

// TestPrepullUnitGeneration checks that the service's flags use the providers that
// install has configured.
func TestPrepullUnitGeneration(t *testing.T) {
	root := systemdRoot(t, readDeploy(t, "systemd/"+prepullUnit))
	must.Do(t, os.MkdirAll(filepath.Join(root, "var/lib"), 0o755))
	program := must.Get(os.ReadFile(os.Args[0]))(t)
	dir := t.TempDir()
	plugin, dispatcher := filepath.Join(dir, "static-credential-provider"), filepath.Join(dir, "regcred-credential-provider")
	for _, path := range []string{plugin, dispatcher} {
		must.Do(t, os.WriteFile(path, program, 0o755))
	}
	if code, out, errOut := runApp(t, "install", "--root", root, deployDir+"packer/node.yaml", "--plugin", plugin, "--dispatcher", dispatcher); code != exitOK {
		t.Fatalf("exit code %d\n%s%s", code, out, errOut)
	}
	flags := strings.Fields(prepullUnitFlags(readDeploy(t, "systemd/"+prepullUnit)))
	if len(flags) != 4 || flags[0] != "--config" || flags[2] != "--bin-dir" {
		t.Fatalf("its flags are %q", flags)
	}
	if code, out, errOut := runApp(t, "validate", filepath.Join(root, flags[1]), "--bin-dir", filepath.Join(root, flags[3])); code != exitOK {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
}
