// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/terminal"
)

// target is the image or registry to look up.
type target struct {
	image, registry string
}

// withTarget adds the argument IMAGE and the flag --registry to cmd.
func withTarget(cmd *cobra.Command, run func(context.Context, target) error) {
	var registry string
	cmd.Flags().StringVar(&registry, "registry", "",
		"registry `host`, instead of IMAGE; patterns with a path never match a bare host")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if registry != "" {
			return atMost()(cmd, args)
		}
		return exactly("IMAGE")(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		tgt := target{registry: registry}
		if registry == "" {
			tgt.image = args[0]
		}
		return run(cmd.Context(), tgt)
	}
}

// request returns a request for the target, without a pod or service account.
func (tgt target) request() regcred.Request {
	return regcred.Request{Image: tgt.image, Registry: tgt.registry}
}

// words returns the target as command-line arguments.
func (tgt target) words() []string {
	if tgt.registry != "" {
		return []string{"--registry", terminal.ShellWord(tgt.registry)}
	}
	return []string{terminal.ShellWord(tgt.image)}
}

// imageHint explains the syntax of an image.
const imageHint = "an image has the form [registry[:port]/]repository[:tag][@digest], in lowercase"

// explainTarget matches the target against the providers, and rejects an invalid
// target.
func (a *app) explainTarget(cfg *config.Config, tgt target) (regcred.Explanation, error) {
	e := regcred.Explain(cfg, tgt.request())
	switch {
	case e.Error != "" && tgt.registry != "":
		return e, withHint(errors.New("--"+e.Error), "a registry is host[:port]")
	case e.Error != "":
		return e, withHint(errors.New(e.Error), imageHint)
	}
	// The user probably meant a registry.
	name, found := strings.CutPrefix(e.Repository, "docker.io/library/")
	if found && (strings.Contains(name, ".") || name == "localhost") {
		a.Note("%q is the image %s on Docker Hub; for the registry with this name, use --registry %s", tgt.image, e.Repository, terminal.ShellWord(tgt.image))
	}
	return e, nil
}
