// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pluginmain

import (
	"github.com/spf13/pflag"

	"github.com/regcred/regcred/internal/registry"
)

// AddOtherHostsFlag adds the flag --other-hosts.
func AddOtherHostsFlag(flags *pflag.FlagSet, value *string) {
	flags.TextVar((*registry.OtherHosts)(value), "other-hosts", registry.OtherHostsFail,
		"`fail|empty`: how to respond for hosts that this plugin does not serve; empty returns no credential")
}

// AddMirrorFlags adds the flags --mirror and --mirror-origin.
func AddMirrorFlags(flags *pflag.FlagSet, entries *[]string, origin *string) {
	flags.StringArrayVar(entries, "mirror", nil,
		"`SOURCE=TARGET[/PATH]`: return TARGET's credential for images that begin with SOURCE, because the runtime pulls them from TARGET; repeatable")
	flags.TextVar((*registry.MirrorOrigin)(origin), "mirror-origin", registry.MirrorOrigin(""),
		"`none|trusted`: use none if the runtime never falls back to SOURCE, or trusted if SOURCE is allowed to receive the credential")
}
