// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package node

import (
	or "cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
)

const (
	etc = "/etc/systemd/system/kubelet.service"
	run = "/run/systemd/system/kubelet.service"
	usr = "/usr/lib/systemd/system/kubelet.service"

	providerFlagArgs = "--image-credential-provider-config=/c --image-credential-provider-bin-dir=/b"
	otherFlagArgs    = "--image-credential-provider-config=/other --image-credential-provider-bin-dir=/other"
)

// TestUnits verifies that findLocation returns the flags that systemd would pass to the
// kubelet.
func TestUnits(t *testing.T) {
	service := func(lines ...string) string { return "[Service]\n" + strings.Join(lines, "\n") + "\n" }
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string // paths of the configuration and the bin dir; "" if not found
		err   string
	}{
		{name: "ExecStart", files: map[string]string{usr: service("ExecStart=/usr/bin/kubelet " + providerFlagArgs)}, want: "/c /b"},
		{name: "separate words", files: map[string]string{usr: service("ExecStart=/usr/bin/kubelet " + strings.ReplaceAll(providerFlagArgs, "=", " "))}, want: "/c /b"},
		{name: "continued, with comments between", files: map[string]string{usr: "[Service]\nExecStart=/usr/bin/kubelet \\\n  # " + otherFlagArgs + "\n" + strings.ReplaceAll(providerFlagArgs, " ", " \\\n\t") + " \\\n  --v=2\n"}, want: "/c /b"},
		{name: "commented out", files: map[string]string{usr: service("#ExecStart=/usr/bin/kubelet "+providerFlagArgs, "; ExecStart=kubelet "+providerFlagArgs, "ExecStart=/usr/bin/kubelet")}},
		{name: "another section", files: map[string]string{usr: "[Unit]\nExecStart=/usr/bin/kubelet " + providerFlagArgs + "\n[Service]\nExecStart=/usr/bin/kubelet\n"}},
		{name: "etc over run over usr", files: map[string]string{usr: service("ExecStart=kubelet " + otherFlagArgs), run: service("ExecStart=kubelet " + otherFlagArgs), etc: service("ExecStart=kubelet " + providerFlagArgs)}, want: "/c /b"},
		{name: "run over usr", files: map[string]string{usr: service("ExecStart=kubelet " + otherFlagArgs), run: service("ExecStart=kubelet " + providerFlagArgs)}, want: "/c /b"},
		{name: "a drop-in that resets", files: map[string]string{usr: service("ExecStart=kubelet " + otherFlagArgs), etc + ".d/10.conf": service("ExecStart=", "ExecStart=kubelet "+providerFlagArgs)}, want: "/c /b"},
		{name: "a drop-in that only resets", files: map[string]string{usr: service("ExecStart=kubelet " + otherFlagArgs), etc + ".d/10.conf": service("ExecStart=")}},
		{name: "drop-ins by name, wherever they are", files: map[string]string{usr: service("ExecStart=kubelet $A"), etc + ".d/10.conf": service(`Environment="A=` + otherFlagArgs + `"`), usr + ".d/20.conf": service(`Environment="A=` + providerFlagArgs + `"`)}, want: "/c /b"},
		{name: "a drop-in hides one of the same name", files: map[string]string{usr: service("ExecStart=kubelet " + providerFlagArgs), usr + ".d/10.conf": service("ExecStart=", "ExecStart=kubelet "+otherFlagArgs), etc + ".d/10.conf": "# nothing\n"}, want: "/c /b"},
		{
			name: "kubeadm", want: "/c /b",
			files: map[string]string{
				usr: service("ExecStart=/usr/bin/kubelet"),
				usr + ".d/10-kubeadm.conf": service(`Environment="KUBELET_KUBECONFIG_ARGS=--kubeconfig=/k"`, "EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env", "EnvironmentFile=-/etc/default/kubelet",
					"ExecStart=", "ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS"),
				"/var/lib/kubelet/kubeadm-flags.env": `KUBELET_KUBEADM_ARGS="` + otherFlagArgs + `"`,
				"/etc/default/kubelet":               `KUBELET_EXTRA_ARGS="` + providerFlagArgs + `"`,
			},
		},
		{
			// The kubelet packages include an empty KUBELET_EXTRA_ARGS=.
			name: "a file wins over Environment", files: map[string]string{
				usr:                    service("EnvironmentFile=-/etc/default/kubelet", "ExecStart=kubelet $KUBELET_EXTRA_ARGS"),
				etc + ".d/30.conf":     service(`Environment="KUBELET_EXTRA_ARGS=` + providerFlagArgs + `"`),
				"/etc/default/kubelet": "KUBELET_EXTRA_ARGS=\n",
			},
		},
		{name: "a file that the unit does not read", files: map[string]string{usr: service("ExecStart=kubelet"), "/etc/default/kubelet": "X=" + providerFlagArgs}},
		{name: "a file that is not there", files: map[string]string{usr: service("EnvironmentFile=-/none", "ExecStart=kubelet "+providerFlagArgs)}, want: "/c /b"},
		{name: "files taken back", files: map[string]string{usr: service("EnvironmentFile=/env", "EnvironmentFile=", "ExecStart=kubelet $A"), "/env": "A=" + providerFlagArgs}},
		{name: "files by pattern", files: map[string]string{usr: service("EnvironmentFile=/env.d/*.env", "ExecStart=kubelet $A $B"), "/env.d/1.env": "A=" + strings.Fields(providerFlagArgs)[0], "/env.d/2.env": "B=" + strings.Fields(providerFlagArgs)[1]}, want: "/c /b"},
		{name: "a quoted variable", files: map[string]string{usr: service(`Environment="A=`+providerFlagArgs+`"`, `ExecStart=kubelet "$A"`)}, want: "/c /b"}, // kOps quotes the variable
		{name: "in braces it is one word", files: map[string]string{usr: service(`Environment="A=`+providerFlagArgs+`"`, `ExecStart=kubelet --v=${A}`)}},
		{name: "in braces as a value", files: map[string]string{usr: service(`Environment=C=/c B=/b`, `ExecStart=kubelet --image-credential-provider-config=${C} --image-credential-provider-bin-dir=${B}`)}, want: "/c /b"},
		{name: "within a word, without braces", files: map[string]string{usr: service(`Environment=C=/x`, `ExecStart=kubelet --image-credential-provider-config=/c$C --image-credential-provider-bin-dir=/b$$`)}, want: "/c$C /b$"},
		{name: "no variables", files: map[string]string{usr: service(`Environment="A=`+otherFlagArgs+`"`, `ExecStart=-:kubelet `+providerFlagArgs+` $A`)}, want: "/c /b"},
		{name: "quotes and escapes", files: map[string]string{usr: service(`ExecStart=kubelet "--image-credential-provider-config=/a b/c" '--image-credential-provider-bin-dir=/b\x2fb'`)}, want: "/a b/c /b/b"},
		{name: "per cent", files: map[string]string{usr: service(`ExecStart=kubelet --image-credential-provider-config=/c%%c --image-credential-provider-bin-dir=/b`)}, want: "/c%c /b"},
		{name: "by a shell", files: map[string]string{usr: service(`ExecStart=/bin/sh -c 'exec kubelet ` + providerFlagArgs + `'`)}, want: "/c /b"},
		{name: "the last wins", files: map[string]string{usr: service(`ExecStart=kubelet ` + otherFlagArgs + ` ` + providerFlagArgs)}, want: "/c /b"},
		{name: "without systemd", files: map[string]string{"/etc/default/kubelet": "X=" + providerFlagArgs}, want: "/c /b"},
		{name: "no end of line, and a line that goes on", files: map[string]string{usr: "[Service]\nExecStart=kubelet " + providerFlagArgs + ` \`}, want: "/c /b"},
		{name: "quotes that do not end", files: map[string]string{usr: service(`ExecStart=kubelet "` + providerFlagArgs)}, err: "the kubelet flags in ROOT" + usr + " include --" + configFlag + " but not --" + binDirFlag + ", so the kubelet does not start"},
		{name: "one of both", files: map[string]string{usr: service(`ExecStart=kubelet --image-credential-provider-bin-dir=/b`)}, err: "the kubelet flags in ROOT" + usr + " include --" + binDirFlag + " but not --" + configFlag + ", so the kubelet does not start"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := newRoot(t, tt.files)
			loc, unread, err := Node{Root: root}.NewReader().findLocation(t.Context())
			got := ""
			if loc != nil {
				got = strings.ReplaceAll(loc.config+" "+loc.binDir, root, "")
				for name := range tt.files {
					// A user who can change one of these files can also change the flags.
					if strings.Contains(loc.name, name) && !slices.Contains(loc.sourceFiles, filepath.Join(root, name)) {
						t.Errorf("%s is not among %v", name, loc.sourceFiles)
					}
				}
			}
			if got != tt.want || len(unread) > 0 || strings.ReplaceAll(fmt.Sprint(err), root, "ROOT") != or.Or(tt.err, "<nil>") {
				t.Errorf("got %q, unread %v, %v, want %q, %s", got, unread, err, tt.want, tt.err)
			}
		})
	}
}

