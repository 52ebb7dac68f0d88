// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package runstats counts the runs of a node's providers. The dispatcher, which runs
// the providers, exits after each request, so the counts are kept in a file. They
// are needed because the kubelet logs a provider's error only if the dispatcher's
// run fails as a whole. The file is below /run, so the counts start at zero after
// each boot.
//
//	err := runstats.AddBatch(ctx, runstats.DefaultDir, batch) // in the dispatcher, after its response
//	counts, err := runstats.Read(ctx, runstats.DefaultDir)
//
// Package metrics exports the counts to Prometheus. The file contains no secrets.
// It is replaced with a rename, so it can be read at any time. Writers hold a lock
// on the directory.
package runstats

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/textfmt"
)

// DefaultDir is the directory of a node's counts.
const DefaultDir = "/run/regcred"

// Results of a provider run. If a run fails, the result is the stage at which it failed
// ([github.com/regcred/regcred/plugin.Stage], or a stage of the lookup).
const (
	ResultFound   = "credentials" // the provider returned at least one credential for the image
	ResultNone    = "none"        // the provider returned no credential for the image
	ResultSkipped = "skipped"     // the provider was not called, because an annotation is missing
)

// Results of a dispatcher run.
const (
	RunSucceeded = "answered"
	RunFailed    = "failed"
)

// Limits for the stored counts: more than a node needs, but few enough to be harmless.
const (
	maxProviders     = 256
	maxResults       = 24 // per provider
	maxNameLength    = 253
	maxMessageLength = 1000 // bytes
	otherResult      = "other"
)

// Counts holds the counts of a node's dispatchers since the time in Since.
type Counts struct {
	SchemaVersion int       `json:"schemaVersion"`
	Since         time.Time `json:"since"`

	Runs               map[string]uint64 `json:"runs,omitempty"`       // number of dispatcher runs, by RunSucceeded and RunFailed
	DroppedBatches     uint64            `json:"dropped,omitempty"`    // runs that were not counted because the file was busy
	DroppedCredentials uint64            `json:"withoutKey,omitempty"` // credentials omitted from responses
	LastError          *Error            `json:"lastError,omitempty"`  // last error of a dispatcher run

	Providers map[string]*Provider `json:"providers,omitempty"` // by name
}

// Provider holds the counts for one provider.
type Provider struct {
	Results   map[string]uint64 `json:"results,omitempty"` // runs by result
	Runs      uint64            `json:"runs"`              // number of runs that were not skipped
	Seconds   float64           `json:"seconds"`           // total duration of these runs
	LastRun   time.Time         `json:"lastRun"`
	LastError *Error            `json:"lastError,omitempty"`
}

// Error describes the last failure.
type Error struct {
	Time    time.Time `json:"time"`
	Stage   string    `json:"stage,omitempty"`
	Message string    `json:"message"` // one line
}

// Batch holds the counts of one dispatcher run.
type Batch struct {
	Err                string // why the run failed, without secrets; "" if it succeeded
	DroppedCredentials int    // credentials omitted from the response
	Runs               []Run
}

// Run is the result of one provider's run.
type Run struct {
	Provider string
	Result   string // ResultFound, ResultNone, ResultSkipped, or the stage at which the run failed
	Duration time.Duration
	Err      string // error without secrets; "" if the run did not fail
}

const schemaVersion = 1

func newCounts(now time.Time) *Counts {
	return &Counts{SchemaVersion: schemaVersion, Since: now.UTC().Truncate(time.Second)}
}

// IsValid reports whether this package could have written the counts.
func (c *Counts) IsValid() bool {
	if c.SchemaVersion != schemaVersion || len(c.Providers) > maxProviders || len(c.Runs) > maxResults {
		return false
	}
	for name, p := range c.Providers {
		if p == nil || len(name) > maxNameLength || len(p.Results) > maxResults || !(p.Seconds >= 0) {
			return false
		}
	}
	return true
}

// addBatch adds a batch to the counts.
func (c *Counts) addBatch(b Batch, now time.Time) {
	now = now.UTC().Truncate(time.Second)
	result := RunSucceeded
	if b.Err != "" {
		result, c.LastError = RunFailed, &Error{Time: now, Message: truncatedLine(b.Err)}
	}
	if c.Runs == nil {
		c.Runs = map[string]uint64{}
	}
	c.Runs[result]++
	c.DroppedCredentials += uint64(max(b.DroppedCredentials, 0))
	for _, r := range b.Runs {
		if len(r.Provider) <= maxNameLength { // always true, because the name is a file name
			c.getProvider(r.Provider).addRun(r, now)
		}
	}
}

// getProvider returns the counts for a provider name and adds them if necessary. If there
// are too many providers, it replaces the one whose last run is oldest.
func (c *Counts) getProvider(name string) *Provider {
	if p := c.Providers[name]; p != nil {
		return p
	}
	if c.Providers == nil {
		c.Providers = map[string]*Provider{}
	}
	if len(c.Providers) >= maxProviders {
		names := slices.Sorted(maps.Keys(c.Providers))
		oldest := slices.MinFunc(names, func(a, b string) int {
			return c.Providers[a].LastRun.Compare(c.Providers[b].LastRun)
		})
		delete(c.Providers, oldest)
	}
	p := &Provider{}
	c.Providers[name] = p
	return p
}

func (p *Provider) addRun(r Run, now time.Time) {
	if p.Results == nil {
		p.Results = map[string]uint64{}
	}
	result := r.Result
	if _, known := p.Results[result]; !known && (len(p.Results) >= maxResults-1 || len(result) > 32) {
		result = otherResult
	}
	p.Results[result]++
	p.LastRun = now
	if r.Result != ResultSkipped {
		p.Runs++
		p.Seconds += max(r.Duration, 0).Seconds()
	}
	if r.Err != "" {
		p.LastError = &Error{Time: now, Stage: result, Message: truncatedLine(r.Err)}
	}
}

// truncatedLine returns s as one printable line with a limited length.
func truncatedLine(s string) string {
	if s = textfmt.EscapeLine(s); len(s) <= maxMessageLength {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessageLength], "") + "…"
}
