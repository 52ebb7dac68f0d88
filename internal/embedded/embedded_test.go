// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package embedded

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

const config = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders: []\n"

func indent(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+by) + "\n"
}

// TestFind verifies where configurations are found, and that the lines of an exact text are those of
// the file.
func TestFind(t *testing.T) {
	for name, tt := range map[string]struct {
		file string
		want []string
	}{
		"the file itself":     {config, nil},
		"a second document":   {config + "---\na:\n" + indent(config, "  "), nil},
		"not the first":       {"a: b\n---\n" + config, []string{"CredentialProviderConfig 3 exact"}},
		"no configuration":    {"kind: Deployment\n# CredentialProviderConfig\n", nil},
		"a mention":           {"a: a CredentialProviderConfig is a file\nb: |\n  kind of CredentialProviderConfig\n", nil},
		"an object":           {"a:\n  b:\n" + indent(config, "    ") + "  c: d\n", []string{"a.b 3 exact"}},
		"an item":             {"a:\n- " + strings.TrimLeft(indent(config, "  "), " ") + "- x\n", []string{"a[0] 2 exact"}},
		"a comment after":     {"a:\n" + indent(config, "  ") + "# comment\nb: c\n", []string{"a 2 exact"}},
		"without a kind":      {"kubelet:\n  credentialProviderConfig:\n    apiVersion: kubelet.config.k8s.io/v1\n    providers: []\n", []string{"kubelet.credentialProviderConfig 3 exact"}},
		"a flow mapping":      {"{\"a\": {\"b\": {\"kind\": \"CredentialProviderConfig\",\n \"providers\": [\"}\"]}}}\n", []string{"a.b 1 exact"}},
		"a flow mapping, '":   {"a: {b: {kind: CredentialProviderConfig, x: it's, y: '}'}}\n", []string{"a.b 1 exact"}},
		"an anchor":           {"x: &x [1]\na:\n  kind: CredentialProviderConfig\n  providers: *x\n", []string{"a 3"}},
		"a literal":           {"a: |\n" + indent(config, "  ") + "b: c\n", []string{"a 2 exact"}},
		"a stripped literal":  {"a: |-\n" + indent(config, "    ") + "b: c\n", []string{"a 2 exact"}},
		"a folded text":       {"a: >\n" + indent(strings.ReplaceAll(config, "\n", "\n\n"), "  "), []string{"a 1"}},
		"a quoted text":       {fmt.Sprintf("x: y\na: %q\n", config), []string{"a 2"}},
		"a document marker":   {"a: |\n" + indent("---\n"+config, "  "), []string{"a 3 exact"}},
		"Windows line ends":   {strings.ReplaceAll("a: |\n"+indent(config, "  "), "\n", "\r\n"), []string{"a 2 exact"}},
		"a BOM":               {"\ufeffa:\n" + indent(config, "  "), []string{"a 2 exact"}},
		"a literal's literal": {"a: |\n  b: |\n" + indent(config, "    "), []string{"a.b 3 exact"}},
		"two":                 {"a:\n" + indent(config, "  ") + "b: |\n" + indent(config, "  "), []string{"a 2 exact", "b 6 exact"}},
		"a here-document":     {"cat <<-'EOF' > f\n" + config + "EOF\n", []string{"line 2 2 exact"}},
		"an open document":    {"cat <<EOF > f\n" + config, nil},
		"cloud-init in a script": {"x = <<EOT\nwrite_files:\n- path: /f\n  content: |\n" + indent(config, "    ") + "EOT\n",
			[]string{"line 2: write_files[0].content (/f) 5 exact"}},
		"not YAML": {"a: b: c\n" + config, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range Find([]byte(tt.file)) {
				text := fmt.Sprintf("%s %d", c.Where, c.Line)
				if c.Exact {
					text += " exact"
					checkLines(t, tt.file, c)
				}
				got = append(got, text)
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// checkLines verifies that the lines of the configuration are those of the file, except for indentation.
func checkLines(t *testing.T, file string, c Config) {
	t.Helper()
	lines := strings.Split(file, "\n")
	for i, line := range strings.Split(string(c.Text), "\n") {
		if line = strings.TrimSpace(line); line != "" && (i >= len(lines) || !strings.Contains(lines[i], line)) {
			t.Errorf("line %d of the configuration is %q", i+1, line)
		}
	}
}

// TestNotEmbedded verifies that a file that the kubelet rejects is not accepted as one that contains a configuration.
func TestNotEmbedded(t *testing.T) {
	const text = "kind: CredentialProviderConfig\nproviders: []\n"
	for _, file := range []string{text, "---\n---\n" + text, "# x\n---\n" + text, "[{kind: CredentialProviderConfig}]\n"} {
		if got := Find([]byte(file)); len(got) > 0 {
			t.Errorf("%q: %+v", file, got)
		}
	}
}
func FuzzFind(f *testing.F) {
	f.Add([]byte("a: |\n" + indent(config, "  ")))
	f.Add([]byte("a:\n" + indent(config, "  ") + "b: {kind: CredentialProviderConfig}\n"))
	f.Add([]byte("cat <<EOF\n" + config + "EOF\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, c := range Find(data) {
			if c.Line < 1 || c.Line > bytes.Count(data, []byte("\n"))+bytes.Count(data, []byte("\r"))+2 || len(c.Text) == 0 {
				t.Errorf("%q: line %d", c.Where, c.Line)
			}
		}
	})
}

// TestDamagedGzip verifies that a truncated configuration is not taken for a complete one.
func TestDamagedGzip(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	must.Get(w.Write([]byte(config)))(t)
	must.Do(t, w.Close())
	for cut, want := range map[int]int{0: 1, 4: 0, 12: 0} {
		file := "a: " + base64.StdEncoding.EncodeToString(packed.Bytes()[:packed.Len()-cut]) + "\n"
		if got := Find([]byte(file)); len(got) != want {
			t.Errorf("without the last %d bytes: %d configurations, want %d", cut, len(got), want)
		}
	}
}
