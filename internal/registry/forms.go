// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registry

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Unmatchable describes a pattern that is written like a pattern for a service's
// registries, but matches none of their hosts.
type Unmatchable struct {
	Owner   string // the service: "Amazon ECR"
	Form    string // the nearest form of its hosts: "ACCOUNT.dkr.ecr.REGION.amazonaws.com"
	Reason  string // why the pattern matches no host of this form
	Instead string // the host of a pattern that does
}

// CheckForm reports whether the host of a pattern, in lower case, looks like a
// service's registries but cannot match any of their hosts. It knows the forms
// of hosts, not which registries exist.
func CheckForm(host, port string) (Unmatchable, bool) {
	labels, ok := splitHost(host)
	i := slices.IndexFunc(services(), func(s *service) bool { return ok && s.claims(labels) })
	if i < 0 {
		return Unmatchable{}, false
	}
	s := services()[i]
	served := slices.ContainsFunc(s.forms, func(f hostForm) bool { return f.mismatch(labels) == "" })
	if served && (port == "" || port == "443") {
		return Unmatchable{}, false
	}
	best := s.nearest(labels)
	reason := best.mismatch(labels)
	if served {
		reason = "these hosts do not listen on port " + port
	}
	return Unmatchable{s.owner, best.text, reason, best.pattern(labels)}, true
}

// SuggestHost returns the pattern for the form of an image's host, if the host
// of the pattern has a * and is for another form of the same service. It returns
// "" if the pattern is not for this service or has as many labels as the host.
func SuggestHost(pattern, imageHost string) string {
	want, ok := splitHost(pattern)
	has, valid := splitHost(imageHost)
	if !ok || !valid || len(want) == len(has) || !slices.Contains(want, "*") {
		return ""
	}
	for _, s := range services() {
		at := slices.IndexFunc(s.forms, func(f hostForm) bool { return slices.EqualFunc(f.labels, has, formLabel.matchesLoosely) })
		if at < 0 || !s.claims(want) {
			continue
		}
		form := s.forms[at]
		if slices.ContainsFunc(want, func(label string) bool { return label != "*" && !form.hasLiteral(label) }) {
			return ""
		}
		return form.pattern(nil)
	}
	return ""
}

// OwnerOf returns the service that a host belongs to, such as "Quay.io", or "".
func OwnerOf(host string) string {
	labels, _ := splitHost(host)
	if under(Hub)(labels) {
		return "Docker Hub"
	}
	for _, s := range services() {
		if slices.ContainsFunc(s.forms, func(f hostForm) bool { return f.mismatch(labels) == "" }) {
			return s.owner
		}
	}
	return ""
}

// splitHost returns the labels of a host; ok is false for addresses and for
// names that are too long for DNS.
func splitHost(host string) (labels []string, ok bool) {
	labels = strings.Split(host, ".")
	return labels, !strings.ContainsAny(host, ":[") && len(labels) <= 127
}

// service is an operator of registries whose hosts have known forms.
type service struct {
	owner  string
	forms  []hostForm
	claims func(labels []string) bool // whether a pattern is meant for the service
}

// nearest returns the form that a pattern resembles most: by its literal labels,
// then by the number of labels, then by the labels that are the same from the end.
// The first of equal forms wins.
func (s *service) nearest(pattern []string) hostForm {
	return slices.MaxFunc(s.forms, func(a, b hostForm) int {
		return cmp.Or(a.likeness(pattern)-b.likeness(pattern), a.alignment(pattern)-b.alignment(pattern))
	})
}

// hostForm is the form of the hosts of some registries.
type hostForm struct {
	text   string // in error messages: "ACCOUNT.dkr.ecr.REGION.amazonaws.com"
	labels []formLabel
	rare   bool // proposed only for patterns with the same number of labels
}

// formLabel is one label of a form: a literal, or any text of a kind and a suffix.
type formLabel struct {
	literal string // or the suffix, if kind is set
	kind    *labelKind
}

// labelKind is a set of labels. For a pattern with a *, only the characters and
// the beginning are compared, so it may match where the expression does not.
type labelKind struct {
	name        string // in capitals, as in a form's text
	description string
	expr        *regexp.Regexp
	chars       string   // all characters of these labels
	prefix      string   // the beginning of each label
	reserved    []string // beginnings that no label has
}

