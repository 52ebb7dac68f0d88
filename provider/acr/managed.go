// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/remote"
)

// A managed identity gets tokens from an endpoint on the node or on its local link, without TLS.
// The endpoint is the metadata server of a virtual machine (IMDS), the Azure Arc agent, or
// IDENTITY_ENDPOINT as used by App Service.

const managedStep = "get a token for the node's managed identity"

// metadataServerURL is the scheme and host of the metadata server of a virtual machine.
const metadataServerURL = "http://169.254.169.254"

const identityPath = "/metadata/identity/oauth2/token"

// managedSource describes an endpoint that returns tokens for managed identities.
type managedSource struct {
	address             string
	version             string // API version
	headerName          string // name of the authorization header
	headerValue         string // value of the authorization header
	resourceIDParameter string // name of the parameter for a resource ID
	isArc               bool   // the Azure Arc agent, which requires a key
}

// managedToken gets a token for a managed identity of the node. This is the configured identity, or
// else the system-assigned identity.
func (s *session) managedToken(ctx context.Context, cfg *config) (string, error) {
	id := cfg.UserAssignedIdentityID
	token, err := s.requestManagedToken(ctx, id)
	if err != nil && cfg.ClientID != "" && cfg.ClientID != "msi" && (cfg.hasSecret() || cfg.ClientCertPath != "") && s.opts.ConfigFile != "" {
		err = addHint(err, "useManagedIdentityExtension is true, so aadClientId and its secret or certificate are ignored: set it to false to use them")
	}
	switch {
	case isNoResponse(err):
		return "", addHint(err, "check that the node runs on Azure, and that no firewall or network policy blocks the address")
	case hasReason(err, remote.ReasonSeveralIdentities):
		return "", addHint(err, s.opts.settingHint("set userAssignedIdentityID in the cloud configuration to the client ID of the one that may pull (on AKS: az aks show -g GROUP -n CLUSTER --query identityProfile.kubeletidentity.clientId)",
			"set AZURE_CLIENT_ID to the client ID of the one that may pull"))
	case id != "" && (hasReason(err, remote.ReasonUnknownIdentity) || hasReason(err, remote.ReasonNoIdentity)):
		return "", addHint(err, fmt.Sprintf("identity %.200q", id)+s.opts.settingHint(" (userAssignedIdentityID in the cloud configuration)", " (AZURE_CLIENT_ID)")+
			" is not assigned to this machine: assign it with az vm identity assign (az vmss identity assign for a scale set), or correct the ID")
	case id == "":
		return token, addHint(err, s.opts.settingHint("check that the node has a system-assigned identity, or set userAssignedIdentityID in the cloud configuration",
			"check that the node has a system-assigned identity, set AZURE_CLIENT_ID, or configure workload identity for the service account"))
	}
	return token, addHint(err, fmt.Sprintf("check that identity %.200q", id)+
		s.opts.settingHint(" (userAssignedIdentityID in the cloud configuration) is assigned to the node", " (AZURE_CLIENT_ID) is assigned to the node"))
}

// hasReason reports whether an endpoint stated a reason.
func hasReason(err error, reason string) bool {
	failed, ok := errors.AsType[*remote.Error](err)
	return ok && failed.Reason == reason
}

func (s *session) requestManagedToken(ctx context.Context, id string) (string, error) {
	from, err := s.managedSource()
	if err != nil {
		return "", fmt.Errorf("%s: %w", managedStep, err)
	}
	client, name := s.localClient(), from.identityParameter(id)
	call, err := from.newCall(name, id)
	if err != nil {
		return "", fmt.Errorf("%s: %w", managedStep, err)
	}
	if from.isArc {
		if call.Header, err = s.arcHeader(ctx, client, call); err != nil {
			return "", err
		}
	}
	answer, err := client.Do(ctx, call)
	if err != nil {
		return "", err
	}
	members, err := parseJSONObject(answer.Body)
	if err == nil && from.isArc && id != "" && !confirmsIdentity(members, name, id) {
		err = errors.New("the response does not confirm the requested identity; an agent that supports only one identity ignores the identity in the request")
	}
	token := ""
	if err == nil {
		token, err = members.tokenMember("access_token")
	}
	if err != nil {
		return "", fmt.Errorf("%s: GET %s: %w", managedStep, remote.RedactEndpoint(from.address), err)
	}
	return token, nil
}

// managedSource selects the endpoint based on environment variables, in the same order as
// Microsoft's libraries. Variables of platforms without a kubelet are an error. If they were
// ignored, a different identity would be used.
func (s *session) managedSource() (managedSource, error) {
	env := s.opts.Getenv
	endpoint, header := env("IDENTITY_ENDPOINT"), env("IDENTITY_HEADER")
	switch {
	case endpoint != "" && header != "" && env("IDENTITY_SERVER_THUMBPRINT") != "":
		return managedSource{}, errors.New("IDENTITY_SERVER_THUMBPRINT is set, but Service Fabric is not supported; remove the variable from the kubelet's environment")
	case endpoint != "" && header != "":
		return managedSource{address: endpoint, version: "2019-08-01", headerName: "X-IDENTITY-HEADER", headerValue: header, resourceIDParameter: "mi_res_id"}, nil
	case env("MSI_ENDPOINT") != "":
		return managedSource{}, errors.New("MSI_ENDPOINT is set, but Cloud Shell and Machine Learning are not supported; remove the variable from the kubelet's environment")
	}
	from := managedSource{address: metadataServerURL + identityPath, version: "2018-02-01", headerName: "Metadata", headerValue: "true", resourceIDParameter: "msi_res_id"}
	if host := env("AZURE_POD_IDENTITY_AUTHORITY_HOST"); host != "" {
		from.address = strings.TrimRight(host, "/") + identityPath
	}
	if endpoint != "" && env("IMDS_ENDPOINT") != "" || s.arc.isInstalled() {
		from.isArc, from.version = true, "2020-06-01"
		from.address = "http://127.0.0.1:40342" + identityPath
		if endpoint != "" {
			from.address = endpoint
		}
	}
	return from, nil
}

