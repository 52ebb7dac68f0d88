// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pluginmain_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/pluginmain"
)

func TestHostFlags(t *testing.T) {
	parse := func(args ...string) (string, []string, string, error) {
		var others string
		var entries []string
		var origin string
		flags := pluginmain.NewFlagSet()
		pluginmain.AddOtherHostsFlag(flags, &others)
		pluginmain.AddMirrorFlags(flags, &entries, &origin)
		return others, entries, origin, flags.Parse(args)
	}
	others, entries, origin, err := parse()
	if others != "fail" || entries != nil || origin != "" || err != nil {
		t.Errorf("without flags: got %q, %q, %q and %v", others, entries, origin, err)
	}
	others, entries, origin, err = parse("--other-hosts=empty", "--mirror=a.example=b", "--mirror=c.example=d,e", "--mirror-origin=trusted")
	if others != "empty" || !slices.Equal(entries, []string{"a.example=b", "c.example=d,e"}) ||
		origin != "trusted" || err != nil {
		t.Errorf("with flags: got %q, %q, %q and %v", others, entries, origin, err)
	}
	for _, arg := range []string{"--other-hosts=none", "--other-hosts=", "--mirror-origin=empty"} {
		if _, _, _, err := parse(arg); err == nil || !strings.Contains(err.Error(), "must be ") {
			t.Errorf("%s: got the error %v", arg, err)
		}
	}
}
