// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package mirrors

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/route"
)

func sha256Digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

// kubeletUser is the user name of the credential that a kubelet sends.
const kubeletUser = "kubelet"

// hostRequest is the URL of a runtime's request, and the credentials in it.
type hostRequest struct {
	URL   string
	Shown string // user names of the credentials, in order
}

// predictedRequests returns the requests that a route predicts: the requests that resolve the
// image, and all requests that may be sent.
func predictedRequests(r *route.Route) (resolve, all []hostRequest) {
	for _, h := range r.Hops {
		a := hostRequest{URL: hopURL(&h) + h.Repository, Shown: string(h.Credential)}
		if a.URL == h.Repository {
			continue // this hop receives no request
		}
		if !h.SkippedForLayers {
			all = appendUnique(all, a)
		}
		if h.Skipped == "" {
			resolve = appendUnique(resolve, a)
		}
	}
	return resolve, all
}

// hopURL returns the URL of a hop, with the scheme that its port expects. It returns "" if the hop
// is unreachable.
func hopURL(h *route.Hop) string {
	if h.TriesHTTPSFirst && h.Base.Port() == "" {
		return "https" + strings.TrimPrefix(strings.TrimPrefix(h.URL, "https"), "http")
	}
	if !slices.Contains(append([]string{"localhost", "127.0.0.1"}, hostNames...), strings.ToLower(h.Base.Hostname())) {
		return "" // no such host
	}
	port := cmp.Or(h.Base.Port(), map[string]string{"http": "80", "https": "443"}[h.Base.Scheme])
	scheme := "http"
	if slices.Contains(tlsPorts, port) {
		scheme = "https"
	}
	if scheme != h.Base.Scheme && !h.TriesHTTPSFirst {
		return ""
	}
	u := *h.Base
	u.Scheme = scheme
	return u.String()
}

func appendUnique(list []hostRequest, a hostRequest) []hostRequest {
	if slices.ContainsFunc(list, func(o hostRequest) bool { return o.URL == a.URL }) {
		return list
	}
	return append(list, a)
}

// recordedRequests returns the distinct requests in a log for which wanted returns true, in order
// of their first occurrence.
func recordedRequests(log []loggedRequest, wanted func(loggedRequest) bool) (list []hostRequest) {
	users := map[string][]string{}
	for _, s := range log {
		if s.user != "" && !slices.Contains(users[s.url], s.user) {
			users[s.url] = append(users[s.url], s.user)
		}
	}
	for _, s := range log {
		if wanted(s) {
			list = appendUnique(list, hostRequest{s.url, displayUsers(users[s.url])})
		}
	}
	return list
}

// displayUsers returns the name under which a route shows the credentials of these users.
func displayUsers(users []string) string {
	switch {
	case len(users) == 0:
		return string(route.CredentialNone)
	case slices.Equal(users, []string{kubeletUser}):
		return string(route.CredentialKubelet)
	case len(users) == 1 && strings.HasPrefix(users[0], "own"):
		return string(route.CredentialRuntime)
	case slices.Equal(users, []string{"header", kubeletUser}), slices.Equal(users, []string{"header"}):
		return string(route.CredentialHeader)
	}
	return strings.Join(users, "+")
}

func checkRequests(t *testing.T, what string, want, got []hostRequest) {
	t.Helper()
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-said +done):\n%s", what, diff)
	}
}

// sortRequests sorts requests whose order is undefined.
func sortRequests(list []hostRequest) []hostRequest {
	return slices.SortedFunc(slices.Values(list), func(a, b hostRequest) int { return strings.Compare(a.URL, b.URL) })
}
