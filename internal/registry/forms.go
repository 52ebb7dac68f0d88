// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/location"
)

// UnmatchablePattern describes a pattern that is meant for a service's registries but matches none
// of their hosts.
type UnmatchablePattern struct {
	Owner      string // service, such as "Amazon ECR"
	HostForm   string // form of host that is most similar to the pattern, such as "ACCOUNT.dkr.ecr.REGION.amazonaws.com"
	Reason     string // why the pattern matches no host of this form
	Suggestion string // host pattern that matches such hosts
}

// CheckPatternForm reports whether a pattern is meant for a service's registries but cannot match
// any of their hosts. The arguments are the pattern's host, in lower case, and its port.
// CheckPatternForm checks the form of host names, not which registries exist.
func CheckPatternForm(host, port string) (UnmatchablePattern, bool) {
	labels, ok := splitHost(host)
	known := knownServices()
	i := slices.IndexFunc(known, func(s service) bool { return ok && s.looksLike(labels) })
	if i < 0 {
		return UnmatchablePattern{}, false
	}
	forms := known[i].hostForms()
	served := slices.ContainsFunc(forms, func(f hostForm) bool { return f.mismatchReason(labels) == "" })
	if served && (port == "" || port == "443") {
		return UnmatchablePattern{}, false
	}
	best := nearestForm(forms, labels)
	reason := best.mismatchReason(labels)
	if served {
		reason = "these hosts do not listen on port " + port
	}
	return UnmatchablePattern{known[i].owner, best.text, reason, best.suggestPattern(labels)}, true
}

// SuggestHost returns a host pattern that matches hosts like the image's. It returns "" unless the
// given pattern contains a * and is for another host form of the same service. It also returns ""
// if the pattern has as many labels as the image's host.
func SuggestHost(pattern, imageHost string) string {
	want, ok := splitHost(pattern)
	has, valid := splitHost(imageHost)
	if !ok || !valid || len(want) == len(has) || !slices.Contains(want, "*") {
		return ""
	}
	for _, s := range knownServices() {
		for _, form := range s.hostForms() {
			if !s.looksLike(want) || !slices.EqualFunc(form.labels, has, formLabel.matchesLoosely) {
				continue
			}
			if slices.ContainsFunc(want, func(label string) bool { return label != "*" && !form.hasLiteral(label) }) {
				return ""
			}
			return form.suggestPattern(nil)
		}
	}
	return ""
}

// HostOwner returns the service that owns a host, such as "Quay.io", or "".
func HostOwner(host string) string {
	labels, _ := splitHost(host)
	if inDomains(DockerHub)(labels) {
		return "Docker Hub"
	}
	for _, s := range knownServices() {
		if slices.ContainsFunc(s.hostForms(), func(f hostForm) bool { return f.mismatchReason(labels) == "" }) {
			return s.owner
		}
	}
	return ""
}

// splitHost returns the labels of a host. ok is false for IP addresses and for names
// that are too long for DNS.
func splitHost(host string) (labels []string, ok bool) {
	labels = strings.Split(host, ".")
	return labels, !strings.ContainsAny(host, ":[") && len(labels) <= 127
}

// nearestForm returns the form that is most similar to a pattern. It first compares the literal
// labels, and then the number of labels and the labels that match from the end. If forms are
// equally similar, it returns the first.
func nearestForm(forms []hostForm, pattern []string) hostForm {
	return slices.MaxFunc(forms, func(a, b hostForm) int {
		return cmp.Or(a.literalMatches(pattern)-b.literalMatches(pattern), a.suffixMatches(pattern)-b.suffixMatches(pattern))
	})
}

// hostForm describes the host names of some registries.
type hostForm struct {
	text   string // form for error messages, such as "ACCOUNT.dkr.ecr.REGION.amazonaws.com"
	labels []formLabel
	rare   bool // suggested only for patterns with the same number of labels
}

