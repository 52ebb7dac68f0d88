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

func toAttemptJSON(at regcred.Attempt) *attemptJSON {
	j := &attemptJSON{
		Outcome:         outcome(at),
		Skipped:         at.Skipped,
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
	if id := at.Identity; id != nil {
		j.Identity = &identityJSON{
			ServiceAccount: toObjectJSON(&id.ServiceAccount),
			Audience:       id.Audience,
			Annotations:    append([]string{}, id.Annotations...),
			Absent:         id.Absent,
			Missing:        id.Missing,
			Token:          id.Token,
		}
	}
	if at.Err != nil {
		j.Error = at.Err.Error()
		if e, ok := errors.AsType[*plugin.ExecError](at.Err); ok { // stage and stderr are beside it
			j.Error = e.Err.Error()
			if e.Stage == plugin.StageExec && e.ExitCode > 0 {
				j.ExitCode = &e.ExitCode
			}
		}
		j.Error = strings.TrimPrefix(j.Error, fmt.Sprintf("provider %q: ", at.Provider))
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

// mark is how an attempt is shown.
func (j *attemptJSON) mark() terminal.Mark {
	return map[string]terminal.Mark{
		outcomeAnswered: terminal.OK, outcomeSkipped: terminal.Skipped, outcomeFailed: terminal.Error, outcomeEmpty: terminal.None,
	}[j.Outcome]
}

// render says what was done, what came of it, and what to do.
func (j *attemptJSON) render(t *terminal.Text) {
	j.Identity.render(t)
	switch j.Outcome {
	case outcomeSkipped:
		t.Detail("not asked: %s", j.Skipped)
	case outcomeFailed:
		after := ""
		if j.DurationSeconds > 0 {
			after = " after " + terminal.Millis(j.DurationSeconds)
		}
		t.Detail("failed (%s)%s: %s", j.Stage, after, j.Error)
	default:
		j.renderAnswer(t)
	}
	j.renderStderr(t)
	if j.Fix != "" {
		t.Detail("fix: %s", j.Fix)
	}
}

func (j *attemptJSON) renderAnswer(t *terminal.Text) {
	answer := "no credentials for this image"
	if j.Credentials > 0 {
		answer = terminal.Count(j.Credentials, "credential")
	}
	switch j.Cache {
	case regcred.CacheHit:
		answer = fmt.Sprintf("answered from the cache, %s old: %s", terminal.Span(time.Duration(j.AgeSeconds*float64(time.Second))), answer)
	case regcred.CacheCoalesced:
		answer = "answered by a run for another image: " + answer
	case regcred.CacheMiss:
		answer = "ran for " + terminal.Millis(j.DurationSeconds) + ": " + answer
	}
	t.Detail("%s", answer)
	if j.Credentials == 0 && len(j.Keys) > 0 {
		t.Detail("none of its keys matches the image: %s", strings.Join(j.Keys, ", "))
	}
	if j.CacheKey != "" {
		kept := t.Until(j.CachedUntil)
		if j.CachedUntil != nil {
			kept = "cached until " + kept
		}
		t.Detail("good for %s%s; %s", scope(j.CacheKey), j.Identity.scope(), kept)
	}
}

// renderStderr quotes what the plugin said, at most its last five lines.
func (j *attemptJSON) renderStderr(t *terminal.Text) {
	const most = 5
	text := strings.TrimSpace(j.Stderr)
	if text == "" {
		return
	}
	said := strings.Split(text, "\n")
	if n := len(said) - most; n > 0 {
		t.Detail("stderr: (%s before; -o json has them all)", terminal.Count(n, "line"))
		said = said[n:]
	}
	for _, line := range said {
		t.Detail("stderr: %s", line)
	}
}

// render says on whose behalf the provider was asked.
func (id *identityJSON) render(t *terminal.Text) {
	if id == nil {
		return
	}
	if a := id.ServiceAccount; a != nil {
		who := fmt.Sprintf("service account %s/%s", a.Namespace, a.Name)
		if a.UID != "" {
			who += ", uid " + a.UID
		}
		t.Detail("%s", who)
	}
	if len(id.Annotations) > 0 {
		t.Detail("annotations passed on: %s", strings.Join(id.Annotations, ", "))
	}
	if len(id.Absent) > 0 {
		t.Detail("optional annotations that are absent: %s", strings.Join(id.Absent, ", "))
	}
	switch id.Token {
	case regcred.TokenRequested:
		t.Detail("token requested for audience %q", id.Audience)
	case regcred.TokenGiven:
		t.Detail("token given; the configuration asks for audience %q", id.Audience)
	}
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
