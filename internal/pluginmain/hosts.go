// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pluginmain

import (
	"github.com/spf13/pflag"

	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/internal/mirror"
)

// OtherHosts adds the flag --other-hosts.
func OtherHosts(flags *pflag.FlagSet, others *hostpattern.Others) {
	flags.TextVar(others, "other-hosts", hostpattern.FailOthers,
		"`fail|empty`: how to respond for hosts that this plugin does not serve; empty returns no credential")
}

// Mirrors adds the flags --mirror and --mirror-origin.
func Mirrors(flags *pflag.FlagSet, entries *[]string, origin *mirror.Origin) {
	flags.StringArrayVar(entries, "mirror", nil,
		"`SOURCE=TARGET[/PATH]`: return TARGET's credential for images that begin with SOURCE, because the runtime pulls them from TARGET; repeatable")
	flags.TextVar(origin, "mirror-origin", mirror.Origin(""),
		"`none|trusted`: use none if the runtime never falls back to SOURCE, or trusted if SOURCE is allowed to receive the credential")
}
