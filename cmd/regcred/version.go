// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/terminal"
)

// version is set by the linker in release builds: -ldflags "-X main.version=v1.2.3".
var version string

// versionInfo is the result of "regcred version -o json".
type versionInfo struct {
	Version       string `json:"version"`
	GoVersion     string `json:"goVersion"`
	Platform      string `json:"platform"`
	NewestKubelet string `json:"newestKubelet"`
}

func (a *app) versionCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show the version",
		Long:    `Show the version of regcred and the newest kubelet version that it supports.`,
		Example: "  regcred version\n  regcred version -o json",
		Args:    requireArgs(),
	}
	output := addOutputFlag(cmd, "text", "json")
	cmd.RunE = func(*cobra.Command, []string) error {
		v := versionInfo{buildVersion(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, config.NewestKubelet}
		return a.printResult(output, v, func(t *terminal.Text) {
			t.Quote("", fmt.Sprintf("regcred %s (%s, %s), supports kubelets up to %s", v.Version, v.GoVersion, v.Platform, v.NewestKubelet))
		})
	}
	return cmd
}

// buildVersion returns the version from the release build or, without one, from the Go
// build info.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown)"
}
