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

// The API and STS are asked in the form that the registry's name has: at their
// FIPS endpoints, and over IPv6 too (dual-stack). What the SDK's configuration
// says, on or off, and an endpoint of one's own come first.
//
// If there is no connection to a dual-stack endpoint, the other is asked, for
// the rest of the run. One that is FIPS stays FIPS. Whoever is there with a
// certificate that is not the endpoint's, or without TLS, is not passed over.

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

// follow makes a client ask in the way in which the registry is asked.
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

// reach asks, and if nobody could be asked, and there is another endpoint,
// once more there.
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

// ahead begins to connect to the API, while others are asked who this is.
func (s *session) ahead(ctx context.Context) {
	if address := s.address(ctx); address != "" {
		s.wire.transport.Ahead(ctx, address)
	}
}

// address is where the API will be asked; "" if that is not known.
func (s *session) address(ctx context.Context) string {
	if s.host.public {
		o := s.ecrPublic().Options()
		at, err := o.EndpointResolverV2.ResolveEndpoint(ctx, ecrpublic.EndpointParameters{
			Region: &o.Region, Endpoint: o.BaseEndpoint,
			UseFIPS:      aws.Bool(o.EndpointOptions.UseFIPSEndpoint == aws.FIPSEndpointStateEnabled),
			UseDualStack: aws.Bool(o.EndpointOptions.UseDualStackEndpoint == aws.DualStackEndpointStateEnabled),
		})
		if err != nil {
			return "" // of which the request says more
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
