// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"context"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/credentials/processcreds"
	"github.com/aws/smithy-go/middleware"
)

// session is one run: the SDK's configuration for one host.
type session struct {
	host     host
	cfg      aws.Config
	metadata *metadata
	log      *slog.Logger
	trail
}

// load reads the SDK's configuration for a host. Nothing is asked of anybody.
// Without asNode, no credentials are configured.
func load(ctx context.Context, opts Options, h host, asNode bool) (*session, error) {
	s := &session{host: h, metadata: &metadata{}, log: opts.Logger}
	client := newClient(opts)
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(client),
		config.WithAPIOptions([]func(*middleware.Stack) error{s.wire.install}),
		config.WithRetryer(func() aws.Retryer { return newRetryer(opts) }),
		config.WithLogger(sdkLogger(opts.Logger)),
		config.WithEC2RoleCredentialOptions(func(o *ec2rolecreds.Options) { o.Client = s.metadata }),
		// The SDK gives these a client of its own, which would ask a proxy.
		config.WithEndpointCredentialOptions(func(o *endpointcreds.Options) { o.HTTPClient = client }),
		// The SDK lets a process run for a minute, whatever ctx says: it would
		// outlive this one, and keep the host waiting for standard error.
		config.WithProcessCredentialOptions(func(o *processcreds.Options) { o.Timeout = opts.Budget * 8 / 9 }),
	}
	switch {
	case h.region != "":
		options = append(options, config.WithRegion(h.region))
	case h.public:
		// For a role; ECR Public itself is in one region.
		options = append(options, config.WithDefaultRegion(publicRegion))
	}
	if !asNode {
		options = append(options, config.WithCredentialsProvider(aws.AnonymousCredentials{}))
	}
	s.begin(step{what: "read the AWS configuration", cures: map[string]string{
		"": "see the variables AWS_… and the files that AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name",
	}})
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	cfg.RetryMaxAttempts = maxAttempts(ctx, cfg.ConfigSources)
	s.cfg, s.metadata.cfg, s.sources = cfg, cfg, cfg.ConfigSources
	return s, nil
}

// findRegion returns the region for a host whose name does not say it: that of the
// SDK's configuration, else that of the instance.
func findRegion(ctx context.Context, opts Options) (string, error) {
	s, err := load(ctx, opts, host{}, false)
	if err != nil {
		return "", err
	}
	if s.cfg.Region != "" {
		return s.cfg.Region, nil
	}
	s.begin(step{what: "find the region, which the host does not name", cures: map[string]string{
		"": "set --allow-host HOST=REGION or AWS_REGION",
	}})
	region, err := s.metadata.region(ctx)
	if err != nil {
		return "", s.fail(ctx, err)
	}
	return region, nil
}
