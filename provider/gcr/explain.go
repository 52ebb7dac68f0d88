// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/plugin"
)

// Steps of a request, for error messages.
const (
	stepNodeToken      = "get the node's access token"
	stepExchange       = "exchange the service-account token"
	stepDockercfg      = "read the instance attribute google-dockercfg"
	stepDockercfgURL   = "read the instance attribute google-dockercfg-url"
	stepFetchDockercfg = "get the docker config"
)

var (
	errNoServiceAccount = errors.New("the pod pulls as its service account, but the request has no service-account token; " +
		"set tokenAttributes for this provider in the kubelet's configuration")
	errNotAnnotated = errors.New("workload identity is required, but the pod's service account has no annotation " +
		AnnotationEnable + `: "true"; add it, and list the key in tokenAttributes in the kubelet's configuration`)
	errNotGoogle = errors.New("the response has no header \"Metadata-Flavor: Google\", so the response is not from Google's metadata server; " +
		"to use another metadata server, set " + EnvMetadataHost)
)

// Fixes for failed requests.
const (
	hintNoMetadata      = "a node outside Google Cloud has no metadata server, so --sts-audience is required"
	hintNoMetadataInPod = "outside Google Cloud, there is no metadata server; configure workload identity federation with " + EnvCredentials
	hintNoAccount       = "attach a service account to the instance"
	hintNoDockercfg     = "set the attribute in the instance or project metadata, or use another --authFlow"
	hintForbidden       = "the metadata server rejected the request; check for a proxy or agent in front of it"
	hintNoSTS           = "check that the node can reach the endpoint, directly or through HTTPS_PROXY"
	hintExchange        = "check that the workload identity pool has a provider with the token's issuer and audience"
	hintImpersonation   = "grant the pod's identity roles/iam.workloadIdentityUser on the Google service account"
)

// addHint adds a fix to the error of a failed request.
func (p *Provider) addHint(err error) error {
	var failed *remote.Error
	if _, cured := errors.AsType[*remote.UnknownCAError](err); cured || !errors.As(err, &failed) {
		return err
	}
	hint := hintFor(failed)
	if hint == hintNoMetadata && p.inPod {
		hint = hintNoMetadataInPod
	}
	if hint != "" {
		return fmt.Errorf("%w; %s", err, hint)
	}
	return err
}

func hintFor(e *remote.Error) string {
	metadata := e.Step == stepNodeToken || e.Step == stepDockercfg || e.Step == stepDockercfgURL
	switch {
	case metadata && e.Status == 0:
		return hintNoMetadata
	case metadata && e.Status == http.StatusForbidden:
		return hintForbidden
	case e.Step == stepNodeToken && e.Status == http.StatusNotFound:
		return hintNoAccount
	case metadata && e.Status == http.StatusNotFound:
		return hintNoDockercfg
	case metadata, e.Step == stepFetchDockercfg:
		return ""
	case e.Step == stepExchange && e.Status == 0:
		return hintNoSTS
	case e.Step == stepExchange && isRejectedStatus(e.Status):
		return hintExchange
	case e.Step != stepExchange && e.Status == http.StatusForbidden:
		return hintImpersonation
	}
	return ""
}

// badResponseError returns an error for a response that has status 200 but an invalid body.
func badResponseError(step, method, address string, err error) error {
	return &remote.Error{Step: step, Method: method, Endpoint: remote.RedactEndpoint(address), Status: http.StatusOK, Err: err}
}

// addTokenClaims adds the token's subject, issuer and audience to an STS error, because the
// workload identity pool often accepts another issuer or audience. None of them is secret.
func addTokenClaims(err error, token plugin.Secret) error {
	var failed *remote.Error
	if !errors.As(err, &failed) || !isRejectedStatus(failed.Status) {
		return err
	}
	claims, parseErr := jwt.Parse(token.Reveal())
	if parseErr != nil {
		return fmt.Errorf("%w (the service-account token is not a JSON Web Token)", err)
	}
	return fmt.Errorf("%w (the token has subject %q, issuer %q and audience %q)",
		err, truncateText(claims.Subject), truncateText(claims.Issuer), truncateText(strings.Join(claims.Audience, " ")))
}

func isRejectedStatus(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusUnauthorized || status == http.StatusForbidden
}

// truncateText shortens external text for an error message.
func truncateText(s string) string {
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
