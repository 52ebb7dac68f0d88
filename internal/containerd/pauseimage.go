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

// DefaultFile is the config.toml that containerd reads without --config.
const DefaultFile = "/etc/containerd/config.toml"

const configDumpTimeout = 10 * time.Second

// PauseImage returns the pause image of the containerd that serves a socket, and its
// config.toml. It runs the program of the process as "containerd --config FILE config
// dump". This is needed because containerd 2 does not report the image over CRI
// (containerd/containerd#11114), and imports and defaults differ by version.
//
// The process must belong to root or the caller, and have the same root directory as
// the caller.
func PauseImage(ctx context.Context, socket string) (image, file string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, configDumpTimeout, fmt.Errorf("no response within %s: %w", configDumpTimeout, context.DeadlineExceeded))
	defer cancel()
	d, err := findDaemon(ctx, socket)
	if err != nil {
		return "", "", fmt.Errorf("find the containerd process that serves %s: %w", socket, err)
	}
	defer d.Close()
	out, err := d.runProgram(ctx, "--config", d.file, "config", "dump")
	if err != nil {
		return "", "", fmt.Errorf("running %q: %w", "containerd --config "+d.file+" config dump", cmp.Or(context.Cause(ctx), err))
	}
	if image, err = pauseImageFromDump(out); err != nil {
		return "", "", fmt.Errorf("read the output of %q: %w", "containerd --config "+d.file+" config dump", err)
	}
	return image, d.file, nil
}

// Daemon describes the containerd that serves a socket.
type Daemon struct {
	PID     int
	File    string  // config.toml
	Version Version // zero if unknown
}

// FindDaemon finds the containerd that serves a socket, and runs its program with
// --version. It has the same requirements as [PauseImage].
func FindDaemon(ctx context.Context, socket string) (*Daemon, error) {
	ctx, cancel := context.WithTimeout(ctx, configDumpTimeout)
	defer cancel()
	d, err := findDaemon(ctx, socket)
	if err != nil {
		return nil, fmt.Errorf("find the containerd process that serves %s: %w", socket, err)
	}
	defer d.Close()
	s := &Daemon{PID: d.pid, File: d.file}
	if output, err := d.runProgram(ctx, "--version"); err == nil {
		s.Version = ParseVersion(string(output))
	}
	return s, nil
}

// pauseImageFromDump returns the pause image in the output of "config dump".
func pauseImageFromDump(dump []byte) (string, error) {
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
	pinned, _ := file.Plugins[imagesPluginV3]["pinned_images"].(map[string]any)
	image, _ := pinned["sandbox"].(string)
	before, _ := file.Plugins[criPluginV2]["sandbox_image"].(string)
	if image = cmp.Or(image, before); image == "" {
		return "", errors.New("no pause image is set: is the CRI plugin disabled?")
	}
	return image, nil
}

// configFileFromArgs returns the configuration file that containerd's arguments specify. The
// arguments are parsed as by Go's package flag: "-config" is the same as "--config", and the last
// one takes precedence.
func configFileFromArgs(args []string, dir string) string {
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
