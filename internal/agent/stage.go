// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/regularfile"
)

// Names of what is handed over to the node, below Work.
const (
	handedOver  = "host"
	configDir   = "config"
	redactedDir = "redacted" // the configuration without the values of args and env
	pluginDir   = "bin"

	regcredName    = "regcred"
	dispatcherName = "regcred-credential-provider"
)

// stage hands over to the node what it is to be given.
type stage struct {
	*Options
	cfg *config.Config // nil if it cannot be read
}

// dir is a directory that is handed over.
func (s *stage) dir(name string) string { return filepath.Join(s.Work, handedOver, name) }

// loadStage reads the configuration. Without one regcred itself can be handed over.
func loadStage(o *Options) (*stage, error) {
	cfg, err := config.Load(o.Config)
	if err != nil {
		return &stage{o, nil}, fmt.Errorf("the configuration in ConfigMap %s: %w", o.Revision, err)
	}
	return &stage{o, cfg}, nil
}

// sum tells one install from another: by what the chart says and the configuration.
func (s *stage) sum() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q", s.Revision, s.Install.args())
	for _, f := range s.cfg.Files() {
		fmt.Fprintf(h, "%q %q", f.Name, f.Data())
	}
	return hex.EncodeToString(h.Sum(nil))
}

// put brings everything into place, each file whole or not at all.
func (s *stage) put(ctx context.Context) error {
	if err := s.putRegcred(ctx); err != nil {
		return err
	}
	wanted := []string{}
	for i := range s.cfg.Providers {
		name := s.cfg.Providers[i].Name
		if slices.Contains(wanted, name) {
			continue // what the node's regcred refuses, in better words
		}
		if err := config.CheckName(name); err != nil {
			return fmt.Errorf("the configuration in ConfigMap %s: provider %q: %w", s.Revision, name, err)
		}
		from, err := s.plugin(name)
		if err == nil {
			err = putExecutable(ctx, from, filepath.Join(s.dir(pluginDir), name))
		}
		if err != nil {
			return err
		}
		wanted = append(wanted, name)
	}
	if err := only(s.dir(pluginDir), wanted); err != nil {
		return err
	}
	return s.putConfig(configDir, func(f *config.File) ([]byte, error) { return f.Data(), nil })
}

// putRegcred hands over regcred itself, which is enough to look at the node.
func (s *stage) putRegcred(ctx context.Context) error {
	for _, dir := range []string{s.dir(""), s.dir(pluginDir), s.dir(configDir)} {
		if err := makeDir(dir); err != nil {
			return err
		}
	}
	if err := putExecutable(ctx, s.Executable, s.dir(regcredName)); err != nil {
		return err
	}
	return putExecutable(ctx, s.Dispatcher, s.dir(dispatcherName))
}

// putRedacted hands over a configuration that has no values of args and env. It is
// for a node that is asked what it wants in place of a change.
func (s *stage) putRedacted() error {
	if err := makeDir(s.dir(redactedDir)); err != nil {
		return err
	}
	return s.putConfig(redactedDir, redacted)
}

func (s *stage) putConfig(dir string, content func(*config.File) ([]byte, error)) error {
	wanted := []string{}
	for _, f := range s.cfg.Files() {
		name := filepath.Base(f.Name)
		if ext := filepath.Ext(name); ext != ".json" && ext != ".yaml" && ext != ".yml" {
			name += ".yaml" // or else it is passed over in a directory; JSON is YAML
		}
		data, err := content(f)
		if err == nil {
			err = putFile(filepath.Join(s.dir(dir), name), data)
		}
		if err != nil {
			return err
		}
		wanted = append(wanted, name)
	}
	return only(s.dir(dir), wanted)
}

// redacted is a file of a configuration with [redacted] for each value of args and
// env, and without comments.
func redacted(f *config.File) ([]byte, error) {
	text, _ := f.Document()
	var doc map[string]any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%s: it cannot be shown without its secrets", f.Name)
	}
	const none = "REDACTED"
	providers, _ := doc["providers"].([]any)
	for _, p := range providers {
		p, _ := p.(map[string]any)
		args, _ := p["args"].([]any)
		for i := range args {
			args[i] = none
		}
		env, _ := p["env"].([]any)
		for _, v := range env {
			if v, ok := v.(map[string]any); ok {
				v["value"] = none
			}
		}
		delete(p, "extraArgs") // of the predecessor
	}
	return yaml.Marshal(doc)
}

// plugin is where the executable of a provider is in this pod: one that was copied
// from an image of others goes before that of this image.
func (s *stage) plugin(name string) (string, error) {
	for _, dir := range []string{s.Plugins, s.ImagePlugins} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); dir != "" && !errors.Is(err, fs.ErrNotExist) {
			return path, err
		}
	}
	return "", fmt.Errorf("provider %q of the configuration (ConfigMap %s) has no executable of its name: no image of the chart's values for plugins has brought one (%s has %s), and regcred's own image has none (%s has %s)",
		name, s.Revision, s.Plugins, listOf(s.Plugins), s.ImagePlugins, listOf(s.ImagePlugins))
}

// listOf names what is in a directory.
func listOf(dir string) string {
	list, err := os.ReadDir(dir)
	if len(list) == 0 || err != nil {
		return "nothing"
	}
	const most = 20
	var names []string
	for _, e := range list[:min(len(list), most)] {
		names = append(names, e.Name())
	}
	if len(list) > most {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}

func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return sweep(dir)
}

// sweep removes what a write has left that was killed.
func sweep(dir string) error {
	list, err := os.ReadDir(dir)
	for _, e := range list {
		if inroot.IsTemporary(e.Name()) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// only removes from a directory what is not wanted there.
func only(dir string, wanted []string) error {
	list, err := os.ReadDir(dir)
	for _, e := range list {
		if !slices.Contains(wanted, e.Name()) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// putFile writes a file that has secrets.
func putFile(to string, data []byte) error {
	if now, err := os.ReadFile(to); err == nil && bytes.Equal(now, data) {
		return nil
	}
	return inroot.FS{}.Put(to, bytes.NewReader(data), inroot.Attr{Mode: 0o600})
}

// putExecutable copies an executable, unless it is there already.
func putExecutable(ctx context.Context, from, to string) error {
	file, err := regularfile.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	if same, err := sameContent(file, to); same || err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return inroot.FS{}.Put(to, ending{ctx, file}, inroot.Attr{Mode: 0o755})
}

// sameContent reports whether an executable is a copy of a file.
func sameContent(file *os.File, name string) (bool, error) {
	other, err := regularfile.Open(name)
	if err != nil {
		return false, nil // whatever is there is replaced
	}
	defer other.Close()
	a, errA := file.Stat()
	b, errB := other.Stat()
	if errA != nil || errB != nil || a.Size() != b.Size() || b.Mode().Perm() != 0o755 {
		return false, nil
	}
	x, y := make([]byte, 1<<16), make([]byte, 1<<16)
	for {
		n, err := io.ReadFull(file, x)
		m, _ := io.ReadFull(other, y)
		switch {
		case n != m || !bytes.Equal(x[:n], y[:m]):
			return false, nil
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return true, nil
		case err != nil:
			return false, err
		}
	}
}

// ending is a reader that ends with a context.
type ending struct {
	ctx context.Context
	r   io.Reader
}

func (e ending) Read(p []byte) (int, error) {
	if err := e.ctx.Err(); err != nil {
		return 0, err
	}
	return e.r.Read(p)
}