// glob returns the label as a pattern.
func (l formLabel) glob() string {
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

// matchesLoosely reports whether label has the literal part of l.
func (l formLabel) matchesLoosely(label string) bool {
	return label == l.literal || l.kind != nil && strings.HasSuffix(label, l.literal)
}

// canMatch reports whether a pattern's label matches any label of the form.
func (l formLabel) canMatch(pattern string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	tail := rest[strings.LastIndexByte(rest, '*')+1:]
	switch {
	case l.kind == nil && star:
		return globMatch(pattern, l.literal)
	case l.kind == nil:
		return pattern == l.literal
	case slices.ContainsFunc(l.kind.reserved, func(s string) bool { return strings.HasPrefix(head, s) }):
		return false
	case !star:
		text, ok := strings.CutSuffix(pattern, l.literal)
		return ok && l.kind.expr.MatchString(text)
	}
	n, m := min(len(head), len(l.kind.prefix)), min(len(tail), len(l.literal))
	return strings.Trim(pattern, l.kind.chars+"*") == "" && head[:n] == l.kind.prefix[:n] &&
		tail[len(tail)-m:] == l.literal[len(l.literal)-m:]
}

// globMatch matches a text with a pattern in which * is any text.
func globMatch(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	text, ok := strings.CutPrefix(text, parts[0])
	for _, part := range parts[1:last] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return ok && strings.HasSuffix(text, parts[last])
}

// likeness counts the literal labels that the pattern has, minus those that it
// lacks.
func (f hostForm) likeness(pattern []string) (n int) {
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

// alignment counts the labels that match from the end, and prefers a form with
// the same number of labels.
func (f hostForm) alignment(pattern []string) (n int) {
	if len(pattern) == len(f.labels) {
		n = len(pattern)
	}
	for i := 1; i <= min(len(pattern), len(f.labels)) && f.labels[len(f.labels)-i].canMatch(pattern[len(pattern)-i]); i++ {
		n++
	}
	return n
}

// mismatch returns why a pattern matches no host of the form, or "".
func (f hostForm) mismatch(pattern []string) string {
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

// pattern returns a pattern for the form that keeps the labels of the given one
// where they fit.
func (f hostForm) pattern(given []string) string {
	labels, next := make([]string, len(f.labels)), 0
	for i, l := range f.labels {
		labels[i] = l.glob()
		if len(given) == len(f.labels) {
			if l.canMatch(given[i]) {
				labels[i] = given[i]
			}
			continue
		}
		if l.kind == nil {
			continue
		}
		// With another number of labels, only the first keeps its position.
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
	digits = "0123456789"
	lower  = "abcdefghijklmnopqrstuvwxyz"
)

// labelKinds returns the kinds of labels. An AWS region belongs to exactly one
// partition, which its beginning shows.
func labelKinds(regionPrefix string) []*labelKind {
	compile := func(expr string) *regexp.Regexp { return regexp.MustCompile("^(?:" + expr + ")$") }
	region := &labelKind{"REGION", "a region such as us-east-1", compile(`[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}`),
		lower + digits + "-", "", []string{"cn-", "us-iso", "eu-iso", "eusc-"}}
	if regionPrefix != "" {
		region = &labelKind{"REGION", "a region that begins with " + regionPrefix, compile(regionPrefix + `([a-z]+-)*[a-z]+-[0-9]{1,2}`),
			lower + digits + "-", regionPrefix, nil}
	}
	return []*labelKind{
		region,
		{"ACCOUNT", "a 12-digit account", compile(`[0-9]{12}`), digits, "", nil},
		{"ENDPOINT", "a VPC endpoint", compile(`vpce-[0-9a-z-]+`), lower + digits + "-", "vpce-", nil},
		{"LOCATION", "a location such as europe-west1", compile(`[a-z]+[a-z0-9-]*`), lower + digits + "-", "", nil},
		// A registry with a domain name label has a dash and a hash.
		{"REGISTRY", "a registry name of 5 to 50 letters and digits", compile(`[a-z0-9]{5,50}(-[a-z0-9]+)?`), lower + digits + "-", "", nil},
		{"NAME", "a DNS label", compile(`[a-z0-9]([a-z0-9-]*[a-z0-9])?`), lower + digits + "-", "", nil},
	}
}

// parseForms parses forms such as "LOCATION-docker.pkg.dev", separated by
// spaces. A ! marks a rare form.
func parseForms(regionPrefix, texts string) (list []hostForm) {
	kinds := labelKinds(regionPrefix)
	for text := range strings.FieldsSeq(texts) {
		text, rare := strings.CutPrefix(text, "!")
		f := hostForm{text: text, rare: rare}
		for part := range strings.SplitSeq(text, ".") {
			l := formLabel{literal: part}
			for _, kind := range kinds {
				if suffix, ok := strings.CutPrefix(part, kind.name); ok {
					l = formLabel{suffix, kind}
				}
			}
			f.labels = append(f.labels, l)
		}
		list = append(list, f)
	}
	return list
}

// services lists the known services. Sources: the operators' documentation of
// their endpoints, and the plugins that they publish.
var services = sync.OnceValue(func() []*service {
	azure := ""
	for domain := range strings.FieldsSeq(AzureDomains) {
		azure += " REGISTRY." + domain + " !REGISTRY.NAME.geo." + domain
	}
	return []*service{
		{"Amazon ECR", slices.Concat(
			parseForms("", `ACCOUNT.dkr.ecr.REGION.amazonaws.com ACCOUNT.dkr.ecr-fips.REGION.amazonaws.com
				ACCOUNT.dkr-ecr.REGION.on.aws ACCOUNT.dkr-ecr-fips.REGION.on.aws
				public.ecr.aws ecr-public.aws.com !ENDPOINT.dkr.ecr.REGION.vpce.amazonaws.com`),
			parseForms("cn-", `ACCOUNT.dkr.ecr.REGION.amazonaws.com.cn ACCOUNT.dkr-ecr.REGION.on.amazonwebservices.com.cn
				!ENDPOINT.dkr.ecr.REGION.vpce.amazonaws.com.cn`),
			parseForms("eusc-", "ACCOUNT.dkr.ecr.REGION.amazonaws.eu ACCOUNT.dkr-ecr.REGION.on.amazonwebservices.eu"),
			isolatedForms("us-iso-", "c2s.ic.gov", "on.aws.ic.gov"),
			isolatedForms("us-isob-", "sc2s.sgov.gov", "on.aws.scloud"),
			isolatedForms("us-isof-", "csp.hci.ic.gov", "on.aws.hci.ic.gov"),
			isolatedForms("eu-isoe-", "cloud.adc-e.uk", "on.cloud-aws.adc-e.uk"),
		), isAmazon},
		{"Google Artifact Registry", parseForms("", "LOCATION-docker.pkg.dev !docker.LOCATION.rep.pkg.dev"), under("pkg.dev")},
		{"Google Container Registry", parseForms("", "gcr.io NAME.gcr.io"), under("gcr.io")},
		{"Azure Container Registry", parseForms("", azure), isAzure},
		{"Microsoft Artifact Registry", parseForms("", MicrosoftHost), under(MicrosoftHost)},
		{"GitHub Packages", parseForms("", "ghcr.io docker.pkg.github.com"), under("ghcr.io", "github.com")},
		{"Quay.io", parseForms("", "quay.io"), under("quay.io")},
		{"GitLab.com", parseForms("", "registry.gitlab.com !gitlab.com !registry.NAME.gitlab.com"), under("gitlab.com")}, // gitlab.com: the dependency proxy
		{"Kubernetes", parseForms("", "registry.k8s.io !NAME.k8s.io"), under("k8s.io")},
		{"JFrog", parseForms("", "NAME.jfrog.io NAME.NAME.jfrog.io"), under("jfrog.io")},
		{"Oracle Cloud", parseForms("", "NAME.ocir.io NAME.NAME.ocir.io"), under("ocir.io")},
	}
})

// isolatedForms returns the forms of an AWS partition apart from the public ones.
func isolatedForms(regionPrefix, domain, dualStack string) []hostForm {
	return parseForms(regionPrefix, strings.NewReplacer("DOMAIN", domain, "DUAL", dualStack).Replace(
		"ACCOUNT.dkr.ecr.REGION.DOMAIN ACCOUNT.dkr.ecr-fips.REGION.DOMAIN ACCOUNT.dkr-ecr.REGION.DUAL ACCOUNT.dkr-ecr-fips.REGION.DUAL"))
}

// under returns a function that reports whether a host is in one of the domains.
func under(domains ...string) func([]string) bool {
	return func(labels []string) bool {
		host := "." + strings.Join(labels, ".")
		return slices.ContainsFunc(domains, func(d string) bool { return strings.HasSuffix(host, "."+d) })
	}
}

// isAmazon excludes other AWS services and load balancers in these domains, and
// emulators and proxies that use ECR's labels in their own domains.
func isAmazon(labels []string) bool {
	var ecr, private, others bool
	for i, s := range labels {
		switch s {
		case "dkr", "ecr", "ecr-fips", "dkr-ecr", "dkr-ecr-fips", "ecr-public":
			ecr = true
			private = private || i > 0 && labels[i-1]+"."+s == "dkr.ecr" || s == "dkr-ecr"
		case "*", "amazonaws", "com", "cn", "eu":
		default:
			others = true
		}
	}
	switch last := labels[len(labels)-1]; {
	case private && strings.Trim(last, "*") == "":
		return true // the domain is missing
	case under("amazonaws", "amazonaws.com", "amazonaws.com.cn", "amazonaws.cn", "amazonaws.eu", "amazonaws.net", "amazonaws.org", "amazonaws.*")(labels):
		return ecr || !others
	}
	return ecr && under("aws", "aws.com", "amazonwebservices.com", "amazonwebservices.com.cn", "amazonwebservices.eu",
		"c2s.ic.gov", "sc2s.sgov.gov", "csp.hci.ic.gov", "cloud.adc-e.uk")(labels)
}

// isAzure accepts wrong top-level domains that users write, but not those of
// custom clouds.
func isAzure(labels []string) bool {
	n := len(labels)
	return labels[n-1] == "azurecr" || n > 1 && labels[n-2] == "azurecr" &&
		slices.Contains([]string{"*", "io", "cn", "us", "de", "com", "net", "org"}, labels[n-1])
}
