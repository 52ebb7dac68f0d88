// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"time"

	"github.com/regcred/regcred/plugin"
)

// EventKind identifies the kind of an [Event].
type EventKind string

const (
	EventExec       EventKind = "exec"       // a plugin ran; sets Duration and, if it failed, Stage and Err
	EventToken      EventKind = "token"      // a service account token was requested; Err is set if that failed
	EventCacheHit   EventKind = "cacheHit"   // a lookup used a cached response
	EventCacheMiss  EventKind = "cacheMiss"  // a lookup ran the plugin
	EventCoalesced  EventKind = "coalesced"  // a lookup used the response to another lookup's exec
	EventFailure    EventKind = "failure"    // an attempt failed, at any stage
	EventInvalidate EventKind = "invalidate" // a cached response was removed after Keyring.Invalidate
	EventEvict      EventKind = "evict"      // a cached response was removed because the cache was full
)

// Event is passed to Options.Observer. It contains no secrets.
type Event struct {
	Kind     EventKind
	Provider string // the name of the provider or source
	Image    string // repository or registry; "" for EventToken and EventInvalidate
	Duration time.Duration
	Stage    plugin.Stage
	Err      error
}
