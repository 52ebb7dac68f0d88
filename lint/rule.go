// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"fmt"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
)

// rule finds one kind of mistake in a T. Its name is stable: it is the
// heading under which docs/lint/README.md explains it.
type rule[T any] struct {
	name     string
	severity finding.Severity
	check    func(T) []remark
}

// maxRemarks bounds how often one rule is reported. Somebody may have written a
// hundred thousand times what it minds.
const maxRemarks = 100

// remark is what a rule says about one spot.
type remark struct {
	at         spot // zero: the subject of the rule
	message    string
	suggestion string
	more       int // how many others are left out behind it
}

// and returns rs with more remarks, of which those above the bound are counted
// alone.
func and(rs []remark, more ...remark) []remark {
	for _, r := range more {
		if len(rs) == maxRemarks {
			rs[maxRemarks-1].more++
			continue
		}
		rs = append(rs, r)
	}
	return rs
}

// spot is a place in a configuration: somewhere in a provider or, if elsewhere
// is set, in a file at large.
type spot struct {
	provider  int
	rest      config.FieldPath
	elsewhere bool
	where     config.Position // if elsewhere
}

var nowhere = spot{elsewhere: true}

// say returns one remark about the subject itself.
func say(suggestion, format string, args ...any) []remark {
	return []remark{{message: fmt.Sprintf(format, args...), suggestion: suggestion}}
}

// within returns one remark about a field of the provider.
func within(field config.FieldPath, suggestion, format string, args ...any) []remark {
	rs := say(suggestion, format, args...)
	rs[0].at.rest = field
	return rs
}

// inFile returns one remark about a file at large.
func inFile(name string, line int, suggestion, format string, args ...any) []remark {
	return inDocument(config.Position{File: name, Line: line}, suggestion, format, args...)
}

// inDocument returns one remark about what is not in a provider.
func inDocument(where config.Position, suggestion, format string, args ...any) []remark {
	rs := say(suggestion, format, args...)
	rs[0].at = spot{elsewhere: true, where: where}
	return rs
}
