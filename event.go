// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"time"

	"github.com/regcred/regcred/plugin"
)

// EventKind says what an [Event] reports.
type EventKind string

const (
	EventExec       EventKind = "exec"       // a plugin ran; Duration and, if it failed, Stage and Err are set
	EventToken      EventKind = "token"      // a service-account token was requested; Err is set if that failed
	EventCacheHit   EventKind = "cacheHit"   // a lookup was answered from the cache
	EventCacheMiss  EventKind = "cacheMiss"  // a lookup ran the plugin
	EventCoalesced  EventKind = "coalesced"  // a lookup was served by somebody else's exec
	EventFailure    EventKind = "failure"    // an attempt failed, at whatever stage
	EventInvalidate EventKind = "invalidate" // a cached answer was dropped because a registry refused it
	EventEvict      EventKind = "evict"      // a cached answer was dropped for want of room
)

// Event is what an Observer receives. It holds no secret.
type Event struct {
	Kind     EventKind
	Provider string // the provider, or the name of the source
	Image    string // what was looked up; "" for EventToken and EventInvalidate
	Duration time.Duration
	Stage    plugin.Stage
	Err      error
}
