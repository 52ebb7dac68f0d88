// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testkube

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxWatch bounds a watch, so that a test that forgets one ends.
const maxWatch = 10 * time.Minute

// serveWatch reports changes until the client's time is over.
func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	from, err := strconv.Atoi(query.Get("resourceVersion"))
	if err != nil {
		writeStatus(w, http.StatusInternalServerError, "", "resourceVersion: Invalid value", nil)
		return
	}
	life := maxWatch
	if seconds, _ := strconv.Atoi(query.Get("timeoutSeconds")); seconds > 0 {
		life = min(life, time.Duration(seconds)*time.Second)
	}
	over := time.NewTimer(life)
	defer over.Stop()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	enc, flush := json.NewEncoder(w), http.NewResponseController(w).Flush
	_ = flush()
	for first := true; ; first = false {
		news := s.since(from)
		if news.gone && first { // a watch that is under way goes on
			_ = enc.Encode(expired(from))
			return
		}
		for _, e := range news.events {
			if e.kind != "BOOKMARK" || query.Get("allowWatchBookmarks") == "true" {
				_ = enc.Encode(map[string]any{"type": e.kind, "object": e.object})
			}
			from = e.version
		}
		_ = flush() // fails only if the client has gone
		select {
		case <-news.changed:
		case <-news.hangups:
			return
		case <-over.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// expired is how a watch says 410 Gone: in an event, under the status 200.
func expired(version int) map[string]any {
	return map[string]any{"type": "ERROR", "object": metav1.Status{
		TypeMeta: typeMeta("v1", "Status"), Status: metav1.StatusFailure,
		Message: "too old resource version: " + strconv.Itoa(version), Reason: metav1.StatusReasonExpired, Code: http.StatusGone,
	}}
}
