// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package parity

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/adapter"
	"github.com/regcred/regcred/upstream/generate"
	"github.com/regcred/regcred/upstream/kubelet"
)

// configVerdicts counts the kubelet's results. A test uses it to detect a generator that no longer
// reaches a stage.
type configVerdicts struct{ refused, invalid, valid int }

// checkConfig compares how regcred and the kubelet treat the configuration at path, and reports
// whether they agree.
func checkConfig(t testing.TB, path string, v *configVerdicts) bool {
	want, wantHash, wantErr := kubelet.ReadConfig(path)
	got, err := config.Load(path)
	if wantErr == nil && err != nil && usesInternalVersion(path) {
		return true
	}
	if wantErr == nil && err != nil && strings.Contains(err.Error(), "YAML aliases cannot be checked, because the text after the document") {
		return true // regcred cannot check the aliases because of text that the kubelet ignores
	}
	if err == nil && slices.ContainsFunc(got.Files(), func(f *config.File) bool { return f.APIVersion == plugin.OutOfTree }) {
		// Load also accepts files of the out-of-tree proposal. Like the kubelet, ValidateFor
		// rejects them.
		err = got.ValidateFor(config.Target{KubeletVersion: config.NewestKubelet})
	}
	if (err != nil) != (wantErr != nil) {
		t.Errorf("Load: error %v, the kubelet's %v\n%s", err, wantErr, formatFile(path))
		return false
	}
	if wantErr != nil {
		v.refused++
		return true
	}
	if got.Hash() != wantHash {
		t.Errorf("Hash %q, the kubelet's %q\n%s", got.Hash(), wantHash, formatFile(path))
		return false
	}
	if diff := cmp.Diff(kubelet.Providers(want), adapter.ConvertProviders(got.Providers), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("providers differ (-kubelet +regcred):\n%s\n%s", diff, formatFile(path))
		return false
	}
	wantErr, err = kubelet.Validate(want), got.Validate()
	switch {
	case wantErr != nil:
		v.invalid++
	case slices.ContainsFunc(got.Providers, func(p config.Provider) bool { return p.Name == "" || strings.Contains(p.Name, `\`) }):
		return err != nil // regcred rejects these names, see docs/project/parity.md
	default:
		v.valid++
	}
	if (err != nil) != (wantErr != nil) {
		t.Errorf("Validate: error %v, the kubelet's %v\n%s", err, wantErr, formatFile(path))
		return false
	}
	return true
}

// usesInternalVersion reports whether a file has the kubelet's internal version, which
// regcred rejects.
func usesInternalVersion(path string) bool { return strings.Contains(formatFile(path), "__internal") }

// formatFile returns the files of a configuration. They contain no secrets.
func formatFile(path string) string {
	var b strings.Builder
	filepath.Walk(path, func(p string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			data, _ := os.ReadFile(p)
			fmt.Fprintf(&b, "%s: %q\n", filepath.Base(p), data)
		}
		return nil
	})
	return b.String()
}

func TestConfig(t *testing.T) {
	list := generate.SmallConfigs()
	dir := t.TempDir()
	var v configVerdicts
	runCases(t, 20_000, func(r *rand.Rand) bool {
		c := generate.RandomConfig(r, list)
		at := filepath.Join(dir, "file")
		if c.IsDir {
			at = filepath.Join(dir, "d")
			os.RemoveAll(at)
		}
		path := must.Get(c.Write(at))(t)
		return checkConfig(t, path, &v)
	})
	t.Logf("refused at decoding %d, at validation %d, valid %d", v.refused, v.invalid, v.valid)
	if v.refused < 100 || v.invalid < 100 || v.valid < 100 {
		t.Error("the generator no longer reaches every stage")
	}
}

func writeFile(t testing.TB, path, text string) {
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}

func FuzzConfig(f *testing.F) {
	for _, text := range generate.SmallConfigs() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "config.yaml")
		writeFile(t, path, string(data))
		checkConfig(t, path, &configVerdicts{})
	})
}