// identityParameter returns the name of the query parameter for an identity. It returns "" for the
// system-assigned identity. Like the upstream plugin, it recognizes a resource ID by
// "/subscriptions/".
func (from managedSource) identityParameter(id string) string {
	switch {
	case id == "":
		return ""
	case strings.Contains(strings.ToLower(id), "/subscriptions/"):
		return from.resourceIDParameter
	}
	return "client_id"
}

// newCall returns a request for a token. It is retried after 404, 410 and 5xx, because a metadata
// server responds with these statuses during an update.
func (from managedSource) newCall(parameter, id string) (remote.Call, error) {
	u, err := url.Parse(from.address)
	if err != nil {
		return remote.Call{}, errors.New("the endpoint address in the environment is not a URL")
	}
	query := u.Query()
	query.Set("api-version", from.version)
	query.Set("resource", tokenAudience)
	if parameter != "" {
		query.Set(parameter, id)
	}
	u.RawQuery = query.Encode()
	retry := []int{http.StatusNotFound, http.StatusGone}
	for status := 500; status < 600; status++ {
		retry = append(retry, status)
	}
	return remote.Call{
		Step: managedStep, URL: u.String(), Header: http.Header{from.headerName: {from.headerValue}},
		RetryStatuses: retry, RetryLonger: true,
	}, nil
}

// localClient returns a client for endpoints on the node or its local link. It uses no proxy.
func (s *session) localClient() remote.Client {
	client := s.client
	client.UserAgent = s.tokenUserAgent()
	if s.opts.Transport == nil {
		base := remote.NewBaseTransport()
		base.Proxy = nil
		client.Transport = s.newTransport(base)
	}
	return client
}

// arcAgent describes the Azure Arc agent. The zero value is for operating systems that Arc does not
// support.
type arcAgent struct {
	programPath string // file that exists if the agent is installed
	keyDir      string // directory of the key files
}

// newArcAgent returns the agent for an operating system. Arc supports Linux and Windows.
func newArcAgent(goos string, getenv func(string) string) arcAgent {
	const windows = "AzureConnectedMachineAgent"
	switch goos {
	case "linux":
		return arcAgent{"/opt/azcmagent/bin/himds", "/var/opt/azcmagent/tokens"}
	case "windows":
		return arcAgent{filepath.Join(getenv("ProgramFiles"), windows, "himds.exe"), filepath.Join(getenv("ProgramData"), windows, "Tokens")}
	}
	return arcAgent{}
}

func (a arcAgent) isInstalled() bool {
	_, err := os.Stat(a.programPath)
	return a.programPath != "" && err == nil
}

// arcHeader returns a header that authorizes a request to the Azure Arc agent. It contains the key
// in the file that the agent's challenge names. Only privileged users can read this file.
func (s *session) arcHeader(ctx context.Context, client remote.Client, call remote.Call) (http.Header, error) {
	call.AcceptStatuses = []int{http.StatusUnauthorized}
	answer, err := client.Do(ctx, call)
	if err != nil {
		return nil, err
	}
	key, err := s.arc.readKey(ctx, answer.Header.Values("WWW-Authenticate"))
	if err != nil {
		return nil, fmt.Errorf("%s: GET %s: status 401: %w", managedStep, remote.RedactEndpoint(call.URL), err)
	}
	header := call.Header.Clone()
	header.Set("Authorization", "Basic "+key)
	return header, nil
}

// maxArcKeySize limits the size of the agent's key in bytes, as in Microsoft's libraries.
const maxArcKeySize = 4096

// readKey reads the key file named in a challenge. Any process can listen on the agent's port, so
// readKey reads only the agent's own key files.
func (a arcAgent) readKey(ctx context.Context, lines []string) (string, error) {
	path := ""
	for _, c := range parseChallenges(lines) {
		if c.scheme == "basic" && path == "" {
			path = c.params["realm"]
		}
	}
	dir, name := filepath.Split(path)
	switch {
	case a.keyDir == "":
		return "", errors.New("this operating system does not support the Azure Arc agent")
	case path == "":
		return "", errors.New("the realm in the Basic challenge is not a file path, so the challenge is not from Azure Arc")
	case filepath.Clean(dir) != a.keyDir, filepath.Ext(name) != ".key":
		return "", fmt.Errorf("refusing to read the file named in the challenge, because it is not a .key file in %s", a.keyDir)
	}
	root, err := os.OpenRoot(a.keyDir)
	if err != nil {
		return "", fmt.Errorf("open the Azure Arc agent's keys: %w", err)
	}
	defer root.Close()
	data, err := regularfile.ReadIn(ctx, root, name, maxArcKeySize)
	if err != nil {
		return "", fmt.Errorf("read the Azure Arc agent's key in %s: %w", a.keyDir, regularfile.BareError(err))
	}
	key := strings.TrimSpace(string(data))
	if !isPrintableToken(key) {
		return "", fmt.Errorf("the Azure Arc agent's key in %s is not a single line of text", a.keyDir)
	}
	return key, nil
}

// confirmsIdentity reports whether the response of the Azure Arc agent is for the requested identity.
func confirmsIdentity(m jsonObject, parameter, id string) bool {
	for _, name := range []string{parameter, "mi_res_id"} {
		if said, _ := m[name].(string); said != "" {
			return strings.EqualFold(said, id)
		}
	}
	return false
}
