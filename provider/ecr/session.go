// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/credentials/processcreds"
	"github.com/aws/smithy-go/middleware"

	"github.com/regcred/regcred/internal/await"
	"github.com/regcred/regcred/internal/remote"
)

// session handles one request. It holds the SDK's configuration for one host.
type session struct {
	opts     Options
	host     registryHost
	cfg      aws.Config
	attempts int // per endpoint; 0 means the SDK's default
	metadata metadataClient
	log      *slog.Logger
	errorContext
}

// newSession returns a session. The caller must call end.
func newSession(opts Options, h registryHost) *session {
	s := &session{opts: opts, host: h, log: opts.Logger}
	s.httpClient.transport = remote.WrapTransport(opts.newTransport())
	return s
}

// close closes the session's connections.
func (s *session) close() { s.httpClient.transport.CloseIdleConnections() }

// loadConfig reads the SDK's configuration for the host. If asNode is false, it configures no
// credentials. If neither the host name nor the configuration contains a region, it gets the region
// from the instance metadata service.
func (s *session) loadConfig(ctx context.Context, asNode bool) error {
	if err := s.readSDKConfig(ctx, asNode); err != nil || s.cfg.Region != "" {
		return err
	}
	s.beginStep(step{description: "determine the region (the host name does not contain it)", fixes: map[string]string{
		"": "set --allow-host HOST=REGION or AWS_REGION",
	}})
	region, err := s.metadata.fetchRegion(ctx)
	if err != nil {
		return s.stepError(ctx, err)
	}
	s.host.region = region
	return s.readSDKConfig(ctx, asNode) // read again, because credential sources such as STS need the region
}

// readSDKConfig reads the environment and the configuration files. It does not send any
// requests.
func (s *session) readSDKConfig(ctx context.Context, asNode bool) error {
	options := []func(*config.LoadOptions) error{
		config.WithAPIOptions([]func(*middleware.Stack) error{s.httpClient.withTimeout(s.opts.Timeout)}),
		config.WithRetryer(func() aws.Retryer { return newRetryer(s.opts, &s.attempts) }),
		config.WithLogger(sdkLogger(s.log)),
		config.WithEC2RoleCredentialOptions(func(o *ec2rolecreds.Options) { o.Client = &s.metadata }),
		// By default, the SDK lets a credential process run for one minute, even if ctx ends. The
		// process would outlive the plugin and keep the plugin's standard error open.
		config.WithProcessCredentialOptions(func(o *processcreds.Options) { o.Timeout = s.opts.Budget * 8 / 9 }),
	}
	switch {
	case s.host.region != "":
		options = append(options, config.WithRegion(s.host.region))
	case s.host.public:
		// ECR Public is in one region. STS needs a region too.
		options = append(options, config.WithDefaultRegion(publicRegion))
	}
	if !asNode {
		options = append(options, config.WithCredentialsProvider(aws.AnonymousCredentials{}))
	}
	s.beginStep(step{description: "read the AWS configuration", fixes: map[string]string{
		"": "check the AWS_… variables, and the files in AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE",
	}})
	limit := s.opts.Budget * 2 / 9
	within, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("timed out after %v; one of the files might be a named pipe or on an unresponsive mount", limit))
	defer cancel()
	// The SDK may block reading a file.
	cfg, err := await.Call(within, "read the AWS configuration", func() (aws.Config, error) { return config.LoadDefaultConfig(within, options...) })
	if err != nil {
		return s.stepError(within, err)
	}
	s.attempts = maxAttempts(ctx, cfg.ConfigSources)
	s.httpClient.useCustomCAs(cfg.HTTPClient, s.opts.newTransport())
	s.cfg, s.metadata.session = cfg, s
	for _, source := range cfg.ConfigSources {
		switch c := source.(type) {
		case config.EnvConfig:
			s.environ = c
		case config.SharedConfig:
			s.profile = c
		}
	}
	return nil
}
