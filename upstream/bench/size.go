// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	credentialproviderapi "k8s.io/kubelet/pkg/apis/credentialprovider"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/kubelet"
)

// imageScopedPlugin returns a different credential for each image. Each credential is as large as a
// cloud's token.
type imageScopedPlugin struct{}

const entryCount = 100_000

// credentialBytes is the size of a response's auth key, user name and password.
const credentialBytes = len("registry.example.com") + len("user") + 1000

func newCredential() (user, password string) {
	return strings.Clone("user"), strings.Repeat("x", 1000)
}

func (imageScopedPlugin) GetCredentials(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
	user, password := newCredential()
	return &plugin.Response{
		CacheKeyType: plugin.CacheImage, CacheDuration: new(time.Hour),
		Auth: map[string]plugin.AuthConfig{strings.Clone("registry.example.com"): {Username: user, Password: plugin.NewSecret(password)}},
	}, nil
}

func (imageScopedPlugin) ExecPlugin(context.Context, string, string, map[string]string) (*credentialproviderapi.CredentialProviderResponse, error) {
	user, password := newCredential()
	return &credentialproviderapi.CredentialProviderResponse{
		CacheKeyType: credentialproviderapi.ImagePluginCacheKeyType, CacheDuration: &metav1.Duration{Duration: time.Hour},
		Auth: map[string]credentialproviderapi.AuthConfig{strings.Clone("registry.example.com"): {Username: user, Password: password}},
	}, nil
}

func benchMemory(b *bench) ([]row, error) {
	s, err := b.loadBothSides([]provider{{[]string{"registry.example.com"}, ""}})
	if err != nil {
		return nil, err
	}
	opts, err := s.useInProcessPlugins(imageScopedPlugin{}, imageScopedPlugin{})
	if err != nil {
		return nil, err
	}
	ring, err := regcred.New(s.config, opts)
	if err != nil {
		return nil, err
	}
	defer ring.Close()
	fill := func(lookup func(image string) int) (int, error) {
		before := heapInUse()
		for i := range entryCount {
			if lookup(fmt.Sprintf("registry.example.com/app-%d", i)) != 1 {
				return 0, fmt.Errorf("entry %d: no credential", i)
			}
		}
		return int(int64(heapInUse())-int64(before))/entryCount - credentialBytes, nil
	}
	x, err := fill(func(image string) int { return regcredLookup(ring, image) })
	if err != nil {
		return nil, err
	}
	runtime.KeepAlive(ring)
	y, err := fill(func(image string) int { return len(kubeletLookup(image)) })
	if err != nil {
		return nil, err
	}
	return []row{{
		What: "100,000 cached entries, beyond the credential bytes", Regcred: fmt.Sprintf("%d B per entry", x), Kubelet: fmt.Sprintf("%d B per entry", y),
		Ratio: fmt.Sprintf("%.1f×", float64(y)/float64(x)), Target: "≤ 512 B per entry", Met: x <= 512,
	}}, nil
}

func benchLoad(b *bench) ([]row, error) {
	providers := make([]provider, 1_000)
	for i := range providers {
		providers[i].patterns = []string{fmt.Sprintf("team-%d.example.com", i), fmt.Sprintf("*.team-%d.example.com", i), fmt.Sprintf("mirror.example.com/team-%d", i)}
	}
	s, err := b.loadBothSides(providers)
	if err != nil {
		return nil, err
	}
	path := s.bin + "/config.yaml"
	x, y := b.compareTimes(func(int) {
		if c, loadErr := config.Load(path); loadErr != nil {
			err = loadErr
		} else if invalid := c.Validate(); invalid != nil {
			err = invalid
		}
	}, func(int) {
		if c, _, loadErr := kubelet.ReadConfig(path); loadErr != nil {
			err = loadErr
		} else if invalid := kubelet.Validate(c); invalid != nil {
			err = invalid
		}
	})
	return []row{{
		What: "`Load` and `Validate`, 1,000 providers", Regcred: formatThreeDigits(x), Kubelet: formatThreeDigits(y), Ratio: fmt.Sprintf("%.2f×", float64(y)/float64(x)),
		Target: "not slower", Met: x <= y,
	}}, err
}
