// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package serve

import (
	"maps"
	"sync"
	"time"
)

// askers records when processes last got a credential from a protocol that cannot report a
// rejected credential. A process that asks again may do so because the registry returned 401, so
// it gets no cached response that is older than its last request. Otherwise a changed password
// would take effect later than without the service.
//
// A response that is younger than freshFor is returned anyway, because snapshotters ask for each
// layer of an image.
type askers struct {
	mu   sync.Mutex
	last map[askerKey]time.Time // end of the last request
}

// askerKey identifies a process that asks for a registry or repository.
type askerKey struct {
	uid     uint32
	process processID // zero if it is unknown
	name    string
}

// processID identifies a process. The start time distinguishes processes with the same ID.
type processID struct {
	pid     int
	started uint64
}

const (
	freshFor = time.Second

	maxAskers     = 4096
	askerLifetime = time.Hour
)

// notBefore returns the minimum storage time of a response for k. The zero time means that any
// response is returned. window limits how long after its last request a process is recognized; 0
// means as long as the process is recorded.
func (a *askers) notBefore(k askerKey, now time.Time, window time.Duration) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, ok := a.last[k]
	if !ok || window > 0 && now.Sub(last) > window {
		return time.Time{}
	}
	if fresh := now.Add(-freshFor); fresh.Before(last) {
		return fresh
	}
	return last
}

// record stores the end of a request.
func (a *askers) record(k askerKey, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == nil {
		a.last = map[askerKey]time.Time{}
	}
	if _, known := a.last[k]; !known && len(a.last) >= maxAskers {
		maps.DeleteFunc(a.last, func(_ askerKey, t time.Time) bool { return now.Sub(t) > askerLifetime })
		for old := range a.last { // any, if all are recent
			if len(a.last) < maxAskers {
				break
			}
			delete(a.last, old)
		}
	}
	a.last[k] = now
}
