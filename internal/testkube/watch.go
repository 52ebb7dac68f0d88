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
		s.mu.Lock()
		events, gone := s.store.since(from)
		changed, hangups := s.store.changed, s.store.hangups
		s.mu.Unlock()
		if gone && first { // a watch that is under way goes on
			_ = enc.Encode(expired(from))
			return
		}
		for _, e := range events {
			if e.kind != "BOOKMARK" || query.Get("allowWatchBookmarks") == "true" {
				_ = enc.Encode(map[string]any{"type": e.kind, "object": e.object})
			}
			from = e.version
		}
		_ = flush() // fails only if the client has gone
		select {
		case <-changed:
		case <-hangups:
			return
		case <-over.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// since returns what happened after a version; gone means that not all of it
// is known any more.
func (st *store) since(version int) (events []event, gone bool) {
	for _, e := range st.events {
		if e.version > version {
			events = append(events, e)
		}
	}
	return events, version < st.oldest
}

// expired is how a watch says 410 Gone: in an event, under the status 200.
func expired(version int) map[string]any {
	return map[string]any{"type": "ERROR", "object": metav1.Status{
		TypeMeta: typeMeta("v1", "Status"), Status: metav1.StatusFailure,
		Message: "too old resource version: " + strconv.Itoa(version), Reason: metav1.StatusReasonExpired, Code: http.StatusGone,
	}}
}
