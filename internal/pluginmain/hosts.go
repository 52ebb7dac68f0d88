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
		"`fail|empty`: what to do about a host that is served by none of this; empty answers with nothing, for patterns that reach such hosts on purpose (default fail)")
}

// Mirrors adds the flags --mirror and --mirror-origin.
func Mirrors(flags *pflag.FlagSet, entries *[]string, origin *mirror.Origin) {
	flags.StringArrayVar(entries, "mirror", nil,
		"`SOURCE=TARGET[/PATH]`: the runtime pulls images that begin with SOURCE from the registry TARGET, whose credential they get; repeatable")
	flags.TextVar(origin, "mirror-origin", mirror.Origin(""),
		"`none|trusted`: a mirrored name's own host is never asked by the runtime, or may see the credential")
}
