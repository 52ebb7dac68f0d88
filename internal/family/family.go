// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package family knows the registries whose hosts have a form of their own,
// such as ACCOUNT.dkr.ecr.REGION.amazonaws.com, and decides exactly whether a
// pattern can match any host of that form. It knows forms, not which registries
// there are, and contacts nobody.
package family

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/regcred/regcred/match"
)

// Stray is a pattern that is written like one for a family's registries and
// matches none of them.
type Stray struct {
	Owner   string // whose registries these are: "Amazon ECR"
	Form    string // of the hosts that the pattern comes nearest to: "ACCOUNT.dkr.ecr.REGION.amazonaws.com"
	Reason  string // what keeps the pattern from matching them
	Instead string // the host of a pattern that does
}

// Check returns what is wrong with the host of a pattern, in lower case, if it
// has the marks of a family and can match none of its hosts.
func Check(at match.Location) (Stray, bool) {
	labels := strings.Split(at.Host, ".")
	if strings.ContainsAny(at.Host, ":[") || len(labels) > maxLabels {
		return Stray{}, false
	}
	for _, f := range families() {
		if !f.claims(labels) {
			continue
		}
		served := slices.ContainsFunc(f.forms, func(f form) bool { return f.serves(labels) })
		switch {
		case !served:
			best := f.nearest(at)
			return Stray{f.owner, best.text, best.mismatch(labels), best.mended(labels)}, true
		case at.Port != "" && at.Port != "443":
			best := f.nearest(at)
			return Stray{f.owner, best.text, "these hosts do not listen on port " + at.Port, best.mended(labels)}, true
		}
		return Stray{}, false
	}
	return Stray{}, false
}

// Instead is the pattern for the form that an image's host has, in place of one
// with a * for another form of the same registries' hosts; "" if there is none or
// the pattern names one registry, or has as many labels: [match.Pattern.Mismatch]
// knows better then.
func Instead(pattern, image match.Location) string {
	wants, has := strings.Split(pattern.Host, "."), strings.Split(image.Host, ".")
	if len(wants) == len(has) || !slices.Contains(wants, "*") || len(wants) > maxLabels || len(has) > maxLabels || !strings.HasPrefix(image.Path, pattern.Path) {
		return ""
	}
	for _, f := range families() {
		at := slices.IndexFunc(f.forms, func(f form) bool {
			return slices.EqualFunc(f.labels, has, func(l label, s string) bool { return match.Label(l.glob, s) })
		})
		if at < 0 || !f.claims(wants) {
			continue
		}
		form := f.forms[at]
		if slices.ContainsFunc(wants, func(s string) bool { return s != "*" && !form.has(s) }) {
			return ""
		}
		pattern.Host, pattern.Port = form.mended(nil), image.Port
		return pattern.String()
	}
	return ""
}

// maxLabels bounds what is compared; the DNS has no names with more.
const maxLabels = 127

// family is a kind of registries.
type family struct {
	owner  string
	forms  []form
	claims func(labels []string) bool // whether a pattern has its marks
}

// nearest is the form to which a pattern comes nearest: by the labels of the
// form that are given, then as package match ranks. The first of equals.
func (f *family) nearest(at match.Location) form {
	pattern := strings.Split(at.Host, ".")
	var alike []form
	best := math.MinInt
	for _, form := range f.forms {
		switch n := form.likeness(pattern); {
		case n > best:
			alike, best = append(alike[:0], form), n
		case n == best:
			alike = append(alike, form)
		}
	}
	p, err := match.Parse(at.Host)
	if len(alike) == 1 || err != nil {
		return alike[0]
	}
	near := func(f form) int { return p.Mismatch(f.example).Near }
	return slices.MaxFunc(alike, func(a, b form) int { return near(a) - near(b) })
}

// form is that of the hosts of some registries.
type form struct {
	text    string         // for people
	example match.Location // a host that has it
	labels  []label
	rare    bool // nobody means it who does not write as many labels
}

// likeness is how many of the labels that the form always has a pattern has,
// less those that it has not.
func (f form) likeness(pattern []string) (n int) {
	if f.rare && len(pattern) != len(f.labels) {
		return -len(f.labels)
	}
	for _, l := range f.labels {
		switch {
		case l.open():
		case slices.Contains(pattern, l.glob):
			n++
		default:
			n--
		}
	}
	return n
}

// serves reports whether a pattern matches some host of the form.
func (f form) serves(pattern []string) bool {
	if len(pattern) != len(f.labels) {
		return false
	}
	for i, l := range f.labels {
		if !l.meets(pattern[i]) {
			return false
		}
	}
	return true
}

// mismatch says why no host of the form is matched by a pattern; "" if some is.
func (f form) mismatch(pattern []string) string {
	if n := len(f.labels); len(pattern) != n {
		return fmt.Sprintf("the pattern has %d labels instead of %d (a * matches one label)", len(pattern), n)
	}
	for i, l := range f.labels {
		if !l.meets(pattern[i]) {
			return fmt.Sprintf("label %d, %q, is not %s", i+1, pattern[i], l.what)
		}
	}
	return ""
}

// mended is the form as a pattern, with what of a pattern's labels fits.
func (f form) mended(pattern []string) string {
	mended, next := make([]string, len(f.labels)), 0
	for i, l := range f.labels {
		mended[i] = l.glob
		if len(pattern) == len(f.labels) {
			if l.meets(pattern[i]) {
				mended[i] = pattern[i]
			}
			continue
		}
		if !l.open() {
			continue
		}
		// Of another number of labels the first is the first, and the others are
		// found by their form.
		for k := next; k < len(pattern) && (i > 0 || k == 0); k++ {
			if !strings.Contains(pattern[k], "*") && !f.has(pattern[k]) && l.meets(pattern[k]) {
				mended[i], next = pattern[k], k+1
				break
			}
		}
	}
	return strings.Join(mended, ".")
}

// has reports whether a label of the form is always this text.
func (f form) has(text string) bool {
	return slices.ContainsFunc(f.labels, func(l label) bool { return !l.open() && l.glob == text })
}
