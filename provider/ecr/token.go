// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"context"
	"encoding/base64"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecrpublic"

	"github.com/regcred/regcred/plugin"
)

// maxCredentialLifetime is the lifetime of ECR credentials. It limits the cache duration in case an
// endpoint or clock is wrong.
const maxCredentialLifetime = 12 * time.Hour

// fetchAuthorization gets the registry's credential and its expiry. expires is nil if ECR returns no expiry.
func (s *session) fetchAuthorization(ctx context.Context) (auth plugin.AuthConfig, expires *time.Time, err error) {
	get, what, actions := s.privateToken, "get an authorization token from ECR in "+s.cfg.Region, "ecr:GetAuthorizationToken"
	if s.host.public {
		get, what = s.publicToken, "get an authorization token from ECR Public"
		actions = "ecr-public:GetAuthorizationToken and sts:GetServiceBearerToken"
	}
	s.beginStep(step{description: what, quotesMessages: true, fixes: map[string]string{
		"AccessDenied":       "allow " + actions + " for this identity",
		"UnrecognizedClient": "the identity belongs to another AWS partition, or its keys are no longer valid",
		"ExpiredToken":       "the identity's credentials have expired; check their source and the node's clock",
		"InvalidSignature":   "the secret key or the node's clock is wrong",
	}})
	s.log.Info("requesting an authorization token", "host", s.host.registry, "region", s.cfg.Region, "public", s.host.public)
	err = s.callWithFallback(func() error {
		token, end, err := get(ctx)
		if err == nil {
			auth, err = decodeToken(token)
		}
		expires = end
		return err
	})
	if err != nil {
		err = s.stepError(ctx, err)
	}
	return auth, expires, err
}

func (s *session) privateToken(ctx context.Context) (*string, *time.Time, error) {
	out, err := s.ecrClient().GetAuthorizationToken(ctx, &ecr.GetAuthorizationTokenInput{})
	if err != nil {
		return nil, nil, err
	}
	if len(out.AuthorizationData) == 0 {
		return nil, nil, responseError("no authorization data")
	}
	return out.AuthorizationData[0].AuthorizationToken, out.AuthorizationData[0].ExpiresAt, nil
}

func (s *session) publicToken(ctx context.Context) (*string, *time.Time, error) {
	out, err := s.ecrPublicClient().GetAuthorizationToken(ctx, &ecrpublic.GetAuthorizationTokenInput{})
	if err != nil {
		return nil, nil, err
	}
	if out.AuthorizationData == nil {
		return nil, nil, responseError("no authorization data")
	}
	return out.AuthorizationData.AuthorizationToken, out.AuthorizationData.ExpiresAt, nil
}

// decodeToken decodes an authorization token, which is USER:PASSWORD in base64.
func decodeToken(token *string) (plugin.AuthConfig, error) {
	if token == nil {
		return plugin.AuthConfig{}, responseError("no authorization token")
	}
	decoded, err := base64.StdEncoding.DecodeString(*token)
	if err != nil {
		return plugin.AuthConfig{}, responseError("the authorization token is not base64")
	}
	user, password, found := strings.Cut(string(decoded), ":")
	if !found || password == "" {
		return plugin.AuthConfig{}, responseError("the authorization token has no password")
	}
	return plugin.AuthConfig{Username: user, Password: plugin.NewSecret(password)}, nil
}

// cacheDuration returns half of the remaining lifetime in whole seconds. It returns 0
// if the expiry is unknown or has passed.
func cacheDuration(expires *time.Time, now time.Time) time.Duration {
	if expires == nil {
		return 0
	}
	left := min(expires.Sub(now), maxCredentialLifetime)
	return max(left/2, 0).Truncate(time.Second)
}
