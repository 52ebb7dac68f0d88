// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed page
var pageHTML embed.FS

const (
	modulePackage = "github.com/regcred/regcred/docs/playground/module"
	// moduleFile is the compressed module. The page decompresses it, because few static
	// hosts compress files. The name does not end in .gz, because some hosts decompress
	// such files automatically.
	moduleFile = "regcred.wasm.z"
	// goSupportFile is the JavaScript support file for the module. It must come from
	// the Go release that built the module.
	goSupportFile = "wasm_exec.js"
)

// buildSite builds the site's files, keyed by name. It needs the go command and the
// module cache.
func buildSite(ctx context.Context, version string) (map[string][]byte, error) {
	files := map[string][]byte{}
	list, err := pageHTML.ReadDir("page")
	if err != nil {
		return nil, err
	}
	for _, entry := range list {
		if files[entry.Name()], err = pageHTML.ReadFile("page/" + entry.Name()); err != nil {
			return nil, err
		}
	}
	module, err := buildModule(ctx, version)
	if err != nil {
		return nil, err
	}
	if files[moduleFile], err = gzipData(module); err != nil {
		return nil, err
	}
	root, err := runGoTool(ctx, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	files[goSupportFile], err = os.ReadFile(filepath.Join(strings.TrimSpace(root), "lib", "wasm", goSupportFile))
	return files, err
}

// buildModule returns the module. The same source and version produce the same bytes.
func buildModule(ctx context.Context, version string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "playground")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	flags := "-s -w"
	if version != "" {
		flags += " -X main.version=" + version
	}
	path := filepath.Join(dir, "regcred.wasm")
	if _, err := runGoTool(ctx, "build", "-trimpath", "-buildvcs=false", "-ldflags="+flags, "-o", path, modulePackage); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// runGoTool runs the go command for the browser target (GOOS and GOARCH), and returns
// its output.
func runGoTool(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "GOFLAGS=", "GOWASM=", "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out), nil
}

func gzipData(data []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = z.Write(data)
	err = errors.Join(err, z.Close())
	return b.Bytes(), err
}

// writeSite writes the site to dir, which must be empty.
func writeSite(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if there, err := os.ReadDir(dir); err != nil {
		return err
	} else if len(there) > 0 {
		return fmt.Errorf("%s is not empty: use a new or empty directory", dir)
	}
	var errs []error
	for name, data := range files {
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), data, fs.FileMode(0o644)))
	}
	return errors.Join(errs...)
}
