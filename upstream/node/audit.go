// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// auditPolicy logs requests for the resources that an image pull needs.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  resources: [{group: "", resources: [serviceaccounts, serviceaccounts/token, secrets]}]
- level: None
`

// AuditCall is an audit log entry for a request about a service account, a token
// ("serviceaccounts/token") or a secret.
type AuditCall struct {
	User, Verb, Resource string
	Namespace, Name      string
	Code                 int
}

// AuditCalls returns a user's requests so far. If user is "", it returns the requests of all users.
func (c *ControlPlane) AuditCalls(t testing.TB, user string) (calls []AuditCall) {
	t.Helper()
	for _, line := range matchingLines(t, filepath.Join(c.dir, "audit.log"), "") {
		var e struct {
			Verb           string
			User           struct{ Username string }
			ObjectRef      struct{ Resource, Subresource, Namespace, Name string }
			ResponseStatus struct{ Code int }
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			continue // the line is still being written
		}
		if user == "" || e.User.Username == user {
			resource := strings.TrimSuffix(e.ObjectRef.Resource+"/"+e.ObjectRef.Subresource, "/")
			calls = append(calls, AuditCall{e.User.Username, e.Verb, resource, e.ObjectRef.Namespace, e.ObjectRef.Name, e.ResponseStatus.Code})
		}
	}
	return calls
}
