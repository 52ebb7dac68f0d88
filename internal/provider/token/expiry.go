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

// maxSeconds bounds lifetimes and times since 1970: the year 9999.
const maxSeconds = 253402300799

// fromMilliseconds is the smallest number that is a time in milliseconds; in
// seconds it would be in the year 5138.
const fromMilliseconds = 100_000_000_000

// until parses a lifetime in seconds, a number or a string of digits.
func until(value any, now time.Time) (time.Time, error) {
	seconds, ok := number(value)
	if !ok {
		return time.Time{}, fmt.Errorf("is %s, not a number of seconds", kind(value))
	}
	if seconds <= 0 { // unlike a time in the past, not caused by clocks
		return time.Time{}, errors.New("is not a positive number of seconds")
	}
	// Not now.Add: a Duration ends after 292 years.
	return clamp(float64(now.Unix()) + seconds), nil
}

// at parses a time: RFC 3339, or seconds or milliseconds since 1970.
func at(value any) (time.Time, error) {
	if seconds, ok := number(value); ok {
		if seconds <= 0 { // some endpoints mean "never"
			return time.Time{}, errors.New("is not a positive timestamp")
		}
		if seconds >= fromMilliseconds {
			seconds /= 1000
		}
		return clamp(seconds), nil
	}
	s, _ := value.(string)
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("is %s, not an RFC 3339 time or a number of seconds since the Unix epoch", kind(value))
	}
	return t, nil
}

func clamp(seconds float64) time.Time {
	return time.Unix(int64(max(0, min(seconds, maxSeconds))), 0)
}

// number parses a JSON number, or a string with one.
func number(value any) (float64, bool) {
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
