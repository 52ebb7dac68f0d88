// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/smithy-go/middleware"
)

// metadataClient is a client for the instance metadata service. The SDK's own client makes
// nine attempts, a second or more apart, before it reports that the service does not
// exist.
type metadataClient struct {
	session *session
	once    sync.Once
	client  *imds.Client
}

const (
	metadataTimeout        = 5 * time.Second        // per request, including retries
	metadataAttemptTimeout = 600 * time.Millisecond // per attempt; the service is on the same machine
)

// initClient creates the client on first use.
func (m *metadataClient) initClient() {
	m.client = imds.NewFromConfig(m.session.cfg, func(o *imds.Options) {
		o.APIOptions = []func(*middleware.Stack) error{m.session.httpClient.withTimeout(metadataAttemptTimeout)}
		o.DisableDefaultMaxBackoff = true // otherwise the default replaces the backoff set below
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) {
			r.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(isRetryable)}, r.Retryables...)
			r.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) {
				return 50*time.Millisecond + rand.N(100*time.Millisecond), nil
			})
		})
	})
}

// GetMetadata gets one metadata item.
func (m *metadataClient) GetMetadata(ctx context.Context, in *imds.GetMetadataInput, opts ...func(*imds.Options)) (*imds.GetMetadataOutput, error) {
	// The SDK has the same limit, but applies it only to contexts without a deadline.
	ctx, cancel := context.WithTimeoutCause(ctx, metadataTimeout, fmt.Errorf("no response within %v", metadataTimeout))
	defer cancel()
	m.once.Do(m.initClient)
	return m.client.GetMetadata(ctx, in, opts...)
}

// fetchRegion returns the instance's region.
func (m *metadataClient) fetchRegion(ctx context.Context) (string, error) {
	out, err := m.GetMetadata(ctx, &imds.GetMetadataInput{Path: "placement/region"})
	if err != nil {
		return "", err
	}
	defer out.Content.Close()
	text, err := io.ReadAll(out.Content)
	region := strings.TrimSpace(string(text))
	if err != nil || !isRegion(region) {
		return "", responseError("not a region name")
	}
	return region, nil
}
