// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/plugin"
)

// What became of an attempt.
const (
	outcomeAnswered = "answered" // it contributed credentials
	outcomeEmpty    = "empty"    // it answered, without credentials for the image
	outcomeSkipped  = "skipped"  // it matched, but was not asked
	outcomeFailed   = "failed"
)

// attemptJSON is a regcred.Attempt in -o json.
type attemptJSON struct {
	Outcome         string              `json:"outcome"`
	Skipped         string              `json:"skipped,omitempty"`  // why it was not asked, or is passed over
	Identity        *identityJSON       `json:"identity,omitempty"` // in service-account mode
	Cache           regcred.CacheResult `json:"cache,omitempty"`
	CacheKey        plugin.CacheKeyType `json:"cacheKey,omitempty"`
	AgeSeconds      float64             `json:"ageSeconds,omitempty"` // of a cached answer
	CachedUntil     *time.Time          `json:"cachedUntil,omitempty"`
	DurationSeconds float64             `json:"durationSeconds,omitempty"`
	Keys            []string            `json:"keys,omitempty"`     // auth keys of the answer
	Credentials     int                 `json:"credentials"`        // how many of them match the image
	Stderr          string              `json:"stderr,omitempty"`   // scrubbed
	Stage           plugin.Stage        `json:"stage,omitempty"`    // where it failed
	Error           string              `json:"error,omitempty"`    // why
	Fix             string              `json:"fix,omitempty"`      // what to do about that, or about having been skipped
	ExitCode        *int                `json:"exitCode,omitempty"` // of a plugin that exited by itself, but not with 0
}

// identityJSON is a regcred.Identity in -o json.
type identityJSON struct {
	ServiceAccount *objectJSON           `json:"serviceAccount,omitempty"` // missing for a token from a file
	Audience       string                `json:"audience"`                 // that the configuration asks for
	Annotations    []string              `json:"annotations"`              // keys that are passed on
	Absent         []string              `json:"absent,omitempty"`         // optional keys that the service account lacks
	Missing        string                `json:"missing,omitempty"`        // required key that it lacks
	Token          regcred.TokenUse      `json:"token,omitempty"`          // "given" or "requested"; missing if none was needed
	CacheType      config.TokenCacheType `json:"cacheType,omitempty"`
}

func toIdentityJSON(id *regcred.Identity) *identityJSON {
	if id == nil {
		return nil
	}
	return &identityJSON{
		ServiceAccount: toObjectJSON(&id.ServiceAccount),
		Audience:       id.Audience,
		Annotations:    append([]string{}, id.Annotations...),
		Absent:         id.Absent,
		Missing:        id.Missing,
		Token:          id.Token,
	}
}

func toAttemptJSON(at regcred.Attempt) *attemptJSON {
	j := &attemptJSON{
		Outcome:         outcome(at),
		Skipped:         at.Skipped,
		Identity:        toIdentityJSON(at.Identity),
		Cache:           at.Cache,
		CacheKey:        at.CacheKey,
		AgeSeconds:      seconds(at.Age),
		CachedUntil:     timeJSON(at.CachedUntil),
		DurationSeconds: seconds(at.Duration),
		Keys:            at.Keys,
		Credentials:     at.Matched,
		Stderr:          at.Stderr,
		Stage:           at.Stage,
	}
	if at.Err != nil {
		j.Error = strings.TrimPrefix(cause(at.Err), fmt.Sprintf("provider %q: ", at.Provider))
		if e, ok := errors.AsType[*plugin.ExecError](at.Err); ok && e.Stage == plugin.StageExec && e.ExitCode > 0 {
			j.ExitCode = &e.ExitCode
		}
	}
	return j
}

func outcome(at regcred.Attempt) string {
	switch {
	case at.Skipped != "":
		return outcomeSkipped
	case at.Err != nil:
		return outcomeFailed
	case at.Matched > 0:
		return outcomeAnswered
	}
	return outcomeEmpty
}

// seconds has microseconds, which is finer than a run of a plugin can be told.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1e6) / 1e6 }

