// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"fmt"
	"strings"

	"github.com/regcred/regcred/internal/generation"
)

// OwnerError means that what a node has belongs to somebody else: to another release
// of the chart, or to none.
type OwnerError struct {
	Generation int
	Owner      string // NAMESPACE/RELEASE; "" is a person
	Asked      string // who asked, likewise
	uninstall  bool
}

func (e *OwnerError) Error() string {
	by := "was installed by hand"
	if e.Owner != "" {
		by = "belongs to release " + e.Owner
	}
	asked := "by hand"
	if e.Asked != "" {
		asked = "for release " + e.Asked
	}
	return fmt.Sprintf("nothing was changed: generation %d of this node %s, and this is %s", e.Generation, by, asked)
}

// Hint says what to do about it.
func (e *OwnerError) Hint() string {
	switch {
	case e.uninstall && e.Owner == "":
		return "regcred uninstall --restart, by hand on the node, takes it off"
	case e.uninstall:
		return helmUninstall(e.Owner) + " takes it off"
	case e.Owner == "":
		return "first regcred uninstall --restart on the node"
	case e.Asked == "":
		return fmt.Sprintf("change the release's values, or %s; --owner %s does it by hand all the same, until the release's pod installs again", helmUninstall(e.Owner), e.Owner)
	}
	return fmt.Sprintf("one of the two must go: %s; or keep them apart by their node selectors", helmUninstall(e.Owner))
}

// helmUninstall is the command that takes a release off.
func helmUninstall(owner string) string {
	namespace, release, _ := strings.Cut(owner, "/")
	return "helm uninstall " + release + " -n " + namespace
}

// owned is an error if a generation is not of who asks; nil is nobody's.
func owned(m *generation.Manifest, asked string) error {
	if m == nil || m.Owner == asked {
		return nil
	}
	return &OwnerError{Generation: m.Number, Owner: m.Owner, Asked: asked}
}

// mayUninstall is an error if a generation is not of who has it uninstalled. A person
// is told who puts it on again.
func (in *Installer) mayUninstall(m *generation.Manifest, o Options) error {
	switch {
	case o.Owner != "" && m.Owner != o.Owner:
		return &OwnerError{Generation: m.Number, Owner: m.Owner, Asked: o.Owner, uninstall: true}
	case o.Owner == "" && m.Owner != "":
		in.say("generation %d belongs to release %s: as long as its pod is on this node, that installs it again; %s takes it off for good", m.Number, m.Owner, helmUninstall(m.Owner))
	}
	return nil
}

// sourceOf is what a generation was made of, for people.
func sourceOf(w Wish) string {
	if w.Owner != "" {
		return "release " + w.Owner // the directory of its pod goes with the pod
	}
	return w.Config
}
