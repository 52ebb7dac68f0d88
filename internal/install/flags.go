// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"fmt"
	"path"

	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/node"
)

// notUsed begins what is wrong with how a kubelet is run.
const notUsed = "after its next start, the kubelet would not use regcred: "

// checkFlags refuses a restart, and warns otherwise, where somebody has changed how
// the kubelet is run so that what regcred gives it does not reach it any more.
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
		p.Warnings = append(p.Warnings, notUsed+why)
	}
	return nil
}

// dropInProblem says what keeps a drop-in of a layout, once it is written, from giving
// the kubelet its flags; "" if nothing does.
func (in *Installer) dropInProblem(l generation.Layout) string {
	if l.DropIn == "" {
		return in.flagsProblem(l)
	}
	switch u := in.Setup.Unit; {
	case u == nil:
		return "the unit of " + in.fs().Host(l.DropIn) + " no longer exists"
	case u.Problem != "":
		return u.Problem
	}
	return ""
}

// flagsProblem says why the kubelet that its files would start now does not look where a
// layout has it look; "" if it does.
func (in *Installer) flagsProblem(l generation.Layout) string {
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
		case !f.is.Set():
			return fmt.Sprintf("%s=%s is no longer set", f.name, f.want)
		case path.Clean(f.is.Path) == path.Clean(f.want):
		case len(f.is.Given) > 0:
			g := f.is.Given[len(f.is.Given)-1]
			return fmt.Sprintf("%s:%d sets %s=%s instead of %s", in.fs().Host(g.File), g.Line, f.name, f.is.Path, f.want)
		default:
			return fmt.Sprintf("it has %s=%s instead of %s", f.name, f.is.Path, f.want)
		}
	}
	return ""
}
