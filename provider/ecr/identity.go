// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/regcred/regcred/internal/jwt"
)

// findIdentity retrieves the AWS credentials before they are needed, so that an error describes
// this step. The SDK caches them for the following requests.
func (s *session) findIdentity(ctx context.Context) error {
	who, cure := s.opts.identityHint()
	cures := map[string]string{"": cure}
	if s.opts.inPod {
		cures["AccessDenied"], cures["InvalidIdentityToken"] = trustPolicyFix, issuerFix+" of the token"
	}
	s.beginStep(step{description: "find the " + who + "'s AWS credentials", listsMissingFiles: true, fixes: cures})
	s.log.Info("looking for AWS credentials", "of", who, "host", s.host.registry)
	if s.opts.inPod {
		if err := s.checkProfile(); err != nil {
			return s.stepError(ctx, err)
		}
	}
	creds, err := s.cfg.Credentials.Retrieve(ctx)
	if err == nil && !creds.HasKeys() {
		err = responseError("no keys")
	}
	if err != nil {
		return s.stepError(ctx, err)
	}
	s.secrets = append(s.secrets, creds.SecretAccessKey, creds.SessionToken)
	return nil
}

// Fixes for roles that STS rejects for a service account.
const (
	trustPolicyFix = "allow sts:AssumeRoleWithWebIdentity for the service account in the role's trust policy"
	issuerFix      = "in the role's account, add the cluster's issuer as an OIDC provider with the audience"
)

// assumeForPod assumes a role with a service account's token.
func (s *session) assumeForPod(ctx context.Context, role, name, token string) error {
	s.beginStep(step{description: fmt.Sprintf("assume the role %q at STS in %s", role, s.cfg.Region), quotesMessages: true, fixes: map[string]string{
		"AccessDenied":         trustPolicyFix,
		"InvalidIdentityToken": issuerFix + " of tokenAttributes",
		"ExpiredToken":         "the service account token has expired; check the node's and the API server's clocks",
	}})
	s.log.Info("assuming the role of the service account", "host", s.host.registry, "role", role, "region", s.cfg.Region)
	s.secrets = append(s.secrets, token)
	return s.useRole(ctx, func(client *sts.Client) (*types.Credentials, error) {
		out, err := client.AssumeRoleWithWebIdentity(ctx, &sts.AssumeRoleWithWebIdentityInput{
			RoleArn: &role, RoleSessionName: &name, WebIdentityToken: &token,
		})
		if err != nil {
			return nil, err
		}
		return out.Credentials, nil
	})
}

// assumeChain assumes an account's roles, each using the previous one.
func (s *session) assumeChain(ctx context.Context, c roleChain, as, name string) error {
	for _, role := range c.roles {
		s.beginStep(step{description: fmt.Sprintf("assume the role %q as %s at STS in %s", role, as, s.cfg.Region), quotesMessages: true, fixes: map[string]string{
			"AccessDenied": fmt.Sprintf("allow sts:AssumeRole in the role's trust policy and in the permissions of %s, "+
				"and check whether the policy requires an --external-id", as),
			"ExpiredToken":          "the credentials of " + as + " have expired; check their source and the node's clock",
			"InvalidClientTokenId":  "the keys of " + as + " are not valid, or belong to another AWS partition",
			"SignatureDoesNotMatch": "the secret key or the node's clock is wrong",
			"RegionDisabled":        "activate STS in this region for the account of " + as,
		}})
		s.log.Info("assuming a role for the registry's account", "host", s.host.registry, "role", role, "as", as, "region", s.cfg.Region)
		in := sts.AssumeRoleInput{RoleArn: &role, RoleSessionName: &name}
		if c.externalID != "" {
			in.ExternalId = &c.externalID
		}
		if err := s.useRole(ctx, func(client *sts.Client) (*types.Credentials, error) {
			out, err := client.AssumeRole(ctx, &in)
			if err != nil {
				return nil, err
			}
			return out.Credentials, nil
		}); err != nil {
			return err
		}
		as = role
	}
	return nil
}

// useRole calls STS and uses the returned credentials for all later requests.
func (s *session) useRole(ctx context.Context, ask func(*sts.Client) (*types.Credentials, error)) error {
	var c *types.Credentials
	err := s.callWithFallback(func() (err error) {
		c, err = ask(s.stsClient())
		return err
	})
	if err == nil && (c == nil || aws.ToString(c.AccessKeyId) == "" || aws.ToString(c.SecretAccessKey) == "" || aws.ToString(c.SessionToken) == "") {
		err = responseError("no credentials")
	}
	if err != nil {
		return s.stepError(ctx, err)
	}
	s.secrets = append(s.secrets, *c.SecretAccessKey, *c.SessionToken)
	s.cfg.Credentials = credentials.NewStaticCredentialsProvider(*c.AccessKeyId, *c.SecretAccessKey, *c.SessionToken)
	return nil
}

// defaultSessionName is used for nodes and for tokens that contain no service account.
const defaultSessionName = "ecr-credential-provider"

// sessionName returns the session name NAMESPACE_NAME for a service account. It appears in
// CloudTrail, and trust policies can refer to it. A name that is too long or has characters that
// Kubernetes does not allow is truncated and ends in "=" and a hash. Therefore two service accounts
// never share a session name.
func sessionName(token string) string {
	claims, err := jwt.Parse(token)
	if err != nil {
		return defaultSessionName
	}
	namespace, name, ok := claims.ServiceAccount()
	if !ok {
		return defaultSessionName
	}
	session := namespace + "_" + name
	if len(session) <= maxSessionNameLength && isKubernetesName(namespace) && isKubernetesName(name) {
		return session
	}
	legal := strings.Map(func(r rune) rune {
		if strings.ContainsRune(sessionNameCharacters, r) {
			return r
		}
		return '-'
	}, session)
	hash := fmt.Sprintf("=%.12x", sha256.Sum256([]byte(namespace+"/"+name)))
	return legal[:min(len(legal), maxSessionNameLength-len(hash))] + hash
}

const maxSessionNameLength = 64

func isSessionName(s string) bool {
	return len(s) >= 2 && len(s) <= maxSessionNameLength && strings.Trim(s, sessionNameCharacters) == ""
}

// isKubernetesName reports whether s has only characters that are allowed in the names of
// namespaces and service accounts.
func isKubernetesName(s string) bool {
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz"+digits+".-") == ""
}
