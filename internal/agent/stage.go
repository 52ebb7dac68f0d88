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

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/executable"
	"github.com/regcred/regcred/internal/hostrun"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/regularfile"
)

// Names of files that are shared with the node, below Work.
const (
	sharedDir = "host"
	configDir = "config"
	pluginDir = "bin"

	regcredName    = "regcred"
	dispatcherName = "regcred-credential-provider"
)

// sharedFiles copies the files that regcred uses on the node.
type sharedFiles struct {
	*Options
	cfg *config.Config // nil if it cannot be read
}

// filePath returns the path of a shared file.
func (s *sharedFiles) filePath(name string) string { return filepath.Join(s.WorkDir, sharedDir, name) }

// loadSharedFiles reads the configuration. If it returns an error, the result can still be
// used to copy regcred.
func loadSharedFiles(o *Options) (*sharedFiles, error) {
	cfg, err := config.Load(o.Config)
	if err != nil {
		return &sharedFiles{o, nil}, fmt.Errorf("configuration in ConfigMap %s: %w", o.Revision, err)
	}
	return &sharedFiles{o, cfg}, nil
}

// checksum returns a checksum of the chart's settings and the configuration.
func (s *sharedFiles) checksum() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q", s.Revision, s.Install.commandArgs())
	for _, f := range s.cfg.Files() {
		fmt.Fprintf(h, "%q %q", f.Name, f.Data())
	}
	return hex.EncodeToString(h.Sum(nil))
}

// copyAll copies all shared files. Each file is replaced atomically.
func (s *sharedFiles) copyAll(ctx context.Context) error {
	if err := s.copyRegcred(ctx); err != nil {
		return err
	}
	wanted := []string{}
	for i := range s.cfg.Providers {
		name := s.cfg.Providers[i].Name
		if slices.Contains(wanted, name) {
			continue // regcred rejects duplicate names on the node, with a better message
		}
		if err := config.CheckName(name); err != nil {
			return fmt.Errorf("configuration in ConfigMap %s: provider %q: %w", s.Revision, name, err)
		}
		from, err := s.pluginPath(name)
		if err == nil {
			err = copySharedExecutable(ctx, from, filepath.Join(s.filePath(pluginDir), name))
		}
		if err != nil {
			return err
		}
		wanted = append(wanted, name)
	}
	if err := removeOthers(s.filePath(pluginDir), wanted); err != nil {
		return err
	}
	return s.copyConfig()
}

// copyRegcred copies only the regcred programs, which is enough to check the node.
func (s *sharedFiles) copyRegcred(ctx context.Context) error {
	for _, dir := range []string{s.filePath(""), s.filePath(pluginDir), s.filePath(configDir)} {
		if err := makeDir(dir); err != nil {
			return err
		}
	}
	if err := copySharedExecutable(ctx, s.RegcredPath, s.filePath(regcredName)); err != nil {
		return err
	}
	return copySharedExecutable(ctx, s.DispatcherPath, s.filePath(dispatcherName))
}

// copySharedExecutable copies an executable that the node will run.
func copySharedExecutable(ctx context.Context, from, to string) error {
	if err := updateExecutable(ctx, from, to); err != nil {
		return err
	}
	return hostrun.SetExecutableLabel(to)
}

// copyConfig copies the configuration files into the shared directory. They may contain
// secrets.
func (s *sharedFiles) copyConfig() error {
	wanted := []string{}
	for _, f := range s.cfg.Files() {
		name := filepath.Base(f.Name)
		if ext := filepath.Ext(name); ext != ".json" && ext != ".yaml" && ext != ".yml" {
			name += ".yaml" // the kubelet ignores other names in a directory; JSON is valid YAML
		}
		wanted = append(wanted, name)
		to := filepath.Join(s.filePath(configDir), name)
		if now, err := os.ReadFile(to); err == nil && bytes.Equal(now, f.Data()) {
			continue
		}
		if err := (inroot.FS{}).WriteFile(to, bytes.NewReader(f.Data()), inroot.FileAttr{Mode: 0o600}); err != nil {
			return err
		}
	}
	return removeOthers(s.filePath(configDir), wanted)
}

