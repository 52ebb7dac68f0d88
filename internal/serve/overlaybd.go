// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package serve

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/match"
)

// overlaybdResponse is a response to overlaybd (credentialConfig.mode "uds", src/image_service.cpp).
type overlaybdResponse struct {
	TraceID string        `json:"traceId"`
	Success bool          `json:"success"`
	Data    overlaybdData `json:"data"`
}

// overlaybdData always contains auths, because overlaybd does not check whether it exists.
type overlaybdData struct {
	Auths map[string]overlaybdAuth `json:"auths"`
}

type overlaybdAuth struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

const (
	// overlaybd retries a failed read three times, 1 ms apart. A request within this time after the
	// last one may follow a rejected credential.
	overlaybdRetryWindow = 5 * time.Second

	hubHost, hubName = "registry-1.docker.io", "docker.io"
)

// overlaybdAuth handles GET /auth?remote_url=URL.
func (s *Server) overlaybdAuth(r *request) *reply {
	resp := overlaybdResponse{TraceID: rand.Text(), Data: overlaybdData{Auths: map[string]overlaybdAuth{}}}
	host, image, ok := parseRemoteURL(r.query)
	if !ok {
		return jsonReply(http.StatusBadRequest, resp)
	}
	now, err := s.loaded(r)
	if err != nil {
		return jsonReply(http.StatusServiceUnavailable, resp)
	}
	res, err := s.lookupForAsker(r, now, []regcred.Request{{Image: image}}, false, overlaybdRetryWindow)
	if err != nil {
		return jsonReply(http.StatusBadGateway, resp)
	}
	resp.Success = true
	for _, c := range res.Credentials {
		if c.Username != "" { // overlaybd would send an empty user name
			resp.Data.Auths[host] = overlaybdAuth{c.Username, c.Password.Reveal()}
			break
		}
	}
	return jsonReply(http.StatusOK, resp)
}

// parseRemoteURL returns the host[:port] of a blob's URL, and its image. overlaybd does not encode the
// URL, which is everything after the parameter's name.
func parseRemoteURL(query string) (host, image string, ok bool) {
	_, raw, ok := strings.Cut(query, "remote_url=")
	if !ok {
		return "", "", false
	}
	if decoded, err := url.QueryUnescape(raw); err == nil && !strings.Contains(raw, "://") {
		raw = decoded // sent by a client that encodes it
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
		return "", "", false
	}
	path, ok := strings.CutPrefix(u.Path, "/v2/")
	end := strings.LastIndex(path, "/blobs/")
	if !ok || end <= 0 {
		return "", "", false
	}
	name := u.Host
	if name == hubHost {
		name = hubName
	}
	image = name + "/" + path[:end]
	if repository, err := match.Repository(image); err != nil || !strings.HasPrefix(repository, name+"/") {
		return "", "", false // the part before the slash is not a registry
	}
	return u.Host, image, true
}
