// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecrpublic"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/regcred/regcred/internal/remote"
)

// The form of the registry's host name selects the endpoints of ECR and STS: FIPS, dual-stack, both
// or neither. Settings of the SDK and custom endpoints take precedence.
//
// If a dual-stack endpoint is unreachable, the session uses the IPv4 endpoint from then on. A FIPS
// endpoint stays FIPS. There is no fallback if an endpoint has an invalid certificate or no TLS.

func (s *session) ecrClient() *ecr.Client {
	return ecr.NewFromConfig(s.cfg, func(o *ecr.Options) {
		s.setEndpointOptions(o.BaseEndpoint, &o.EndpointOptions.UseFIPSEndpoint, &o.EndpointOptions.UseDualStackEndpoint)
	})
}

func (s *session) ecrPublicClient() *ecrpublic.Client {
	return ecrpublic.NewFromConfig(s.cfg, func(o *ecrpublic.Options) {
		o.Region = publicRegion
		s.setEndpointOptions(o.BaseEndpoint, &o.EndpointOptions.UseFIPSEndpoint, &o.EndpointOptions.UseDualStackEndpoint)
	})
}

func (s *session) stsClient() *sts.Client {
	return sts.NewFromConfig(s.cfg, func(o *sts.Options) {
		s.setEndpointOptions(o.BaseEndpoint, &o.EndpointOptions.UseFIPSEndpoint, &o.EndpointOptions.UseDualStackEndpoint)
	})
}

// setEndpointOptions configures a client to use the registry's endpoints.
func (s *session) setEndpointOptions(custom *string, fips *aws.FIPSEndpointState, dualStack *aws.DualStackEndpointState) {
	s.httpClient.hasFallback.Store(false)
	if custom != nil || s.opts.PlainEndpoints {
		return
	}
	if s.host.fips && *fips == aws.FIPSEndpointStateUnset {
		*fips = aws.FIPSEndpointStateEnabled
	}
	if s.host.dualStack && *dualStack == aws.DualStackEndpointStateUnset {
		*dualStack = aws.DualStackEndpointStateEnabled
		s.httpClient.hasFallback.Store(true)
	}
}

// callWithFallback calls ask. If the dual-stack endpoint is unreachable, it calls ask again with
// the IPv4 endpoint.
func (s *session) callWithFallback(ask func() error) error {
	err := ask()
	var lost *noResponseError
	if !errors.As(err, &lost) || lost.connected || remote.IsPermanent(lost.cause) || !s.httpClient.hasFallback.Load() {
		return err
	}
	s.fallbackError = s.httpClient.lastExchange.Load().endpoint + ": " + lost.Error()
	s.log.Info("cannot connect to the dual-stack endpoint; falling back to the standard endpoint", "cause", s.fallbackError)
	s.host.dualStack = false
	return ask()
}

// preconnect connects to the ECR API in the background, while the credentials are retrieved.
func (s *session) preconnect(ctx context.Context) {
	if address := s.apiAddress(ctx); address != "" {
		s.httpClient.transport.Preconnect(ctx, address)
	}
}

// apiAddress returns the address of the API, or "" if it is unknown.
func (s *session) apiAddress(ctx context.Context) string {
	if s.host.public {
		o := s.ecrPublicClient().Options()
		at, err := o.EndpointResolverV2.ResolveEndpoint(ctx, ecrpublic.EndpointParameters{
			Region: &o.Region, Endpoint: o.BaseEndpoint,
			UseFIPS:      aws.Bool(o.EndpointOptions.UseFIPSEndpoint == aws.FIPSEndpointStateEnabled),
			UseDualStack: aws.Bool(o.EndpointOptions.UseDualStackEndpoint == aws.DualStackEndpointStateEnabled),
		})
		if err != nil {
			return "" // the request returns the error
		}
		return at.URI.String()
	}
	o := s.ecrClient().Options()
	at, err := o.EndpointResolverV2.ResolveEndpoint(ctx, ecr.EndpointParameters{
		Region: &o.Region, Endpoint: o.BaseEndpoint,
		UseFIPS:      aws.Bool(o.EndpointOptions.UseFIPSEndpoint == aws.FIPSEndpointStateEnabled),
		UseDualStack: aws.Bool(o.EndpointOptions.UseDualStackEndpoint == aws.DualStackEndpointStateEnabled),
	})
	if err != nil {
		return ""
	}
	return at.URI.String()
}
