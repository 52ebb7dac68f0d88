// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/pull"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/plugin"
)

type tryJSON struct {
	Credential *report.Credential `json:"credential,omitempty"` // nil for an anonymous pull
	Status     int                `json:"status,omitempty"`     // HTTP status
	Code       string             `json:"code,omitempty"`       // error code of the registry or the runtime
	Error      string             `json:"error"`
}

// triesJSON never returns nil, so that JSON shows [].
func triesJSON(tries []pull.Try) []tryJSON {
	list := make([]tryJSON, 0, len(tries))
	for _, t := range tries {
		list = append(list, tryJSON{report.NewCredential(t.Credential), t.Status, t.Code, t.Err.Error()})
	}
	return list
}

// warningJSON is a provider or source that failed.
type warningJSON struct {
	Name  string       `json:"name"`
	Stage plugin.Stage `json:"stage"`
	Error string       `json:"error"`
}

// warningsOf returns the failed attempts of a lookup that succeeded.
func warningsOf(attempts []regcred.Attempt) []warningJSON {
	var list []warningJSON
	for _, at := range failedOf(attempts) {
		list = append(list, warningJSON{at.Provider, at.Stage, report.NewAttempt(at).Error})
	}
	return list
}

// whyNotPulled lists the failed attempts, and explains why the image was not pulled
// without them.
func whyNotPulled(attempts []regcred.Attempt) string {
	why := "because a pull without credentials would be anonymous"
	if pullSecretFailed(attempts) {
		why = "because the kubelet would not pull the image without the pull secret"
	}
	var causes []string
	for _, at := range failedOf(attempts) {
		causes = append(causes, at.Err.Error())
	}
	return why + ": " + strings.Join(causes, "; ")
}
