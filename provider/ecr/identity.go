// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/regcred/regcred/internal/jwt"
)

// findIdentity gets the node's credentials, for an error of its own if there
// are none. The SDK keeps them for the question that follows.
func (s *session) findIdentity(ctx context.Context) error {
	s.begin(step{what: "find the node's AWS credentials", files: true, cures: map[string]string{
		"": "give the instance a role, or the plugin a source of credentials that the AWS SDK knows",
	}})
	s.log.Info("looking for the node's AWS credentials", "host", s.host.registry)
	creds, err := s.cfg.Credentials.Retrieve(ctx)
	if err == nil && !creds.HasKeys() {
		err = answerError("it has no keys")
	}
	if err != nil {
		return s.fail(ctx, err)
	}
	s.secrets = append(s.secrets, creds.SecretAccessKey, creds.SessionToken)
	return nil
}

// assume takes a role in the name of the service account.
func (s *session) assume(ctx context.Context, role, token string) error {
	s.begin(step{what: fmt.Sprintf("assume the role %q at STS in %s", role, s.cfg.Region), quotes: true, cures: map[string]string{
		"AccessDenied":         "let the role's trust policy allow sts:AssumeRoleWithWebIdentity to the service account",
		"InvalidIdentityToken": "make the cluster's issuer an OIDC provider of the role's account, with the audience of tokenAttributes",
		"ExpiredToken":         "the service account's token has expired: look at the clocks of the node and the API server",
	}})
	s.log.Info("assuming the role of the service account", "host", s.host.registry, "role", role, "region", s.cfg.Region)
	s.secrets = append(s.secrets, token)
	client := sts.NewFromConfig(s.cfg)
	out, err := client.AssumeRoleWithWebIdentity(ctx, &sts.AssumeRoleWithWebIdentityInput{
		RoleArn:          aws.String(role),
		RoleSessionName:  aws.String(sessionName(token)),
		WebIdentityToken: aws.String(token),
	})
	if err != nil {
		return s.fail(ctx, err)
	}
	c := out.Credentials
	if c == nil || aws.ToString(c.AccessKeyId) == "" || aws.ToString(c.SecretAccessKey) == "" || aws.ToString(c.SessionToken) == "" {
		return s.fail(ctx, answerError("it has no credentials"))
	}
	s.secrets = append(s.secrets, *c.SecretAccessKey, *c.SessionToken)
	s.cfg.Credentials = credentials.NewStaticCredentialsProvider(*c.AccessKeyId, *c.SecretAccessKey, *c.SessionToken)
	return nil
}

// defaultSessionName is that of a token that does not name a service account.
const defaultSessionName = "ecr-credential-provider"

// sessionName names the session after the service account, as
// NAMESPACE_NAME, so that CloudTrail and the conditions of a trust policy can
// tell pods apart. STS takes 2 to 64 of the characters [\w+=,.@-].
func sessionName(token string) string {
	claims, err := jwt.Parse(token)
	if err != nil {
		return defaultSessionName
	}
	namespace, name, ok := claims.ServiceAccount()
	if !ok {
		return defaultSessionName
	}
	session := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune("_+=,.@-", r):
			return r
		}
		return '-'
	}, namespace+"_"+name)
	return session[:min(len(session), 64)]
}
