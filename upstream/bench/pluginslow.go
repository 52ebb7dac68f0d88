// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/plugins"
)

// failingCloud is a cloud from which a plugin gets no response.
type failingCloud struct {
	what     string
	name     string // name of the plugin
	image    string
	cloud    func() (*plugins.Cloud, error)
	endpoint string        // endpoint that the error must name; "" means cloud's endpoint
	recorded time.Duration // the upstream plugin's recorded time; 0 if the plugin can be built
	limit    time.Duration // maximum time until the error
}

// benchUnresponsiveMetadata measures how long plugins take to give up. It runs each plugin once, which takes
// minutes.
func benchUnresponsiveMetadata(b *bench) ([]row, error) {
	upstream, err := plugins.BuildUpstreamECR(b.dir)
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, h := range []failingCloud{
		{what: "ECR: endpoint that never answers", name: plugins.ECR, image: ecrImage, cloud: blockResponses(plugins.NewAWSWithKeys), limit: 50 * time.Second},
		{what: "ECR: metadata service that refuses connections", name: plugins.ECR, image: ecrImage, cloud: startCloudWithoutMetadata, endpoint: "127.0.0.1:1", limit: 2 * time.Second},
		{what: "ACR: metadata service that never answers", name: plugins.ACR, image: azureImage, cloud: blockResponses(plugins.NewAzure), recorded: 59 * time.Second, limit: 50 * time.Second},
	} {
		path, err := plugins.Build(b.dir, h.name)
		if err != nil {
			return nil, err
		}
		r, err := h.measureRow(path, upstream)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.what, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// measureRow measures concurrently how long regcred's and the upstream plugin take to give up.
func (h failingCloud) measureRow(path, upstream string) (row, error) {
	c, err := h.cloud()
	if err != nil {
		return row{}, err
	}
	defer c.Close()
	var wg sync.WaitGroup
	theirs, how, theirErr := h.recorded, " (recorded)", error(nil)
	if h.recorded == 0 {
		how = ""
		wg.Go(func() { theirs, _, theirErr = h.measureGiveUp(c, upstream) })
	}
	ours, said, err := h.measureGiveUp(c, path)
	wg.Wait()
	endpoint := h.endpoint
	if endpoint == "" {
		endpoint = c.Addr()
	}
	return row{
		What: h.what, Regcred: "an error after " + formatSeconds(ours), Upstream: "an error after " + formatSeconds(theirs) + how,
		Ratio:  fmt.Sprintf("%.2f×", ours.Seconds()/theirs.Seconds()),
		Target: "≤ " + formatSeconds(h.limit) + ", naming the endpoint", Met: ours <= h.limit && strings.Contains(said, endpoint),
	}, errors.Join(err, theirErr)
}

// measureGiveUp runs a plugin that gets no response, and returns the time until it failed and its standard
// error. The timeout is longer than the plugin needs to give up.
func (h failingCloud) measureGiveUp(c *plugins.Cloud, path string) (time.Duration, string, error) {
	cmd := plugin.Command{Path: path, Args: plugin.NewSecrets(c.Args...), Environ: c.Environ, APIVersion: plugin.V1, Timeout: 5 * time.Minute}
	start := time.Now()
	_, err := cmd.GetCredentials(context.Background(), &plugin.Request{Image: h.image})
	d := time.Since(start)
	var failed *plugin.ExecError
	if !errors.As(err, &failed) || failed.Stage != plugin.StageExec {
		return d, "", fmt.Errorf("%s: it did not fail by itself: %w", path, err)
	}
	return d, failed.Stderr, nil
}

// blockResponses makes a cloud accept connections without responding.
func blockResponses(start func() (*plugins.Cloud, error)) func() (*plugins.Cloud, error) {
	return func() (*plugins.Cloud, error) {
		c, err := start()
		if err == nil {
			c.Inject(testcloud.Fault{Hang: true, Times: -1})
		}
		return c, err
	}
}

// startCloudWithoutMetadata starts an AWS cloud without a metadata service.
func startCloudWithoutMetadata() (*plugins.Cloud, error) {
	return plugins.NewAWS("AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:1")
}

func formatSeconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
