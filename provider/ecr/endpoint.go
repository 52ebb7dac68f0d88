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

// The endpoints of the API and STS follow from the form of the registry's host: FIPS,
// dual-stack, both or neither. The SDK's configuration and custom endpoints take
// precedence.
//
// If a dual-stack endpoint is unreachable, the IPv4 endpoint is used for the rest of
// the run; a FIPS endpoint stays FIPS. There is no fallback if an endpoint has a wrong
// certificate or no TLS.

func (s *session) ecr() *ecr.Client {
	return ecr.NewFromConfig(s.cfg, func(o *ecr.Options) {
		s.follow(o.BaseEndpoint, &o.EndpointOptions.UseFIPSEndpoint, &o.EndpointOptions.UseDualStackEndpoint)
	})
}

func (s *session) ecrPublic() *ecrpublic.Client {
	return ecrpublic.NewFromConfig(s.cfg, func(o *ecrpublic.Options) {
		o.Region = publicRegion
		s.follow(o.BaseEndpoint, &o.EndpointOptions.UseFIPSEndpoint, &o.EndpointOptions.UseDualStackEndpoint)
	})
}

func (s *session) sts() *sts.Client {
	return sts.NewFromConfig(s.cfg, func(o *sts.Options) {
		s.follow(o.BaseEndpoint, &o.EndpointOptions.UseFIPSEndpoint, &o.EndpointOptions.UseDualStackEndpoint)
	})
}

// follow configures a client to use the registry's endpoints.
func (s *session) follow(custom *string, fips *aws.FIPSEndpointState, dualStack *aws.DualStackEndpointState) {
	s.wire.fallback.Store(false)
	if custom != nil || s.opts.PlainEndpoints {
		return
	}
	if s.host.fips && *fips == aws.FIPSEndpointStateUnset {
		*fips = aws.FIPSEndpointStateEnabled
	}
	if s.host.dualStack && *dualStack == aws.DualStackEndpointStateUnset {
		*dualStack = aws.DualStackEndpointStateEnabled
		s.wire.fallback.Store(true)
	}
}

// reach calls an endpoint. If the endpoint is unreachable, reach calls the fallback
// endpoint.
func (s *session) reach(ask func() error) error {
	err := ask()
	var lost *lostError
	if !errors.As(err, &lost) || lost.connected || remote.IsPermanent(lost.cause) || !s.wire.fallback.Load() {
		return err
	}
	s.before = s.wire.last.Load().endpoint + ": " + lost.Error()
	s.log.Info("cannot connect to the dual-stack endpoint; falling back to the standard endpoint", "cause", s.before)
	s.host.dualStack = false
	return ask()
}

// connectEarly starts connecting to the API while the identity is determined.
func (s *session) connectEarly(ctx context.Context) {
	if address := s.address(ctx); address != "" {
		s.wire.transport.Ahead(ctx, address)
	}
}

// address returns the address of the API, or "" if it is unknown.
func (s *session) address(ctx context.Context) string {
	if s.host.public {
		o := s.ecrPublic().Options()
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
	o := s.ecr().Options()
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
