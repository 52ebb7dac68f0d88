// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestHints verifies that flags in hints from the node are replaced by the chart's values.
func TestHints(t *testing.T) {
	for hint, want := range map[string]string{
		"--restart allows the restart; running containers are not stopped": "(the chart's value restart: IfNeeded allows the restart; running containers are not stopped)",
		"--state-dir selects another directory":                            "(the chart's value stateDir selects another directory)",
		"--state-dir /opt/regcred":                                         "(the chart's value stateDir /opt/regcred)",
		"--reapplied, if something runs regcred install at each boot":      "(the chart's value reapplied: true, if something runs regcred install at each boot)",
		"first run regcred uninstall --restart on the node":                "(first run regcred uninstall --restart on the node)",
	} {
		for _, outcome := range []string{"failed", "refused"} {
			said := fmt.Sprintf(`{"schemaVersion":1,"outcome":%q,"restart":[],"warnings":[],"changes":[],"error":"it is so","hint":%q}`, outcome, hint)
			exitCodes[said] = 1
			p := newPod(t, commandResponses{"install": {said}, "status": {notInstalled}})
			synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Second) })
			if s := p.lastStatus(t); s.Reason != "it is so "+want {
				t.Errorf("%s: got %s, want %s", outcome, strings.TrimPrefix(s.Reason, "it is so "), want)
			}
		}
	}
}