// TestMaskedUnit verifies that a unit that is a symlink to /dev/null is masked, so that its
// flags are ignored.
func TestMaskedUnit(t *testing.T) {
	root := newRoot(t, map[string]string{usr: "[Service]\nExecStart=kubelet " + providerFlagArgs, etc + ".d/x": ""})
	must.Do(t, os.Symlink("/dev/null", filepath.Join(root, etc)))
	if loc, _, _ := (Node{Root: root}).NewReader().findLocation(t.Context()); loc != nil {
		t.Errorf("got %+v", loc)
	}
}

func TestSplitWords(t *testing.T) {
	for text, want := range map[string][]string{
		"":                       nil,
		"  a\tb ":                {"a", "b"},
		`a"b c"d 'e f' "" g`:     {"ab cd", "e f", "", "g"},
		`a\ b \"c\s`:             {`a\ b`, `"c `},
		`"it's" 'a "b"'`:         {"it's", `a "b"`},
		`\x41\u00e4\101 \q end\`: {"AäA", `\q`, `end\`},
	} {
		if diff := cmp.Diff(want, splitWords(text)); diff != "" {
			t.Errorf("%q: -want +got\n%s", text, diff)
		}
	}
}

// FuzzUnit verifies that parsing terminates for every unit and environment file.
func FuzzUnit(f *testing.F) {
	f.Add("[Service]\nExecStart=kubelet $A ${A} \\\n#\n", "A=\"x\" 'y\n")
	f.Fuzz(func(t *testing.T, unit, env string) {
		var s systemdUnit
		s.parseText(unit, "")
		for _, exec := range s.execs {
			effectiveFlags(splitShellWords(wordTexts(commandWords(&s, exec, parseEnvironmentFile(env, "")))))
		}
	})
}
