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
		"what to do about a host that is served by none of this: `fail`, or answer with nothing (empty), for patterns that reach such hosts on purpose")
}

// Mirrors adds the flags --mirror and --mirror-origin.
func Mirrors(flags *pflag.FlagSet, entries *[]string, origin *mirror.Origin) {
	flags.StringArrayVar(entries, "mirror", nil,
		"`SOURCE=TARGET[/PATH]`: the runtime pulls images that begin with SOURCE from the registry TARGET, whose credential they get; repeatable")
	flags.TextVar(origin, "mirror-origin", mirror.Origin(""),
		"what a mirrored name's own host may see: the runtime never falls back to it (`none`), or it may see the credential (trusted)")
}
