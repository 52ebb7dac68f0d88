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

// flagsProblem returns why the kubelet would not use the paths of layout l at its next start,
// or "" if it would.
func (in *Installer) flagsProblem(next *node.NextStart, l generation.KubeletLayout) string {
	if u := in.Setup.Unit; l.DropIn != "" {
		switch {
		case u == nil:
			return "the unit of " + in.fs().HostPath(l.DropIn) + " no longer exists"
		case u.Problem != "":
			return u.Problem
		}
	}
	for _, f := range []struct {
		name string
		is   node.Flag
		want string
	}{{"--image-credential-provider-config", next.Config, l.ConfigFlag}, {"--image-credential-provider-bin-dir", next.BinDir, l.BinDir}} {
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
