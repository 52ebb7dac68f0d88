// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/executable"
	"github.com/regcred/regcred/lint"
)

// The checks in this file examine the executable. They use the rules of [lint.Binary].

func (s *suite) isBroken() bool {
	return slices.ContainsFunc(checkExecutable(s), func(f Finding) bool { return f.Severity == finding.SeverityError })
}

func checkExecutable(s *suite) []Finding {
	did := "inspected the file"
	var findings []Finding
	for _, f := range lint.Binary(s.cmd.Path) {
		if f.Severity == finding.SeverityError {
			findings = append(findings, newFinding(finding.SeverityError, did, f.Message,
				"The kubelet cannot run the plugin, so the kubelet exits or pulls anonymously.", cmp.Or(f.Fix, "Install a build for this machine with mode 0755."))...)
		}
		if f.Rule == "unreadable-binary" {
			return skipFinding("%s", f.Message)
		}
	}
	if len(findings) > 0 {
		return findings
	}
	return passFinding(did, "the executable can run on this machine")
}

func checkStaticBinary(s *suite) []Finding {
	did := "inspected the file"
	for _, f := range lint.Binary(s.cmd.Path) {
		switch {
		case f.Severity == finding.SeverityError || f.Rule == "unreadable-binary":
			return skipFinding("%s", f.Message)
		case f.Rule == "dynamic-binary":
			return newFinding(finding.SeverityWarning, did, f.Message,
				"On a node with a different C library, the kubelet reports \"no such file or directory\" although the file exists.",
				"Link the plugin statically (in Go, CGO_ENABLED=0 go build).")
		}
	}
	if info, err := executable.Read(s.cmd.Path); err == nil && info.Format == executable.FormatScript {
		return newFinding(finding.SeverityWarning, did, fmt.Sprintf("a script for %q", truncateText(strings.TrimSpace(info.ShebangLine))),
			"The kubelet cannot run the script on a node without the interpreter, and several node images have no shell.",
			"Install the script's interpreter, or make the plugin a static binary.")
	}
	return passFinding(did, "needs no library or interpreter from the host")
}
