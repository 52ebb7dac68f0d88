// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/regcred/regcred/dockerconfig"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/plugin"
)

// dockercfg returns the docker config of the instance's metadata. Its keys
// are the answer's, as they stand.
func (p *Provider) dockercfg(ctx context.Context) (map[string]plugin.AuthConfig, error) {
	step, suffix := stepDockercfg, "instance/attributes/google-dockercfg"
	if p.opts.Flow == FlowDockercfgURL {
		step, suffix = stepDockercfgURL, "instance/attributes/google-dockercfg-url"
	}
	value, err := p.metadata(ctx, step, suffix)
	if err != nil {
		return nil, err
	}
	address := p.metadataURL(suffix)
	if p.opts.Flow == FlowDockercfgURL {
		step, address = stepFetch, strings.TrimSpace(value)
		if value, err = p.fetch(ctx, address); err != nil {
			return nil, err
		}
	}
	auth, err := dockerconfig.Parse([]byte(value), dockerconfig.DockerCfg)
	if err != nil {
		return nil, lied(step, http.MethodGet, address, err)
	}
	return auth, nil
}

// fetch gets the document that the instance's metadata names. Whoever may set
// the metadata thereby chooses whom the node asks: not a metadata server, with
// no header of ours, and nothing that it answers is shown to anybody.
func (p *Provider) fetch(ctx context.Context, address string) (string, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", errNotFetchable
	case remote.IsMetadata(u.Hostname()), strings.EqualFold(u.Host, p.opts.MetadataHost):
		return "", errMetadataTarget
	}
	client := p.client()
	if p.opts.Transport == nil {
		base := remote.Base()
		base.DialContext = (&net.Dialer{Timeout: 5 * time.Second, Control: refuseMetadata}).DialContext
		transport := remote.Wrap(base)
		defer transport.CloseIdleConnections()
		client.Transport = transport
	}
	answer, err := client.Do(ctx, remote.Call{Step: stepFetch, URL: address})
	if err != nil {
		return "", err
	}
	return string(answer.Body), nil
}

// refuseMetadata keeps a connection from being made to a metadata server by
// another name: it sees the address that the name led to.
func refuseMetadata(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil || remote.IsMetadata(host) {
		return errMetadataTarget
	}
	return nil
}

var (
	errMetadataTarget = errors.New("the instance attribute google-dockercfg-url points to a metadata server, " +
		"which is not allowed; set it to the URL of a docker config on another server")
	errNotFetchable = fmt.Errorf("%s: must be an http or https URL", stepDockercfgURL)
)
