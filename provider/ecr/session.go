// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/credentials/processcreds"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"

	"github.com/regcred/regcred/internal/remote"
)

// session is one run: the SDK's configuration for one host, and what errors
// need to know about what was done.
type session struct {
	host     host
	cfg      aws.Config
	metadata *metadata
	wire     *wire
	log      *slog.Logger

	step    step
	secrets []string // never shown
}

// load reads the SDK's configuration for a host. Nothing is asked of anybody.
// Without asNode, no credentials are configured.
func (p *Provider) load(ctx context.Context, h host, asNode bool) (*session, error) {
	s := &session{host: h, metadata: &metadata{}, wire: &wire{}, log: p.log}
	client := p.client()
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(client),
		config.WithAPIOptions([]func(*middleware.Stack) error{s.wire.install}),
		config.WithRetryer(p.retryer),
		config.WithLogger(sdkLogger(p.log)),
		config.WithEC2RoleCredentialOptions(func(o *ec2rolecreds.Options) { o.Client = s.metadata }),
		// The SDK gives these a client of its own, which would ask a proxy.
		config.WithEndpointCredentialOptions(func(o *endpointcreds.Options) { o.HTTPClient = client }),
		// The SDK lets a process run for a minute, whatever ctx says: it would
		// outlive this one, and keep the host waiting for standard error.
		config.WithProcessCredentialOptions(func(o *processcreds.Options) { o.Timeout = p.opts.Budget * 8 / 9 }),
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
	s.cfg, s.metadata.cfg = cfg, cfg
	return s, nil
}

// region returns the region for a host whose name does not say it: that of the
// SDK's configuration, else that of the instance.
func (p *Provider) region(ctx context.Context) (string, error) {
	s, err := p.load(ctx, host{}, false)
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

// client returns the HTTP client of one run. It is the SDK's own, since that
// alone takes AWS_CA_BUNDLE and the short times for the metadata service.
func (p *Provider) client() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().
		WithTimeout(p.opts.Timeout).
		WithTransportOptions(func(t *http.Transport) { t.Proxy = route })
}

// route chooses the proxy of a request, and refuses those that a redirect
// sends elsewhere, with what was meant for the first host, or in a circle.
// (The SDK's client follows redirects with 307 and 308 to any host, and
// without end, and its transport is all that can be changed about it; a
// transport asks for the proxy first.)
func route(req *http.Request) (*url.URL, error) {
	redirects := 0
	for to := req; to.Response != nil && to.Response.Request != nil; to = to.Response.Request {
		from := to.Response.Request.URL
		if to.URL.Scheme != from.Scheme || !strings.EqualFold(to.URL.Host, from.Host) {
			return nil, redirectError(fmt.Sprintf("it redirects to another host, %q, which is not followed", to.URL.Host))
		}
		if redirects++; redirects > maxRedirects {
			return nil, redirectError("it redirects in a circle")
		}
	}
	return remote.Proxy(req)
}

const maxRedirects = 3

// redirectError says why a redirect is not followed.
type redirectError string

func (e redirectError) Error() string { return string(e) }

// retryer is the SDK's own, but for a status without an error code that asks
// for patience.
func (p *Provider) retryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxBackoff = p.opts.MaxPause
		o.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(neverRetried)}, o.Retryables...)
		o.Retryables = append(o.Retryables, retry.RetryableHTTPStatusCode{
			Codes: map[int]struct{}{http.StatusTooManyRequests: {}},
		})
	})
}

// maxAttempts returns AWS_MAX_ATTEMPTS or the profile's max_attempts, for which
// the SDK does not look beside a retryer that is given; 0 if neither is set.
func maxAttempts(ctx context.Context, sources []any) int {
	for _, source := range sources {
		if s, ok := source.(interface {
			GetRetryMaxAttempts(context.Context) (int, bool, error)
		}); ok {
			if n, found, err := s.GetRetryMaxAttempts(ctx); found && err == nil {
				return n
			}
		}
	}
	return 0
}

// neverRetried are errors that the SDK takes for those of a connection.
func neverRetried(err error) aws.Ternary {
	var redirect redirectError
	var answer answerError
	if errors.As(err, &redirect) || errors.As(err, &answer) {
		return aws.FalseTernary
	}
	return aws.UnknownTernary
}

// sdkLogger passes on what the SDK would print on standard error.
func sdkLogger(log *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(class logging.Classification, format string, v ...any) {
		log.Debug("AWS SDK", "level", string(class), "text", fmt.Sprintf(format, v...))
	})
}
