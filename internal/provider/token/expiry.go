// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// maxUnixSeconds limits lifetimes and Unix times to the year 9999.
const maxUnixSeconds = 253402300799

// minMillisecondTime is the smallest number that is parsed as milliseconds instead of seconds. As
// seconds, it would be a time in the year 5138.
const minMillisecondTime = 100_000_000_000

// parseLifetime parses a lifetime in seconds, given as a number or a string of digits.
func parseLifetime(value any, now time.Time) (time.Time, error) {
	seconds, ok := parseNumber(value)
	if !ok {
		return time.Time{}, fmt.Errorf("is %s, not a number of seconds", jsonKind(value))
	}
	if seconds <= 0 { // not caused by clock skew, unlike an expiry in the past
		return time.Time{}, errors.New("is not a positive number of seconds")
	}
	// Do not use now.Add, because a Duration is limited to 292 years.
	return timeFromSeconds(float64(now.Unix()) + seconds), nil
}

// parseTime parses a time in RFC 3339, or in seconds or milliseconds since 1970.
func parseTime(value any) (time.Time, error) {
	if seconds, ok := parseNumber(value); ok {
		if seconds <= 0 { // some endpoints send 0 for "never"
			return time.Time{}, errors.New("is not a positive timestamp")
		}
		if seconds >= minMillisecondTime {
			seconds /= 1000
		}
		return timeFromSeconds(seconds), nil
	}
	s, _ := value.(string)
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("is %s, not an RFC 3339 time or a number of seconds since the Unix epoch", jsonKind(value))
	}
	return t, nil
}

func timeFromSeconds(seconds float64) time.Time {
	return time.Unix(int64(max(0, min(seconds, maxUnixSeconds))), 0)
}

// parseNumber parses a JSON number or a string that contains one.
func parseNumber(value any) (float64, bool) {
	var text string
	switch v := value.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = v
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}
