// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"fmt"
	"strings"

	"github.com/regcred/regcred/internal/generation"
)

// OwnerError reports that the node's installation belongs to another owner: another release of
// the chart, or a user who installed it manually.
type OwnerError struct {
	Generation int
	Owner      string // NAMESPACE/RELEASE; "" if installed manually
	Requested  string // the owner that requested the change; "" for a manual change
	uninstall  bool
}

func (e *OwnerError) Error() string {
	by := "was installed manually"
	if e.Owner != "" {
		by = "belongs to release " + e.Owner
	}
	asked := "manual"
	if e.Requested != "" {
		asked = "for release " + e.Requested
	}
	return fmt.Sprintf("nothing was changed: generation %d on this node %s, but this run is %s", e.Generation, by, asked)
}

// Hint returns a suggestion how to fix the error.
func (e *OwnerError) Hint() string {
	switch {
	case e.uninstall && e.Owner == "":
		return "run regcred uninstall --restart on the node to remove it"
	case e.uninstall:
		return helmUninstallCommand(e.Owner) + " removes it"
	case e.Owner == "":
		return "first run regcred uninstall --restart on the node"
	case e.Requested == "":
		return fmt.Sprintf("change the release's values, or run %s; a run with --owner %s takes effect only until the release's pod installs again", helmUninstallCommand(e.Owner), e.Owner)
	}
	return fmt.Sprintf("remove one of the two releases (%s), or separate them with node selectors", helmUninstallCommand(e.Owner))
}

// helmUninstallCommand returns the Helm command that uninstalls a release.
func helmUninstallCommand(owner string) string {
	namespace, release, _ := strings.Cut(owner, "/")
	return "helm uninstall " + release + " -n " + namespace
}

// checkUninstallAllowed returns an error if o has an owner and the generation belongs to
// another owner. If o has no owner, it warns that the release may install regcred again.
func (in *Installer) checkUninstallAllowed(m *generation.Manifest, o Options) error {
	switch {
	case o.Owner != "" && m.Owner != o.Owner:
		return &OwnerError{Generation: m.Number, Owner: m.Owner, Requested: o.Owner, uninstall: true}
	case o.Owner == "" && m.Owner != "":
		in.progressf("generation %d belongs to release %s, whose pod will install it again on this node; remove it permanently with %s", m.Number, m.Owner, helmUninstallCommand(m.Owner))
	}
	return nil
}
