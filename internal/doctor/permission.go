// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"strings"

	"github.com/regcred/regcred/internal/terminal"
)

// How the Node authorizer knows a kubelet.
const (
	NodesGroup     = "system:nodes"
	NodeUserPrefix = "system:node:"
)

// AudienceVerb is what a node must be allowed for each audience that no
// volume of the pod names (NodeRestriction, with the feature gate
// ServiceAccountNodeAudienceRestriction; on by default from 1.33). The audience
// stands in the place of the resource.
const AudienceVerb = "request-serviceaccounts-token-audience"

// rbacCommand grants what a user, or NodesGroup, lacks.
func rbacCommand(user, config string, secrets bool) string {
	words := []string{"regcred", "rbac"}
	if rest, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		words = append(words, "--service-account", terminal.ShellWord(strings.Replace(rest, ":", "/", 1)))
	} else if user != NodesGroup && !strings.HasPrefix(user, NodeUserPrefix) {
		words = append(words, "--user", terminal.ShellWord(user))
	}
	if secrets {
		words = append(words, "--pull-secrets")
	}
	return strings.Join(append(words, terminal.ShellWord(config), "| kubectl apply -f -"), " ")
}
