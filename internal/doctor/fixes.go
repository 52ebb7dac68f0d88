// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/kube"
)

// KubeFix returns how to fix an API server error, or "". config is the path of the
// configuration.
func KubeFix(err error, config string) string {
	e, ok := errors.AsType[*kube.Error](err)
	switch {
	case !ok:
	case e.Code == http.StatusUnauthorized:
		return "the certificate or token may have expired, or may be for another cluster"
	case e.Code == http.StatusForbidden:
		return forbiddenFix(e, config)
	case e.Code == http.StatusNotFound && e.Resource == "secrets":
		return "create it in the pod's namespace (secrets in other namespaces are ignored), or remove it from the imagePullSecrets of the pod or its service account"
	}
	return ""
}

// forbiddenFix returns the fix for a 403 response. It depends on the message, which is from
// one of the API server's authorizers or from NodeRestriction.
func forbiddenFix(e *kube.Error, config string) string {
	says := func(part string) bool { return strings.Contains(e.Message, part) }
	user := regexp.MustCompile(`User "([^"]+)" cannot`).FindStringSubmatch(e.Message)
	switch {
	case says("no relationship found between node"), says("pod scheduled on a different node"):
		return "run this command on the pod's node, or use --kubeconfig with the kubeconfig of a user who has permission"
	case says("not bound to a pod"):
		return "use --pod"
	case says("to request tokens for "): // followed by "this audience" or, from 1.37 on, by the audience's name
		return grantPermissionsCommand(NodesGroup, config, false)
	case user != nil:
		return grantPermissionsCommand(user[1], config, e.Resource == "secrets")
	}
	return ""
}

// AttemptFix returns how to fix a failed or skipped attempt, or "". asPod means
// that the lookup was for a pod or service account.
func AttemptFix(at regcred.Attempt, asPod bool, config string) string {
	switch {
	case at.Err != nil:
		return KubeFix(at.Err, config)
	case at.Identity != nil && at.Identity.Missing != "":
		return annotateCommand(at.Identity)
	case at.Skipped != "" && at.Skipped != regcred.SkippedPath && !asPod:
		return "use --pod NAMESPACE/NAME to look up credentials for a pod; without an API server, use --service-account-token-file and --annotation"
	}
	return ""
}

// MissingCredentialFix returns how to add a credential for a repository to a pull secret.
func MissingCredentialFix(repository string) string {
	host, _, _ := strings.Cut(repository, "/")
	key := host
	if host == "docker.io" {
		key = location.HubKey
	}
	return fmt.Sprintf("add a credential for %s: kubectl create secret docker-registry … --docker-server=%s", host, terminal.QuoteShellWord(key))
}

// annotateCommand returns the command that adds a missing annotation to a service
// account.
func annotateCommand(id *regcred.Identity) string {
	account := id.ServiceAccount
	if account.Name == "" {
		return "--annotation " + terminal.QuoteShellWord(id.Missing) + "=VALUE"
	}
	command := fmt.Sprintf("kubectl annotate serviceaccount --namespace %s %s %s=VALUE",
		terminal.QuoteShellWord(account.Namespace), terminal.QuoteShellWord(account.Name), terminal.QuoteShellWord(id.Missing))
	if has := id.Similar[id.Missing]; has != "" {
		command = fmt.Sprintf("the service account has %s: rename it (%s %s-), or write that key in the configuration", has, command, terminal.QuoteShellWord(has))
	}
	return command
}

// Group and user name of a kubelet for the Node authorizer.
const (
	NodesGroup     = "system:nodes"
	NodeUserPrefix = "system:node:"
)

// RequestAudienceVerb is the verb that a kubelet needs to request tokens for an audience that
// no volume of the pod uses. The permission's resource is the audience. NodeRestriction
// requires this permission if the feature gate ServiceAccountNodeAudienceRestriction is
// enabled, which is the default from 1.33.
const RequestAudienceVerb = "request-serviceaccounts-token-audience"

// grantPermissionsCommand returns the command that grants permissions to a user or to NodesGroup.
func grantPermissionsCommand(user, config string, secrets bool) string {
	words := []string{"regcred", "rbac"}
	if rest, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		words = append(words, "--service-account", terminal.QuoteShellWord(strings.Replace(rest, ":", "/", 1)))
	} else if user != NodesGroup && !strings.HasPrefix(user, NodeUserPrefix) {
		words = append(words, "--user", terminal.QuoteShellWord(user))
	}
	if secrets {
		words = append(words, "--pull-secrets")
	}
	return strings.Join(append(words, terminal.QuoteShellPath(config), "| kubectl apply -f -"), " ")
}
