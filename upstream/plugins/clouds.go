// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugins

import (
	"os"
	"path/filepath"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/testcloud"
)

// Cloud serves a plugin's endpoints on loopback. The caller must close it.
type Cloud struct {
	*testcloud.Server                   // records the requests
	Environ           []string          // environment of the plugin
	Args              []string          // arguments of the plugin
	Annotations       map[string]string // annotations of a service account that may pull

	close []func()
}

// Close stops the cloud.
func (c *Cloud) Close() {
	for i := len(c.close) - 1; i >= 0; i-- {
		c.close[i]()
	}
}

// NewAWS starts an AWS cloud for a plugin with env in its environment. The only
// credentials are the instance's role.
func NewAWS(env ...string) (*Cloud, error) {
	a, err := testcloud.NewAWS()
	if err != nil {
		return nil, err
	}
	return &Cloud{
		Server: a.Server, Environ: append(a.Environ(), env...), close: []func(){a.Close},
		Annotations: map[string]string{roleAnnotation: roleARN},
	}, nil
}

// NewAWSWithKeys is like [NewAWS], with an access key in the environment.
func NewAWSWithKeys() (*Cloud, error) {
	return NewAWS("AWS_ACCESS_KEY_ID="+staticAccessKey, "AWS_SECRET_ACCESS_KEY="+canary.EnvSecret)
}

const (
	staticAccessKey = "AKIASTATIC0000000000"

	// roleAnnotation is the annotation that names a service account's role. roleARN is such a role.
	roleAnnotation = "eks.amazonaws.com/ecr-role-arn"
	roleARN        = "arn:aws:iam::111122223333:role/puller"
)

// NewGoogle starts a Google cloud.
func NewGoogle() (*Cloud, error) {
	fakeNet, err := testcloud.NewFakeNetwork()
	if err != nil {
		return nil, err
	}
	g, err := testcloud.NewGoogle(fakeNet)
	if err != nil {
		fakeNet.Close()
		return nil, err
	}
	return &Cloud{
		Server: g.Server, Environ: g.Environ(), Args: []string{"get-credentials", "--v=3"},
		close: []func(){fakeNet.Close, g.Close},
	}, nil
}

// azureConfigJSON is the azure.json of a node with a managed identity.
const azureConfigJSON = `{
  "cloud": "AzurePublicCloud", "tenantId": "66666666-7777-8888-9999-000000000000",
  "useManagedIdentityExtension": true
}
`

// NewAzure starts an Azure cloud, with an azure.json for the plugin.
func NewAzure() (*Cloud, error) {
	fakeNet, err := testcloud.NewFakeNetwork()
	if err != nil {
		return nil, err
	}
	c, err := newAzureIn(fakeNet)
	if err != nil {
		fakeNet.Close()
		return nil, err
	}
	c.Environ, c.close = append(c.Environ, fakeNet.Environ()...), append([]func(){fakeNet.Close}, c.close...)
	return c, nil
}

// newAzureIn is like NewAzure, with a network that the caller closes.
func newAzureIn(fakeNet *testcloud.FakeNetwork) (*Cloud, error) {
	a := testcloud.NewAzure()
	a.AddHosts(fakeNet)
	// One token for all runs, because their responses are compared.
	token := testcloud.AzureJWT(map[string]any{"jti": canary.PasswordSecret, "exp": time.Now().Add(3 * time.Hour).Unix()})
	a.Update(func(s *testcloud.AzureState) { s.RefreshToken = token })
	c := &Cloud{
		Server: a.Server, Environ: a.Environ(), close: []func(){a.Close},
		Annotations: map[string]string{
			"kubernetes.azure.com/acr-client-id": "11111111-2222-3333-4444-555555555555",
			"kubernetes.azure.com/acr-tenant-id": "66666666-7777-8888-9999-000000000000",
		},
	}
	dir, err := os.MkdirTemp("", "plugins-azure-")
	if err != nil {
		c.Close()
		return nil, err
	}
	c.close = append(c.close, func() { os.RemoveAll(dir) })
	config := filepath.Join(dir, "azure.json")
	c.Args = []string{config}
	if err := os.WriteFile(config, []byte(azureConfigJSON), 0o600); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}
