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

// metadata asks the instance metadata service. The SDK's own client would be
// in its place if that could be told how often to try: it makes nine attempts,
// with a second or more between them, to find out that nobody is there.
type metadata struct {
	session *session
	once    sync.Once
	client  *imds.Client
}

const (
	metadataTimeout = 5 * time.Second        // of one question, with its retries
	metadataAttempt = 600 * time.Millisecond // of one attempt: it is on the same machine, or nowhere
)

// connect makes the client: not before it is needed, since many nodes have no use for it.
func (m *metadata) connect() {
	m.client = imds.NewFromConfig(m.session.cfg, func(o *imds.Options) {
		o.APIOptions = []func(*middleware.Stack) error{m.session.wire.within(metadataAttempt)}
		o.DisableDefaultMaxBackoff = true // which would replace the one below
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) {
			r.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(neverRetried)}, r.Retryables...)
			r.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) {
				return 50*time.Millisecond + rand.N(100*time.Millisecond), nil
			})
		})
	})
}

// GetMetadata asks for one item.
func (m *metadata) GetMetadata(ctx context.Context, in *imds.GetMetadataInput, opts ...func(*imds.Options)) (*imds.GetMetadataOutput, error) {
	// The SDK has the same bound, but only for a context without a deadline.
	ctx, cancel := context.WithTimeoutCause(ctx, metadataTimeout, fmt.Errorf("no response within %v", metadataTimeout))
	defer cancel()
	m.once.Do(m.connect)
	return m.client.GetMetadata(ctx, in, opts...)
}

// region asks where the instance is.
func (m *metadata) region(ctx context.Context) (string, error) {
	out, err := m.GetMetadata(ctx, &imds.GetMetadataInput{Path: "placement/region"})
	if err != nil {
		return "", err
	}
	defer out.Content.Close()
	text, err := io.ReadAll(out.Content)
	region := strings.TrimSpace(string(text))
	if err != nil || !isRegion(region) {
		return "", answerError("not a region name")
	}
	return region, nil
}
