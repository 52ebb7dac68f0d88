// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package report

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/dockerjson"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/plugin"
)

// The outcomes of an attempt.
const (
	OutcomeCredentials = "answered" // the source returned credentials for the image
	OutcomeEmpty       = "empty"    // the provider returned no credentials for the image
	OutcomeSkipped     = "skipped"  // the provider was not called, or the pull secret was ignored
	OutcomeFailed      = "failed"
)

// Attempt is the JSON form (-o json) of a [regcred.Attempt].
type Attempt struct {
	Outcome         string                  `json:"outcome"`
	Skipped         string                  `json:"skipped,omitempty"`  // why the provider was not called
	Identity        *ServiceAccountIdentity `json:"identity,omitempty"` // in service-account mode
	Cache           regcred.CacheResult     `json:"cache,omitempty"`
	CacheKey        plugin.CacheKeyType     `json:"cacheKey,omitempty"`
	AgeSeconds      float64                 `json:"ageSeconds,omitempty"` // age of a cached response
	CachedUntil     *time.Time              `json:"cachedUntil,omitempty"`
	DurationSeconds float64                 `json:"durationSeconds,omitempty"`
	Keys            []string                `json:"keys,omitempty"`     // auth keys of the response
	Credentials     int                     `json:"credentials"`        // number of matching credentials
	Stderr          string                  `json:"stderr,omitempty"`   // redacted
	Stage           plugin.Stage            `json:"stage,omitempty"`    // stage at which the attempt failed
	Error           string                  `json:"error,omitempty"`    // reason of the failure
	Fix             string                  `json:"fix,omitempty"`      // how to fix the failure, or what caused the provider to be skipped
	ExitCode        *int                    `json:"exitCode,omitempty"` // the plugin's exit code, if not zero

	overLimit bool // failed because of a limit of regcred, which the kubelet does not have
}

// ServiceAccountIdentity is the JSON form (-o json) of a [regcred.Identity].
type ServiceAccountIdentity struct {
	ServiceAccount  *Object               `json:"serviceAccount,omitempty"` // missing for a token from a file
	Audience        string                `json:"audience"`                 // from the configuration
	Annotations     []string              `json:"annotations"`              // keys that are sent to the plugin
	MissingOptional []string              `json:"absent,omitempty"`         // missing optional keys
	MissingRequired string                `json:"missing,omitempty"`        // missing required key
	Similar         map[string]string     `json:"similar,omitempty"`        // similar keys that the service account has, by missing key
	Token           regcred.TokenUse      `json:"token,omitempty"`          // "given" or "requested"; omitted if none was needed
	CacheType       config.TokenCacheType `json:"cacheType,omitempty"`
}

// NewAttempt converts at to its JSON form.
func NewAttempt(at regcred.Attempt) *Attempt {
	j := &Attempt{
		Outcome:         attemptOutcome(at),
		Skipped:         at.Skipped,
		Cache:           at.Cache,
		CacheKey:        at.CacheKey,
		AgeSeconds:      Seconds(at.Age),
		CachedUntil:     timeJSON(at.CachedUntil),
		DurationSeconds: Seconds(at.Duration),
		Keys:            dockerjson.DisplayKeys(at.Keys),
		Credentials:     at.Matched,
		Stderr:          at.Stderr,
		Stage:           at.Stage,
	}
	if id := at.Identity; id != nil {
		j.Identity = &ServiceAccountIdentity{
			ServiceAccount:  newObject(&id.ServiceAccount),
			Audience:        id.Audience,
			Annotations:     append([]string{}, id.Annotations...),
			MissingOptional: id.Absent,
			MissingRequired: id.Missing,
			Similar:         id.Similar,
			Token:           id.Token,
		}
	}
	j.overLimit = errors.Is(at.Err, regularfile.ErrLimit)
	if at.Err != nil {
		j.Error = at.Err.Error()
		if e, ok := errors.AsType[*plugin.ExecError](at.Err); ok { // stage and stderr have their own fields
			j.Error = e.Err.Error()
			if e.Stage == plugin.StageExec && e.ExitCode > 0 {
				j.ExitCode = &e.ExitCode
			}
		}
		j.Error = strings.TrimPrefix(j.Error, fmt.Sprintf("provider %q: ", at.Provider))
	}
	return j
}

func attemptOutcome(at regcred.Attempt) string {
	switch {
	case at.Skipped != "":
		return OutcomeSkipped
	case at.Err != nil:
		return OutcomeFailed
	case at.Matched > 0:
		return OutcomeCredentials
	}
	return OutcomeEmpty
}

// Seconds returns d in seconds, rounded to microseconds.
func Seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1e6) / 1e6 }