// cause is an attempt's error without what is printed beside it.
func cause(err error) string {
	if e, ok := errors.AsType[*plugin.ExecError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// attemptErrors says for each failed attempt why there are no credentials.
func attemptErrors(what string, attempts []regcred.Attempt) error {
	var errs []error
	for _, at := range failedOf(attempts) {
		errs = append(errs, fmt.Errorf("no credentials for %s: %w", what, at.Err))
	}
	return errors.Join(errs...)
}

// lines describes an attempt for people: what was done, then what came of it.
func (a *app) lines(j *attemptJSON) []string {
	list := j.Identity.lines()
	switch j.Outcome {
	case outcomeSkipped:
		return append(list, j.mended("not asked: "+j.Skipped)...)
	case outcomeFailed:
		return append(list, j.mended(j.failureLines()...)...)
	}
	first := j.answer()
	if did := j.did(); did != "" {
		first = did + ": " + first
	}
	list = append(list, first)
	if j.Outcome == outcomeEmpty && len(j.Keys) > 0 {
		list = append(list, "none of its keys matches the image: "+strings.Join(j.Keys, ", "))
	}
	if j.CacheKey != "" {
		list = append(list, fmt.Sprintf("good for %s%s; %s", scope(j.CacheKey), j.Identity.scope(), a.kept(j)))
	}
	return append(list, j.stderrLines()...)
}

// mended adds what to do.
func (j *attemptJSON) mended(list ...string) []string {
	if j.Fix != "" {
		list = append(list, "fix: "+j.Fix)
	}
	return list
}

// lines says on whose behalf the provider was asked.
func (id *identityJSON) lines() []string {
	if id == nil {
		return nil
	}
	var list []string
	if id.ServiceAccount != nil {
		who := fmt.Sprintf("service account %s/%s", id.ServiceAccount.Namespace, id.ServiceAccount.Name)
		if id.ServiceAccount.UID != "" {
			who += ", uid " + id.ServiceAccount.UID
		}
		list = append(list, who)
	}
	if len(id.Annotations) > 0 {
		list = append(list, "annotations passed on: "+strings.Join(id.Annotations, ", "))
	}
	if len(id.Absent) > 0 {
		list = append(list, "optional annotations that are absent: "+strings.Join(id.Absent, ", "))
	}
	switch id.Token {
	case regcred.TokenRequested:
		list = append(list, fmt.Sprintf("token requested for audience %q", id.Audience))
	case regcred.TokenGiven:
		list = append(list, fmt.Sprintf("token given; the configuration asks for audience %q", id.Audience))
	}
	return list
}

// scope says for whom beside the asker an answer is good.
func (id *identityJSON) scope() string {
	switch {
	case id == nil:
		return ""
	case id.Token == regcred.TokenGiven || id.CacheType == config.CachePerToken:
		return ", with this token"
	}
	return fmt.Sprintf(", for all pods of service account %s/%s", id.ServiceAccount.Namespace, id.ServiceAccount.Name)
}

func (j *attemptJSON) answer() string {
	if j.Credentials == 0 {
		return "no credentials for this image"
	}
	return terminal.Count(j.Credentials, "credential")
}

func (a *app) kept(j *attemptJSON) string {
	if j.CachedUntil == nil {
		return "not cached"
	}
	return "cached until " + a.Until(j.CachedUntil)
}

func scope(t plugin.CacheKeyType) string {
	switch t {
	case plugin.CacheImage:
		return "this image"
	case plugin.CacheRegistry:
		return "the whole registry"
	case plugin.CacheGlobal:
		return "every image of the provider"
	}
	return string(t)
}

// did says how an answer was come by.
func (j *attemptJSON) did() string {
	switch j.Cache {
	case regcred.CacheHit:
		return fmt.Sprintf("answered from the cache, %s old", terminal.Span(time.Duration(j.AgeSeconds*float64(time.Second))))
	case regcred.CacheCoalesced:
		return "answered by a run for another image"
	case regcred.CacheMiss:
		return "ran for " + terminal.Millis(j.DurationSeconds)
	}
	return ""
}

func (j *attemptJSON) failureLines() []string {
	first := fmt.Sprintf("failed (%s)", j.Stage)
	if j.DurationSeconds > 0 {
		first += " after " + terminal.Millis(j.DurationSeconds)
	}
	return append([]string{first + ": " + j.Error}, j.stderrLines()...)
}

// stderrLines quotes what the plugin said, at most its last five lines.
func (j *attemptJSON) stderrLines() []string {
	const most = 5
	said := strings.Split(strings.TrimSpace(j.Stderr), "\n")
	if len(said) == 1 && said[0] == "" {
		return nil
	}
	var list []string
	if n := len(said) - most; n > 0 {
		list = append(list, fmt.Sprintf("stderr: (%s before; -o json has them all)", terminal.Count(n, "line")))
		said = said[n:]
	}
	for _, line := range said {
		list = append(list, "stderr: "+line)
	}
	return list
}
