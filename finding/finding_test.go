// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package finding_test

import (
	"encoding/json"
	"testing"

	"github.com/regcred/regcred/finding"
)

func TestString(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   finding.Finding
		want string
	}{
		{"with position", finding.Finding{Rule: "star-host", File: "c.yaml", Line: 3, Column: 7, Path: "providers[0]", Message: "matches nothing"},
			"c.yaml:3:7: providers[0]: matches nothing [star-host]"},
		{"without position", finding.Finding{Rule: "dns", Message: "no such host"}, "no such host [dns]"},
		{"without rule", finding.Finding{Message: "no such host"}, "no such host"},
	} {
		if got := tt.in.String(); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestWorst(t *testing.T) {
	list := []finding.Finding{{Severity: finding.SeveritySkipped}, {Severity: finding.SeverityWarning}, {Severity: finding.SeverityInfo}, {Severity: finding.SeverityWarning}}
	if got := finding.Worst(list); got != finding.SeverityWarning {
		t.Errorf("got %q, want a warning", got)
	}
	if got := finding.Worst(nil); got != finding.SeverityOK {
		t.Errorf("empty list: got %q, want ok", got)
	}
}

// TestJSON verifies the field names of "regcred validate -o json".
func TestJSON(t *testing.T) {
	got, err := json.Marshal(finding.Finding{Rule: "r", Severity: finding.SeverityError, Provider: "p", File: "f", Line: 1, Column: 2, Path: "providers[0]", Message: "m", Fix: "x"})
	want := `{"rule":"r","severity":"error","provider":"p","file":"f","line":1,"column":2,"path":"providers[0]","message":"m","suggestion":"x"}`
	if err != nil || string(got) != want {
		t.Errorf("got %s (error %v), want %s", got, err, want)
	}
}