// formLabel is one label of a form. It is a literal, or a variable part followed by a literal
// suffix.
type formLabel struct {
	literal string // the suffix if kind is set
	kind    *labelKind
}

// labelKind describes the possible values of a variable label, such as a region. For a pattern with
// a *, only the characters and the prefix are checked. Such a pattern may pass although it matches
// no label.
type labelKind struct {
	name        string // in capitals, as in the form's text
	description string
	chars       string            // characters allowed in these labels
	prefix      string            // prefix of every label
	reserved    []string          // prefixes that no label has
	valid       func(string) bool // checks labels with these characters; nil accepts all
}

func (l formLabel) globPattern() string {
	if l.kind != nil {
		return "*" + l.literal
	}
	return l.literal
}

func (l formLabel) String() string {
	switch {
	case l.kind == nil:
		return fmt.Sprintf("%q", l.literal)
	case l.literal == "":
		return l.kind.description
	}
	return l.kind.description + " with " + l.literal
}

// matchesLoosely reports whether label equals the literal. If l has a kind, it is enough that label
// ends with the literal.
func (l formLabel) matchesLoosely(label string) bool {
	return label == l.literal || l.kind != nil && strings.HasSuffix(label, l.literal)
}

// canMatch reports whether a pattern's label can match a label of the form.
func (l formLabel) canMatch(pattern string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	tail := rest[strings.LastIndexByte(rest, '*')+1:]
	switch {
	case l.kind == nil:
		return location.MatchLabel(pattern, l.literal)
	case slices.ContainsFunc(l.kind.reserved, func(s string) bool { return strings.HasPrefix(head, s) }):
		return false
	case !star:
		text, ok := strings.CutSuffix(pattern, l.literal)
		return ok && l.kind.containsLabel(text)
	}
	n, m := min(len(head), len(l.kind.prefix)), min(len(tail), len(l.literal))
	return strings.Trim(pattern, l.kind.chars+"*") == "" && head[:n] == l.kind.prefix[:n] &&
		tail[len(tail)-m:] == l.literal[len(l.literal)-m:]
}

// containsLabel reports whether label can be a label of the kind. It does not check reserved prefixes.
func (k *labelKind) containsLabel(label string) bool {
	return label != "" && strings.Trim(label, k.chars) == "" && strings.HasPrefix(label, k.prefix) && (k.valid == nil || k.valid(label))
}

// literalMatches returns how many of the form's literal labels are in the pattern, minus how many
// are missing.
func (f hostForm) literalMatches(pattern []string) (n int) {
	if f.rare && len(pattern) != len(f.labels) {
		return -len(f.labels)
	}
	for _, l := range f.labels {
		switch {
		case l.kind != nil:
		case slices.Contains(pattern, l.literal):
			n++
		default:
			n--
		}
	}
	return n
}

// suffixMatches counts the labels that match from the end. It adds a bonus if the number of labels
// is the same.
func (f hostForm) suffixMatches(pattern []string) (n int) {
	if len(pattern) == len(f.labels) {
		n = len(pattern)
	}
	for i := 1; i <= min(len(pattern), len(f.labels)) && f.labels[len(f.labels)-i].canMatch(pattern[len(pattern)-i]); i++ {
		n++
	}
	return n
}

// mismatchReason returns why a pattern matches no host of the form. It returns "" if the pattern
// can match one.
func (f hostForm) mismatchReason(pattern []string) string {
	if n := len(f.labels); len(pattern) != n {
		return fmt.Sprintf("the pattern has %d labels instead of %d (a * matches one label)", len(pattern), n)
	}
	for i, l := range f.labels {
		if !l.canMatch(pattern[i]) {
			return fmt.Sprintf("label %d, %q, is not %v", i+1, pattern[i], l)
		}
	}
	return ""
}

