// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Annotations of a Secret. They contain no secrets.
const (
	AnnotationConfigHash = "regcred.dev/config-hash"
	AnnotationExpires    = "regcred.dev/expires"       // the earliest expiry
	AnnotationRefresh    = "regcred.dev/refresh-after" // absent if a credential is missing
	AnnotationProviders  = "regcred.dev/providers"
	AnnotationEntries    = "regcred.dev/entries" // JSON; one element per registry
	AnnotationMissing    = "regcred.dev/missing" // number of registries and images without a credential
)

// ManagedBy is the value of the label app.kubernetes.io/managed-by, and the name of the field
// manager.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "regcred-controller"
)

// Entry describes one key of a Secret's docker config.
type Entry struct {
	Key      string    `json:"key"`
	Provider string    `json:"provider"`
	Issued   time.Time `json:"issued,omitzero"` // absent if the expiry is unknown
	Expires  time.Time `json:"expires,omitzero"`
	Removed  time.Time `json:"removed,omitzero"` // when it was removed from the configuration
}

// Status is recorded in a Secret's annotations, so that a restarted controller continues without
// calling a provider.
type Status struct {
	ConfigHash string
	Refresh    time.Time // zero if a credential is missing
	Entries    []Entry   // sorted by key
	Missing    int       // number of targets without a credential
}

// ParseStatus reads a Secret's annotations. Invalid annotations are treated as absent: the Secret is
// then written again.
func ParseStatus(annotations map[string]string) Status {
	s := Status{ConfigHash: annotations[AnnotationConfigHash]}
	s.Refresh, _ = time.Parse(time.RFC3339, annotations[AnnotationRefresh])
	s.Missing, _ = strconv.Atoi(annotations[AnnotationMissing])
	if json.Unmarshal([]byte(annotations[AnnotationEntries]), &s.Entries) != nil {
		return Status{}
	}
	return s
}

// Annotations is the reverse of [ParseStatus].
func (s Status) Annotations() map[string]string {
	entries, err := json.Marshal(s.Entries)
	if err != nil { // only a year after 9999
		entries = nil
	}
	m := map[string]string{AnnotationConfigHash: s.ConfigHash, AnnotationEntries: string(entries)}
	if s.Missing > 0 {
		m[AnnotationMissing] = strconv.Itoa(s.Missing)
	}
	if !s.Refresh.IsZero() {
		m[AnnotationRefresh] = formatTime(s.Refresh)
	}
	if e := s.Expires(); !e.IsZero() {
		m[AnnotationExpires] = formatTime(e)
	}
	if p := s.Providers(); len(p) > 0 {
		m[AnnotationProviders] = strings.Join(p, ",")
	}
	return m
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Expires returns the earliest expiry, or zero if none is known.
func (s Status) Expires() (first time.Time) {
	for _, e := range s.Entries {
		if !e.Expires.IsZero() && (first.IsZero() || e.Expires.Before(first)) {
			first = e.Expires
		}
	}
	return first
}

// Providers returns the names of the entries' providers.
func (s Status) Providers() []string {
	names := map[string]bool{}
	for _, e := range s.Entries {
		names[e.Provider] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// Equal reports whether two statuses have the same annotations.
func (s Status) Equal(t Status) bool { return maps.Equal(s.Annotations(), t.Annotations()) }

// States of a Secret.
const (
	StateCurrent    = "current"
	StateIncomplete = "incomplete" // a credential is missing
	StateExpired    = "expired"
)

// State returns the state of a Secret of the controller.
func (s Status) State(now time.Time) string {
	switch e := s.Expires(); {
	case !e.IsZero() && !now.Before(e):
		return StateExpired
	case s.Missing > 0 || s.ConfigHash == "":
		return StateIncomplete
	}
	return StateCurrent
}

// IsFresh reports whether the Secret needs no new credential. replaced returns when a provider's
// configuration changed. A status from the future, after a clock was set back, is not fresh.
func (s Status) IsFresh(now time.Time, hash string, replaced func(provider string) time.Time) bool {
	if s.ConfigHash != hash || !now.Before(s.Refresh) || s.Refresh.Sub(now) > maxRefresh {
		return false
	}
	for _, e := range s.Entries {
		if e.Issued.After(now.Add(time.Minute)) || e.Issued.Before(replaced(e.Provider).Truncate(time.Second)) && !e.Issued.IsZero() {
			return false
		}
	}
	return true
}
