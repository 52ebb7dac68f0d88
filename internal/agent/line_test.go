// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzLine verifies that any status is encoded as one line of limited length.
func FuzzLine(f *testing.F) {
	for _, text := range []string{"", "a", "é", `"`, `\`, "\n", "\x00", "\xff", "\u2028", "<&>", "\U0001f600", "\U000e0001"} {
		f.Add(text, uint16(1), uint8(1))
		f.Add(text, uint16(20000), uint8(200))
	}
	f.Fuzz(func(t *testing.T, text string, times uint16, drift uint8) {
		if len(text) > 100 {
			return
		}
		long := strings.Repeat(text, int(times))
		s := Status{Node: long, Owner: long, Revision: long, Phase: PhaseDrifted, Reason: long, Kind: long, Kubelet: long, LastError: &Error{Message: long}}
		for range drift {
			s.Drift = append(s.Drift, long)
		}
		line := s.encodeLine()
		var got Status
		if err := json.Unmarshal(line, &got); err != nil || len(line) > maxStatusLine || bytes.IndexByte(line, '\n') != len(line)-1 || !utf8.Valid(line) {
			t.Fatalf("%d bytes, %v: %q", len(line), err, line)
		}
		if got.Phase != PhaseDrifted || (got.Reason == "") != (long == "") || len(got.Drift) == 0 && drift > 0 {
			t.Errorf("of %d × %q only this is left: %s", times, text, line)
		}
		if s.LastError.Message != long || len(s.Drift) > 0 && s.Drift[0] != long {
			t.Error("the status itself was changed")
		}
	})
}
