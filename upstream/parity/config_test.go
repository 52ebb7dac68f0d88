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
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/kubelet"
)

var configScraps = []string{
	"\n", ": ", "- ", "  ", "\t", "\r", "#", "---\n", "...\n", "\ufeff", "\"", "'", "[", "]", "{", "}", ",", "null", "~", "yes", "no", "0", "1", "1.5", "1h", "-1s", "0s",
	"&a ", "*a", "<<: ", "!!str ", "|", ">", "? ", "% ", "@", "`", "\\", "/", "..", "*.io", "%zz", "https://", "name", "matchImages", "defaultCacheDuration", "apiVersion", "kind",
	"env", "args", "tokenAttributes", "cacheType", "Token", "ServiceAccount", "v1", "v1beta1", "v1alpha1", "\x00", "\xff", "é", "\u2028", "\\u0061", "extra: 1\n", "\"extra\":1,",
}

// plainProviders is kubelet.Providers of regcred's types.
func plainProviders(list []config.Provider) []kubelet.Provider {
	var out []kubelet.Provider
	for _, p := range list {
		q := kubelet.Provider{Name: p.Name, MatchImages: p.MatchImages, CacheDuration: p.DefaultCacheDuration, APIVersion: p.APIVersion}
		for _, a := range p.Args {
			q.Args = append(q.Args, a.Reveal())
		}
		for _, e := range p.Env {
			q.Env = append(q.Env, kubelet.EnvVar{Name: e.Name, Value: e.Value.Reveal()})
		}
		if a := p.TokenAttributes; a != nil {
			q.TokenAttributes = &kubelet.TokenAttributes{
				Audience: a.ServiceAccountTokenAudience, CacheType: string(a.CacheType), Require: a.RequireServiceAccount,
				Required: a.RequiredServiceAccountAnnotationKeys, Optional: a.OptionalServiceAccountAnnotationKeys,
			}
		}
		out = append(out, q)
	}
	return out
}

// verdicts counts how the kubelet judged, so that a generator that no longer
// reaches a stage is noticed.
type verdicts struct{ refused, invalid, valid int }

// checkConfig compares what both make of the configuration at path.
func checkConfig(t testing.TB, path string, v *verdicts) bool {
	want, wantHash, wantErr := kubelet.ReadConfig(path)
	got, err := config.Load(path)
	if wantErr == nil && err != nil && internalVersion(path) {
		return true
	}
	if wantErr == nil && err != nil && strings.Contains(err.Error(), "it has YAML aliases, and behind the document something without a mark") {
		return true // What they expand to is hidden by what the kubelet ignores.
	}
	if err == nil && slices.ContainsFunc(got.Files(), func(f *config.File) bool { return f.APIVersion == plugin.OutOfTree }) {
		// The predecessor's form, which regcred reads for itself alone.
		err = got.ValidateFor(config.Target{KubeletVersion: config.NewestKubelet})
	}
	if (err != nil) != (wantErr != nil) {
		t.Errorf("Load: error %v, the kubelet's %v\n%s", err, wantErr, dump(path))
		return false
	}
	if wantErr != nil {
		v.refused++
		return true
	}
	if got.Hash() != wantHash {
		t.Errorf("Hash %q, the kubelet's %q\n%s", got.Hash(), wantHash, dump(path))
		return false
	}
	if diff := cmp.Diff(kubelet.Providers(want), plainProviders(got.Providers), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("providers differ (-kubelet +regcred):\n%s\n%s", diff, dump(path))
		return false
	}
	wantErr, err = kubelet.Validate(want), got.Validate()
	switch {
	case wantErr != nil:
		v.invalid++
	case slices.ContainsFunc(got.Providers, func(p config.Provider) bool { return p.Name == "" || strings.Contains(p.Name, `\`) }):
		return err != nil // names that regcred refuses, see docs/parity.md
	default:
		v.valid++
	}
	if (err != nil) != (wantErr != nil) {
		t.Errorf("Validate: error %v, the kubelet's %v\n%s", err, wantErr, dump(path))
		return false
	}
	return true
}

// internalVersion reports whether a file is in the kubelet's internal version
// of the format, which regcred refuses.
func internalVersion(path string) bool { return strings.Contains(dump(path), "__internal") }

// dump returns the files of a configuration. The generator plants no secrets.
func dump(path string) string {
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

// small returns the contents of the corpus' single files below 2 KB: the
// large ones are in the vectors already, and slow.
func small() (out []string) {
	for _, c := range corpus.Configs() {
		if !c.IsDir && len(c.Files[0].Content) < 2000 && c.Files[0].Content != "" && c.Name != "bomb" {
			out = append(out, string(c.Files[0].Content))
		}
	}
	return out
}

// configText makes a file field by field, or takes one of the corpus and
// crosses it with the lines of another or changes some bytes.
func configText(r *rand.Rand, list []string) string {
	if one(r, 2) {
		text := structured(r)
		if one(r, 8) {
			text = mutate(r, text, configScraps)
		}
		return text
	}
	text := pick(r, list)
	switch r.IntN(4) {
	case 0:
		lines, other := strings.SplitAfter(text, "\n"), strings.SplitAfter(pick(r, list), "\n")
		at, from := r.IntN(len(lines)), r.IntN(len(other))
		lines = slices.Insert(lines, at, other[from:]...)
		text = strings.Join(lines, "")
	case 1:
		lines := strings.SplitAfter(text, "\n")
		at := r.IntN(len(lines))
		text = strings.Join(slices.Delete(lines, at, at+1), "")
	case 2:
		return text
	}
	if one(r, 2) {
		text = mutate(r, text, configScraps)
	}
	return text
}

func TestConfig(t *testing.T) {
	list := small()
	dir := t.TempDir()
	names := []string{"a.yaml", "b.yml", "c.json", ".d.yaml", "e.txt", "Z.yaml", "10.yaml", "9.yaml"}
	var v verdicts
	cases(t, 20_000, func(r *rand.Rand) bool {
		path := filepath.Join(dir, "config.yaml")
		if one(r, 3) {
			path = filepath.Join(dir, "d")
			os.RemoveAll(path)
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
			for i, at := range r.Perm(len(names))[:1+r.IntN(3)] {
				// Other names, lest most directories be refused for one that occurs twice.
				text := strings.ReplaceAll(configText(r, list), "one", fmt.Sprintf("one%d", i))
				write(t, filepath.Join(path, names[at]), text)
			}
		} else {
			write(t, path, configText(r, list))
		}
		return checkConfig(t, path, &v)
	})
	t.Logf("refused at decoding %d, at validation %d, valid %d", v.refused, v.invalid, v.valid)
	if v.refused < 100 || v.invalid < 100 || v.valid < 100 {
		t.Error("the generator no longer reaches every stage")
	}
}

func write(t testing.TB, path, text string) {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func FuzzConfig(f *testing.F) {
	for _, text := range small() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "config.yaml")
		write(t, path, string(data))
		checkConfig(t, path, &verdicts{})
	})
}
