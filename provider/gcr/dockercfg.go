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

// metadataDockerConfig returns the docker config in the instance metadata, with its keys unchanged.
func (p *Provider) metadataDockerConfig(ctx context.Context) (map[string]plugin.AuthConfig, error) {
	step, suffix := stepDockercfg, "instance/attributes/google-dockercfg"
	if p.opts.Flow == FlowDockercfgURL {
		step, suffix = stepDockercfgURL, "instance/attributes/google-dockercfg-url"
	}
	value, err := p.getMetadata(ctx, step, suffix)
	if err != nil {
		return nil, err
	}
	address := p.metadataURL(suffix)
	if p.opts.Flow == FlowDockercfgURL {
		step, address = stepFetchDockercfg, strings.TrimSpace(value)
		if value, err = p.fetchDocument(ctx, address); err != nil {
			return nil, err
		}
	}
	auth, err := dockerconfig.Parse([]byte(value), dockerconfig.DockerCfg)
	if err != nil {
		return nil, badResponseError(step, http.MethodGet, address, err)
	}
	return auth, nil
}

// fetchDocument gets the document at a URL from the instance metadata. Anyone who can set the
// metadata controls the URL. Therefore the URL must not point to a metadata server, the request has
// no additional headers, and errors contain no part of the response.
func (p *Provider) fetchDocument(ctx context.Context, address string) (string, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", errInvalidDockercfgURL
	case remote.IsMetadataHost(u.Hostname()), strings.EqualFold(u.Host, p.opts.MetadataHost):
		return "", errDockercfgURLForbidden
	}
	client := p.newClient()
	if p.opts.Transport == nil {
		base := remote.NewBaseTransport()
		base.DialContext = (&net.Dialer{Timeout: 5 * time.Second, Control: rejectMetadataServer}).DialContext
		transport := remote.WrapTransport(base)
		defer transport.CloseIdleConnections()
		client.Transport = transport
	}
	answer, err := client.Do(ctx, remote.Call{Step: stepFetchDockercfg, URL: address})
	if err != nil {
		return "", err
	}
	return string(answer.Body), nil
}

// rejectMetadataServer rejects connections to a metadata server whose address was resolved from
// another name. It is called with the resolved address.
func rejectMetadataServer(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil || remote.IsMetadataHost(host) {
		return errDockercfgURLForbidden
	}
	return nil
}

var (
	errDockercfgURLForbidden = errors.New("the instance attribute google-dockercfg-url points to a metadata server, " +
		"which is not allowed; set it to the URL of a docker config on another server")
	errInvalidDockercfgURL = fmt.Errorf("%s: must be an http or https URL", stepDockercfgURL)
)
