// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"errors"
	"os"
	"path/filepath"
)

// Detect returns this machine's service manager. It returns an [*Error] if there is
// none.
func Detect() (Manager, error) { return detectManager("/") }

func detectManager(root string) (Manager, error) {
	if isDir(filepath.Join(root, "run/systemd/system")) { // sd_booted(3)
		return Systemd{}, nil
	}
	if isDir(filepath.Join(root, "run/openrc")) {
		return OpenRC{}, nil
	}
	return nil, &Error{errors.New("no supported service manager: neither systemd nor OpenRC is running"),
		"restart the kubelet by hand; in a container, mount the host's /run/systemd (or /run/openrc)"}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