// pluginPath returns the path of a provider's executable in this pod. An executable that was
// copied from another image takes precedence over one in this pod's image.
func (s *sharedFiles) pluginPath(name string) (string, error) {
	for _, dir := range []string{s.Plugins, s.ImagePlugins} {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); dir == "" || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		_, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s: dangling symlink", path)
		}
		return path, err
	}
	here := fmt.Sprintf("regcred's image does not contain the plugin's executable (in %s: %s)", s.ImagePlugins, dirNamesText(s.ImagePlugins))
	if s.Plugins != s.ImagePlugins {
		here = fmt.Sprintf("none of the images listed in the chart's plugins.images contains the executable (in %s: %s), and ", s.Plugins, dirNamesText(s.Plugins)) + here
	}
	return "", fmt.Errorf("provider %q (ConfigMap %s) has no executable: %s; add an image that contains the executable to plugins.images", name, s.Revision, here)
}

// dirNamesText returns the names of the files in a directory as one text.
func dirNamesText(dir string) string {
	list, err := os.ReadDir(dir)
	if len(list) == 0 || err != nil {
		return "nothing"
	}
	var names []string
	for i, e := range list {
		if i == 20 {
			names = append(names, "…")
			break
		}
		names = append(names, e.Name())
	}
	return strings.Join(names, ", ")
}

func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return inroot.FS{}.RemoveAllTempFiles(dir)
}

// removeOthers removes all files from a directory except those with the wanted names.
func removeOthers(dir string, wanted []string) error {
	list, err := os.ReadDir(dir)
	for _, e := range list {
		if !slices.Contains(wanted, e.Name()) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// updateExecutable copies an executable unless the existing copy is up to date.
func updateExecutable(ctx context.Context, from, to string) error {
	file, err := regularfile.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	if same, err := hasSameContent(file, to); same || err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return inroot.FS{}.WriteFile(to, regularfile.WithContext(ctx, file), inroot.FileAttr{Mode: 0o755})
}

// hasSameContent reports whether the executable at name is a copy of file, with mode 0755.
func hasSameContent(file *os.File, name string) (bool, error) {
	other, err := regularfile.Open(name)
	if err != nil {
		return false, nil // it will be replaced
	}
	defer other.Close()
	a, errA := file.Stat()
	b, errB := other.Stat()
	if errA != nil || errB != nil || a.Size() != b.Size() || b.Mode().Perm() != 0o755 {
		return false, nil
	}
	x, y := sha256.New(), sha256.New()
	_, err = io.Copy(x, file)
	_, otherErr := io.Copy(y, other)
	return otherErr == nil && bytes.Equal(x.Sum(nil), y.Sum(nil)), err
}

// CopyExecutables copies executables into a directory, atomically and with mode 0755. It
// copies nothing if one of them is not a regular file or not a Linux executable. It needs no
// other files from the image.
func CopyExecutables(ctx context.Context, files []string, dir string) error {
	if info, err := os.Stat(dir); err != nil {
		return fmt.Errorf("copy to %s: %w", dir, regularfile.BareError(err))
	} else if !info.IsDir() {
		return fmt.Errorf("copy to %s: not a directory", dir)
	}
	from := map[string]string{}
	for _, name := range files {
		if err := checkExecutable(name); err != nil {
			return fmt.Errorf("copy %s: %w", name, err)
		}
		base := filepath.Base(name)
		if other, twice := from[base]; twice {
			return fmt.Errorf("copy %s: %s has the same file name", name, other)
		}
		from[base] = name
	}
	to, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for _, name := range files {
		if err := updateExecutable(ctx, name, filepath.Join(to, filepath.Base(name))); err != nil {
			return fmt.Errorf("copy %s to %s: %w", name, dir, regularfile.BareError(err))
		}
	}
	return inroot.FS{}.RemoveAllTempFiles(to)
}

// checkExecutable returns an error if a file is not an executable for Linux.
func checkExecutable(name string) error {
	info, err := executable.Read(name)
	switch {
	case err != nil:
		return regularfile.BareError(err)
	case info.Format == executable.FormatEmpty:
		return errors.New("it is empty")
	case info.Format != executable.FormatELF && info.Format != executable.FormatScript:
		return errors.New("not a Linux executable")
	}
	return nil
}
