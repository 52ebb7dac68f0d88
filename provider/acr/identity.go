// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/internal/secretfile"
	"github.com/regcred/regcred/plugin"
)

// Service account annotations that set the identity.
const (
	clientIDAnnotation = "kubernetes.azure.com/acr-client-id"
	tenantIDAnnotation = "kubernetes.azure.com/acr-tenant-id"
)

// identity is the identity used to authenticate to the registry.
type identity struct {
	tenant           string // sent in the exchange
	token            func(context.Context) (string, error)
	staticCredential *plugin.AuthConfig // if set, returned as the credential without an exchange
}

// selectIdentity selects the identity. An image of a mirror is pulled with the node's identity.
// Otherwise, the service account's identity is used if the request has a token. Without a token,
// the node's identity is used unless identity bindings are configured.
func (s *session) selectIdentity(mirrored bool) (identity, error) {
	bound, hasToken := s.opts.Binding.SNIName != "", !s.req.ServiceAccountToken.IsZero()
	switch {
	case mirrored, !hasToken && (!bound || s.opts.FallbackToNode):
		return s.nodeIdentity()
	case !hasToken:
		return identity{}, errors.New("identity bindings require a service-account token, but the request has none; " +
			"set requireServiceAccount, or use --fallback-to-node-identity for pods without a service account")
	case bound:
		return s.podIdentity(s.opts.Binding.DefaultClientID, s.opts.Binding.DefaultTenantID, s.boundIdentity)
	}
	return s.podIdentity(s.opts.DefaultClientID, s.opts.DefaultTenantID, s.federatedIdentity)
}

// podIdentity returns the identity that the service account's annotations select. clientID and
// tenant are the defaults for missing annotations.
func (s *session) podIdentity(clientID, tenant string, by func(clientID, tenant string) (identity, error)) (identity, error) {
	own, hasClient := s.req.ServiceAccountAnnotations[clientIDAnnotation]
	if hasClient {
		clientID = own
	}
	own, hasTenant := s.req.ServiceAccountAnnotations[tenantIDAnnotation]
	if hasTenant {
		tenant = own
	}
	who, err := by(clientID, tenant)
	var missing missingIdentityError
	if errors.As(err, &missing) && s.opts.FallbackToNode && !hasClient && !hasTenant {
		return s.nodeIdentity()
	}
	return who, err
}

// missingIdentityError means that no identity is configured for a service account.
type missingIdentityError struct{ subject, annotation string }

func (e missingIdentityError) Error() string {
	return fmt.Sprintf("%s does not have the annotation %s, or the annotation is empty; "+
		"add the annotation and list its key in tokenAttributes in the provider's configuration, or set a default value with the plugin's flags", e.subject, e.annotation)
}

// serviceAccountName describes the request's service account for error messages.
func (s *session) serviceAccountName() string {
	claims, err := jwt.Parse(s.req.ServiceAccountToken.Reveal())
	if err == nil {
		if namespace, name, ok := claims.ServiceAccount(); ok {
			return fmt.Sprintf("service account %.253q", namespace+"/"+name)
		}
	}
	return "the service account"
}

// federatedIdentity exchanges the service account's token for an Entra ID token
// (workload identity federation).
func (s *session) federatedIdentity(clientID, tenant string) (identity, error) {
	switch {
	case clientID == "":
		return identity{}, missingIdentityError{s.serviceAccountName(), clientIDAnnotation}
	case tenant == "":
		return identity{}, missingIdentityError{s.serviceAccountName(), tenantIDAnnotation}
	}
	return identity{tenant: tenant, token: func(ctx context.Context) (string, error) {
		token, err := s.entraToken(ctx, clientID, tenant, assertionParams(s.req.ServiceAccountToken.Reveal()))
		return token, addEntraHint(err, fmt.Sprintf("check that application %.100q has a federated credential for the cluster's issuer, %s and the configured audience",
			clientID, s.serviceAccountName()))
	}}, nil
}

// nodeIdentity returns the identity in the cloud configuration.
func (s *session) nodeIdentity() (identity, error) {
	cfg, err := s.loadConfig()
	if err != nil {
		return identity{}, err
	}
	who := identity{tenant: cfg.TenantID}
	switch {
	case cfg.UseManagedIdentity:
		who.token = func(ctx context.Context) (string, error) { return s.managedToken(ctx, cfg) }
	case cfg.ClientID == "":
		return who, s.noIdentityError("")
	case cfg.UseFederatedIdentity && cfg.FederatedTokenFile != "":
		who.token = func(ctx context.Context) (string, error) { return s.federatedToken(ctx, cfg) }
	case cfg.ClientSecret != "" && s.opts.StaticSecret:
		who.staticCredential = &plugin.AuthConfig{Username: cfg.ClientID, Password: plugin.NewSecret(cfg.ClientSecret)}
	case cfg.ClientSecret != "":
		who.token = func(ctx context.Context) (string, error) {
			token, err := s.entraToken(ctx, cfg.ClientID, cfg.TenantID, url.Values{"client_secret": {cfg.ClientSecret}})
			return token, addEntraHint(err, "check tenantId, aadClientId and aadClientSecret in the cloud configuration")
		}
	case cfg.ClientCertPath != "":
		who.token = func(ctx context.Context) (string, error) { return s.certificateToken(ctx, cfg) }
	case cfg.DataPlaneIdentity != "":
		return who, s.noIdentityError("aadMSIDataPlaneIdentityPath is not supported; ")
	default:
		return who, s.noIdentityError("")
	}
	return who, nil
}

func (s *session) noIdentityError(why string) error {
	return fmt.Errorf("cloud configuration %q has no identity: %sset useManagedIdentityExtension, or aadClientId with one of aadClientSecret, "+
		"aadClientCertPath or aadFederatedTokenFile (which also requires useFederatedWorkloadIdentityExtension)", s.opts.ConfigFile, why)
}

func (s *session) federatedToken(ctx context.Context, cfg *config) (string, error) {
	name := s.opts.settingHint("aadFederatedTokenFile", envTokenFile)
	read := secretfile.ReadSecret
	if s.opts.pod != nil {
		// The kubelet writes the file with mode 0644 unless the pod sets a user or group. Therefore
		// other users in the pod may read it.
		read = secretfile.ReadTrusted
	}
	data, err := read(cfg.FederatedTokenFile)
	if err != nil {
		return "", fmt.Errorf("%s %w", name, err)
	}
	proof := strings.TrimSpace(string(data))
	if !isPrintableToken(proof) {
		return "", fmt.Errorf("%s %q: empty or not a token", name, cfg.FederatedTokenFile)
	}
	token, err := s.entraToken(ctx, cfg.ClientID, cfg.TenantID, assertionParams(proof))
	return token, addEntraHint(err, s.opts.settingHint("check tenantId and aadClientId in the cloud configuration, and the application's federated credential",
		"check AZURE_TENANT_ID and AZURE_CLIENT_ID, and the issuer, subject and audience of the identity's federated credential"))
}
