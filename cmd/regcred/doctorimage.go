// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/node"
)

// imageFlags holds the flags of "regcred doctor" about an image.
type imageFlags struct {
	image       string
	pullSecrets []string
	offline     bool
	hostTimeout time.Duration
}

func (i *imageFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&i.image, "image", "", "`image` to trace from its reference to its manifest in the registry")
	f.StringArrayVar(&i.pullSecrets, "pull-secret", nil, "with --image: `file` with an image pull secret: a Secret manifest or a docker config.json; may be repeated")
	f.BoolVar(&i.offline, "offline", false, "with --image: do not run plugins or contact hosts")
	f.DurationVar(&i.hostTimeout, "timeout", 20*time.Second, "with --image: maximum `time` for contacting all hosts")
}

// check returns an error for flags that are mutually exclusive or out of range.
func (d *doctorFlags) check() error {
	given := whichGiven(given{"pull-secret", strings.Join(d.pullSecrets, ",")})
	if d.offline {
		given = append(given, "--offline")
	}
	switch {
	case d.image == "" && given != nil:
		return usageError("", "%s requires --image", strings.Join(given, " "))
	case d.offline && (d.kube || d.pod.given()):
		return usageError("", "--offline sends no requests: omit --kube and --pod")
	case d.hostTimeout <= 0:
		return usageError("", "--timeout is %s; it must be greater than 0", d.hostTimeout)
	}
	for _, name := range d.only {
		if !slices.Contains(doctorChecks(), name) {
			return usageError("checks: "+strings.Join(doctorChecks(), ", "), "--only %q: no such check", name)
		}
	}
	return nil
}

// doctorImage returns the image to trace.
func (a *app) doctorImage(w *doctor.World, d *doctorFlags) *doctor.Image {
	i := &doctor.Image{
		Reference: d.image, ForPod: d.pod.given(), Platform: "linux/" + runtime.GOARCH, Offline: d.offline, Timeout: d.hostTimeout,
	}
	if !d.offline {
		i.Lookup = func(ctx context.Context) (*regcred.Result, bool, error) {
			return a.lookUpImage(ctx, cmp.Or(w.Origin, a.callerOrigin()), w.Config, d)
		}
	}
	return i
}

// lookUpImage looks up the image's credentials, for the pod if one is given.
func (a *app) lookUpImage(ctx context.Context, o *node.Origin, cfg *config.Config, d *doctorFlags) (*regcred.Result, bool, error) {
	l := &lookupFlags{pullSecrets: d.pullSecrets, pod: d.pod, kubeFlags: d.kubeFlags}
	s, err := a.newSession(ctx, cmp.Or(cfg, &config.Config{}), o, l)
	if err != nil {
		return nil, false, fmt.Errorf("not looked up: %w", err)
	}
	defer s.Close()
	return s.lookup(ctx, target{image: d.image})
}
