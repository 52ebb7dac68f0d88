// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"fmt"
	"path"

	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/node"
)

// flagsNotUsedWarning begins warnings about the flags for the kubelet's next start.
const flagsNotUsedWarning = "after its next start, the kubelet would not use regcred: "

// checkFlags checks whether the kubelet would still use regcred after a restart, because its
// flags may have been changed. It returns an error if the plan restarts the kubelet, and
// otherwise adds a warning.
func (in *Installer) checkFlags(p *Plan) error {
	if p.From == nil {
		return nil
	}
	why := in.dropInProblem(p.To.Layout)
	switch {
	case why == "":
	case len(p.Restart) > 0:
		return withHint("fix the cause, or run regcred uninstall --restart and then regcred install", "nothing was changed: after a restart, the kubelet would not use regcred: %s", why)
	default:
		p.Warnings = append(p.Warnings, flagsNotUsedWarning+why)
	}
	return nil
}

// dropInProblem returns why regcred's drop-in can no longer set the kubelet's flags, or "" if
// it can.
func (in *Installer) dropInProblem(l generation.KubeletLayout) string {
	if l.DropIn == "" {
		return in.flagsProblem(l)
	}
	switch u := in.Setup.Unit; {
	case u == nil:
		return "the unit of " + in.fs().HostPath(l.DropIn) + " no longer exists"
	case u.Problem != "":
		return u.Problem
	}
	return ""
}

// flagsProblem returns why the kubelet would not use the paths of layout l after its next
// start, or "" if it would.
func (in *Installer) flagsProblem(l generation.KubeletLayout) string {
	if l.DropIn != "" {
		if why := in.dropInProblem(l); why != "" {
			return why
		}
	}
	for _, f := range []struct {
		name string
		is   node.Flag
		want string
	}{{"--image-credential-provider-config", in.Setup.Config, l.Flag}, {"--image-credential-provider-bin-dir", in.Setup.BinDir, l.BinDir}} {
		switch {
		case !f.is.IsSet():
			return fmt.Sprintf("%s=%s is no longer set", f.name, f.want)
		case path.Clean(f.is.Path) == path.Clean(f.want):
		case len(f.is.Given) > 0:
			g := f.is.Given[len(f.is.Given)-1]
			return fmt.Sprintf("%s:%d sets %s=%s instead of %s", in.fs().HostPath(g.File), g.Line, f.name, f.is.Path, f.want)
		default:
			return fmt.Sprintf("it has %s=%s instead of %s", f.name, f.is.Path, f.want)
		}
	}
	return ""
}