// suggestPattern returns a pattern for the form. It keeps labels of the given pattern that match
// the form.
func (f hostForm) suggestPattern(given []string) string {
	labels, next := make([]string, len(f.labels)), 0
	for i, l := range f.labels {
		labels[i] = l.globPattern()
		if len(given) == len(f.labels) {
			if l.canMatch(given[i]) {
				labels[i] = given[i]
			}
			continue
		}
		if l.kind == nil {
			continue
		}
		// If the number of labels differs, only the first label keeps its position.
		for k := next; k < len(given) && (i > 0 || k == 0); k++ {
			if !strings.Contains(given[k], "*") && !f.hasLiteral(given[k]) && l.canMatch(given[k]) {
				labels[i], next = given[k], k+1
				break
			}
		}
	}
	return strings.Join(labels, ".")
}

func (f hostForm) hasLiteral(label string) bool {
	return slices.Contains(f.labels, formLabel{literal: label})
}

const (
	digits    = "0123456789"
	letters   = "abcdefghijklmnopqrstuvwxyz"
	hostChars = letters + digits + "-"
)

// labelKinds returns the kinds of labels for one AWS partition. The prefix of a region identifies
// its partition.
func labelKinds(regionPrefix string) []*labelKind {
	valid := func(s string) bool { return isAmazonRegion(s) && strings.Contains(s[len(regionPrefix):], "-") }
	region := &labelKind{"REGION", "a region such as us-east-1", hostChars, "", []string{"cn-", "us-iso", "eu-iso", "eusc-"}, valid}
	if regionPrefix != "" {
		region = &labelKind{"REGION", "a region that begins with " + regionPrefix, hostChars, regionPrefix, nil, valid}
	}
	return []*labelKind{
		region,
		{"ACCOUNT", "a 12-digit account", digits, "", nil, func(s string) bool { return len(s) == 12 }},
		{"ENDPOINT", "a VPC endpoint", hostChars, "vpce-", nil, func(s string) bool { return s != "vpce-" }},
		{"LOCATION", "a location such as europe-west1", hostChars, "", nil, func(s string) bool { return s[0] >= 'a' }},
		{"REGISTRY", "a registry name of 5 to 50 letters and digits", hostChars, "", nil, isAzureRegistry},
		{"NAME", "a DNS label", hostChars, "", nil, func(s string) bool { return strings.Trim(s, "-") == s }},
	}
}

// isAmazonRegion reports whether s has the form of an AWS region: two or more words and a number,
// such as us-gov-west-1.
func isAmazonRegion(s string) bool {
	words := strings.Split(s, "-")
	last := len(words) - 1
	if last < 2 || len(words[0]) < 2 || len(words[0]) > 4 || len(words[last]) > 2 || words[last] == "" || strings.Trim(words[last], digits) != "" {
		return false
	}
	return !slices.ContainsFunc(words[:last], func(w string) bool { return w == "" || strings.Trim(w, letters) != "" })
}

// isAzureRegistry reports whether s has the form of a registry name, with or without the hash of a
// domain name label.
func isAzureRegistry(s string) bool {
	name, hash, hashed := strings.Cut(s, "-")
	return len(name) >= 5 && len(name) <= 50 && (hash != "") == hashed && !strings.Contains(hash, "-")
}

func parseForms(regionPrefix, texts string) (list []hostForm) {
	kinds := labelKinds(regionPrefix)
	for text := range strings.FieldsSeq(texts) {
		text, rare := strings.CutPrefix(text, "!")
		f := hostForm{text: text, rare: rare}
		for part := range strings.SplitSeq(text, ".") {
			l := formLabel{literal: part}
			at := slices.IndexFunc(kinds, func(k *labelKind) bool { return strings.HasPrefix(part, k.name) })
			if at >= 0 {
				l = formLabel{strings.TrimPrefix(part, kinds[at].name), kinds[at]}
			}
			f.labels = append(f.labels, l)
		}
		list = append(list, f)
	}
	return list
}
