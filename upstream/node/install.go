// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"time"
)

// policyScriptPath is the path of a script that prevents Debian packages from starting their
// services (invoke-rc.d(8)).
const policyScriptPath = "/usr/sbin/policy-rc.d"

// installPackages installs packages if it runs as root on Debian. Otherwise, or if it fails,
// [SkipUnlessSupported] reports what is missing.
func installPackages(packages []string) {
	aptGet, err := exec.LookPath("apt-get")
	if len(packages) == 0 || err != nil || os.Getuid() != 0 {
		return
	}
	fmt.Fprintf(os.Stderr, "node: installing %q\n", packages)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := withServicesDisabled(func() error {
		if err := runCommand(ctx, aptGet, "update", "-q"); err != nil {
			return err
		}
		return runCommand(ctx, aptGet, append([]string{"install", "-y", "-q", "--no-install-recommends"}, packages...)...)
	}); err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
	}
}

// withServicesDisabled calls f while packages cannot start services.
func withServicesDisabled(f func() error) error {
	file, err := os.OpenFile(policyScriptPath, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return f()
	}
	if err != nil {
		return err
	}
	defer os.Remove(policyScriptPath)
	_, err = file.WriteString("#!/bin/sh\nexit 101\n")
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return f()
}

// runCommand runs a command. Its output is shown only in the error.
func runCommand(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, said)
	}
	return nil
}
