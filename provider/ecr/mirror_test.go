// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/provider/ecr"
)

// TestMirrors verifies that the response contains the target registry's credential under the image's own host.
func TestMirrors(t *testing.T) {
	const cache = "222233334444.dkr.ecr.ap-south-1.amazonaws.com"
	opts := ecr.Options{
		Mirrors: []string{
			"docker.io=" + cache + "/docker-hub", "docker.io/team=" + privateHost, "public.ecr.aws=" + cache + "/ecr-public",
			"quay.io:8443/a=" + cache, "registry.corp.example=ecr-public.aws.com",
		},
		MirrorOrigin: "none",
	}
	private := func(region string) testcloud.AWSSignature {
		return testcloud.AWSSignature{KeyID: "AKIAENV", Region: region, Service: "ecr"}
	}
	for image, tt := range map[string]struct {
		key   string
		scope plugin.CacheKeyType
		want  testcloud.AWSSignature
	}{
		"docker.io/library/nginx:1":   {"docker.io", plugin.CacheImage, private("ap-south-1")},
		"Docker.IO/library/nginx":     {"Docker.IO", plugin.CacheImage, private("ap-south-1")},
		"docker.io/team/app":          {"docker.io", plugin.CacheImage, private("eu-west-1")},
		"public.ecr.aws/docker/nginx": {"public.ecr.aws", plugin.CacheRegistry, private("ap-south-1")},
		"ecr-public.aws.com/x":        {"ecr-public.aws.com", plugin.CacheRegistry, testcloud.AWSSignature{KeyID: "AKIAENV", Region: "us-east-1", Service: "ecr-public"}},
		"quay.io:8443/a/b":            {"quay.io:8443", plugin.CacheImage, private("ap-south-1")},
		"registry.corp.example/x":     {"registry.corp.example", plugin.CacheRegistry, testcloud.AWSSignature{KeyID: "AKIAENV", Region: "us-east-1", Service: "ecr-public"}},
	} {
		t.Run(image, func(t *testing.T) {
			cloud := newCloud(t, append(staticKeysEnv(), "AWS_REGION=eu-central-1")...)
			resp := mustGetCredentials(t, opts, &plugin.Request{Image: image})
			want := map[string]plugin.AuthConfig{tt.key: {Username: "AWS", Password: plugin.NewSecret("open-sesame")}}
			if !cmp.Equal(resp.Auth, want) || resp.CacheKeyType != tt.scope {
				t.Errorf("got another response, or under another key, for %q", resp.CacheKeyType)
			}
			if diff := cmp.Diff([]testcloud.AWSSignature{tt.want}, requestSignatures(cloud)); diff != "" {
				t.Error(diff)
			}
		})
	}
	cloud := newCloud(t, staticKeysEnv()...)
	resp := mustGetCredentials(t, opts, &plugin.Request{Image: "quay.io:8443/b/a"}) // outside the mirrored part
	empty := &plugin.Response{CacheKeyType: plugin.CacheImage, CacheDuration: new(time.Duration(0))}
	if diff := cmp.Diff(empty, resp); diff != "" {
		t.Error(diff)
	}
	if got := cloud.RequestLines(); len(got) > 0 {
		t.Errorf("a host was called: %q", got)
	}
	cloud.Inject(testcloud.Fault{Status: 403, Times: -1})
	_, err := getCredentials(t, opts, &plugin.Request{Image: "docker.io/library/nginx"})
	if want := `image host "docker.io", mirrored by "` + cache + `": get an authorization token from ECR in ap-south-1: `; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}
