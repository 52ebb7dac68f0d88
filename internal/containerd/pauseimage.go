// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package containerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/tomlfile"
)

// DefaultFile is the config.toml of a containerd that is given none.
const DefaultFile = "/etc/containerd/config.toml"

// maxDump is how long containerd may take to say its configuration.
const maxDump = 10 * time.Second

// PauseImage returns the image in which the containerd behind a socket starts each
// pod, and the file with which its configuration begins. containerd 2 does not say
// it over CRI (containerd/containerd#11114), and what its files come to differs by
// version: how imports are merged, which are read unasked, what the default is.
// So the program that serves the socket is run once more, with the file of that
// process: "containerd --config FILE config dump". That is the configuration as the
// files have it now, which the process has read at its start.
//
// The process must be of root or of the caller, and have our root directory.
func PauseImage(ctx context.Context, socket string) (image, file string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxDump, fmt.Errorf("no response within %s: %w", maxDump, context.DeadlineExceeded))
	defer cancel()
	d, err := daemonOf(ctx, socket)
	if err != nil {
		return "", "", fmt.Errorf("find the containerd process that serves %s: %w", socket, err)
	}
	defer d.Close()
	out, err := d.dump(ctx)
	if err != nil {
		return "", "", fmt.Errorf("running %q: %w", "containerd --config "+d.file+" config dump", cmp.Or(context.Cause(ctx), err))
	}
	if image, err = dumped(out); err != nil {
		return "", "", fmt.Errorf("read the output of %q: %w", "containerd --config "+d.file+" config dump", err)
	}
	return image, d.file, nil
}

// Served is the containerd behind a socket.
type Served struct {
	PID     int
	File    string  // with which its configuration begins
	Version Version // zero if its program does not say it
}

// Serving finds the containerd behind a socket, and runs its program once more to
// be told its version. The process must be as for [PauseImage].
func Serving(ctx context.Context, socket string) (*Served, error) {
	ctx, cancel := context.WithTimeout(ctx, maxDump)
	defer cancel()
	d, err := daemonOf(ctx, socket)
	if err != nil {
		return nil, fmt.Errorf("find the containerd process that serves %s: %w", socket, err)
	}
	defer d.Close()
	s := &Served{PID: d.pid, File: d.file}
	if said, err := d.run(ctx, "--version"); err == nil {
		s.Version = ParseVersion(string(said))
	}
	return s, nil
}

// dumped finds the pause image in a whole configuration, where every key has a value.
func dumped(dump []byte) (string, error) {
	var file struct {
		Plugins map[string]map[string]any `toml:"plugins"`
	}
	f, err := tomlfile.Parse("", dump)
	if err == nil {
		err = f.Decode(&file)
	}
	if err != nil {
		return "", fmt.Errorf("invalid TOML: %w", err)
	}
	pinned, _ := file.Plugins[images]["pinned_images"].(map[string]any)
	image, _ := pinned["sandbox"].(string)
	before, _ := file.Plugins[criV2]["sandbox_image"].(string)
	if image = cmp.Or(image, before); image == "" {
		return "", errors.New("no pause image is set: is the CRI plugin disabled?")
	}
	return image, nil
}

// configFile is the file that a containerd's command line names. (Its flags are of
// Go's package flag, by which "-config" is "--config"; the last one counts.)
func configFile(args []string, dir string) string {
	file := DefaultFile
	for i, arg := range args {
		name, value, inline := strings.Cut(arg, "=")
		switch name {
		case "--config", "-config", "--c", "-c":
		default:
			continue
		}
		if !inline && i+1 < len(args) {
			value = args[i+1]
		}
		file = value
	}
	if !filepath.IsAbs(file) {
		return filepath.Join(dir, file)
	}
	return file
}
