// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package lint

import (
	"bytes"
	"fmt"
	"strings"
)

// hostileConfig generates a configuration that tries to exhaust the memory or time of a program that
// reads it.
type hostileConfig struct {
	name     string
	generate func(size int) string // returns a configuration of at most about size bytes
}

const (
	hostileHead = "kind: CredentialProviderConfig\napiVersion: kubelet.config.k8s.io/v1\nproviders:\n"
	hostileRest = "  defaultCacheDuration: 1h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n"
	hostileOne  = "- name: a\n  matchImages: [a.example]\n" + hostileRest
	hostileJSON = `{"kind":"CredentialProviderConfig","apiVersion":"kubelet.config.k8s.io/v1","providers":[`
	jsonOne     = `{"name":"a","matchImages":["a.example"],"defaultCacheDuration":"1h","apiVersion":"credentialprovider.kubelet.k8s.io/v1"`
)

// largestAccepted returns the largest configuration, up to size bytes, that does not have too many
// separators. regcred rejects a file with too many separators immediately, so such a file would
// test nothing.
func (h hostileConfig) largestAccepted(size int) string {
	for {
		text, n := h.generate(size), 0
		for _, separator := range "\n\r,[{-:?" {
			n += strings.Count(text, string(separator))
		}
		if n <= 1<<17 {
			return text
		}
		size = min(size*9/10, int(float64(size)*(1<<17)/float64(n)))
	}
}

// repeatToSize returns a generator of before, as many items as fit into the size, and after. %d in
// item is replaced with the item's number.
func repeatToSize(before, item, after string) func(int) string {
	return func(size int) string {
		var b strings.Builder
		b.WriteString(before)
		for i := 0; ; i++ {
			s := strings.ReplaceAll(item, "%d", fmt.Sprint(i))
			if b.Len()+len(s)+len(after) > size {
				break
			}
			b.WriteString(s)
		}
		b.WriteString(after)
		return b.String()
	}
}

// nestToSize returns a generator of nested values. It repeats open and close as often as the size
// allows, but at most depth times.
func nestToSize(before, open, middle, close, after string, depth int) func(int) string {
	return func(size int) string {
		n := min(depth, (size-len(before)-len(after))/(len(open)+len(close)))
		return before + strings.Repeat(open, n) + middle + strings.Repeat(close, n) + after
	}
}

// indentedLines returns a generator of lines, each indented more than the previous one.
func indentedLines(key string) func(int) string {
	return func(size int) string {
		var b bytes.Buffer
		b.WriteString(hostileHead + hostileOne + "  foo:\n")
		for i := 3; b.Len() < size && i < 4000; i++ {
			b.WriteString(strings.Repeat(" ", i) + key + "\n")
		}
		return b.String()
	}
}

// aliasTree returns a generator of anchors, each of which refers n times to the previous anchor.
func aliasTree(leaf string, n, depth int, flow bool) func(int) string {
	return func(size int) string {
		var b strings.Builder
		b.WriteString(hostileHead + hostileOne + "  foo:\n  - &a0 " + leaf + "\n")
		for i := 1; i <= depth; i++ {
			refs := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), n), ", ")
			if flow {
				fmt.Fprintf(&b, "  - &a%d {x: [%s]}\n", i, refs)
			} else {
				fmt.Fprintf(&b, "  - &a%d [%s]\n", i, refs)
			}
		}
		return b.String()
	}
}

// aliasesToLongText returns a generator of aliases that all refer to one long text.
func aliasesToLongText(text func(size int) string, head, item, after string) func(int) string {
	return func(size int) string {
		return repeatToSize(head+"  args:\n  - &a "+text(size/2)+"\n", item, after)(size)
	}
}

func longText(unit string) func(int) string {
	return func(size int) string { return strings.Repeat(unit, size/len(unit)) }
}

// hostileConfigs returns about a hundred configurations, grouped by kind of attack.
func hostileConfigs() []hostileConfig {
	var all []hostileConfig
	add := func(name string, f func(int) string) { all = append(all, hostileConfig{name, f}) }

	// Many valid elements.
	add("many providers", repeatToSize(hostileHead, "- name: p%d\n  matchImages: [r%d.example]\n"+hostileRest, ""))
	add("many providers, JSON", repeatToSize(hostileJSON+jsonOne+"}", `,{"name":"p%d","matchImages":["r%d.example"],"defaultCacheDuration":"1h","apiVersion":"credentialprovider.kubelet.k8s.io/v1"}`, "]}"))
	add("empty providers", repeatToSize(hostileHead, "- {}\n", ""))
	add("empty providers on one line", repeatToSize(hostileHead+"  [", "{},", "{}]\n"))
	add("null providers", repeatToSize(hostileHead, "-\n", ""))
	add("providers of one name", repeatToSize(hostileHead, hostileOne, ""))
	add("providers of one pattern", repeatToSize(hostileHead, "- name: p%d\n  matchImages: [a.example]\n"+hostileRest, ""))
	add("many patterns", repeatToSize(hostileHead+"- name: a\n"+hostileRest+"  matchImages:\n", "  - r%d.example\n", ""))
	add("many patterns on one line", repeatToSize(hostileHead+"- name: a\n"+hostileRest+"  matchImages: [", "r%d.example,", "]\n"))
	add("many patterns, JSON", repeatToSize(hostileJSON+`{"name":"a","matchImages":["a.example"`, `,"r%d.example"`, `],"defaultCacheDuration":"1h","apiVersion":"credentialprovider.kubelet.k8s.io/v1"}]}`))
	add("one pattern many times", repeatToSize(hostileHead+"- name: a\n"+hostileRest+"  matchImages:\n", "  - a.example\n", ""))
	add("short patterns", repeatToSize(hostileHead+"- name: a\n"+hostileRest+"  matchImages: [", "a,", "]\n"))
	add("globs", repeatToSize(hostileHead+"- name: a\n"+hostileRest+"  matchImages:\n", "  - '*.*.*.r%d.example'\n", ""))
	add("invalid patterns", repeatToSize(hostileHead+"- name: a\n"+hostileRest+"  matchImages:\n", "  - '[%d'\n", ""))
	add("patterns of the past", repeatToSize(hostileHead+"- name: a\n"+hostileRest+"  matchImages:\n", "  - 'https://R%d.example/*'\n", ""))
	add("patterns that shadow", repeatToSize(hostileHead+"- name: a\n"+hostileRest+"  matchImages: ['*.example', \n", "  r%d.example, ", "]\n"))
	add("a long pattern", repeatToSize(hostileHead+"- name: a\n"+hostileRest+"  matchImages: [a.example/", "x/", "x]\n"))
	add("a pattern of stars", repeatToSize(hostileHead+"- name: a\n"+hostileRest+"  matchImages: ['", "*", ".example']\n"))
	add("a pattern of labels", repeatToSize(hostileHead+"- name: a\n"+hostileRest+"  matchImages: ['", "*a.", "example']\n"))
	add("a pattern of escapes", repeatToSize(hostileHead+"- name: a\n"+hostileRest+"  matchImages: ['a.example/", "%61", "']\n"))
	add("many args", repeatToSize(hostileHead+hostileOne+"  args:\n", "  - --a%d\n", ""))
	add("many args on one line", repeatToSize(hostileHead+hostileOne+"  args: [", "a,", "]\n"))
	add("args like secrets", repeatToSize(hostileHead+hostileOne+"  args:\n", "  - --password=secret%d\n", ""))
	add("args with variables", repeatToSize(hostileHead+hostileOne+"  args:\n", "  - ${A%d}\n", ""))
	add("many variables", repeatToSize(hostileHead+hostileOne+"  env:\n", "  - {name: A%d, value: b}\n", ""))
	add("one variable many times", repeatToSize(hostileHead+hostileOne+"  env:\n", "  - {name: A, value: b}\n", ""))
	add("variables without a name", repeatToSize(hostileHead+hostileOne+"  env:\n", "  - {}\n", ""))
	add("variables like secrets", repeatToSize(hostileHead+hostileOne+"  env:\n", "  - {name: PASSWORD%d, value: b}\n", ""))
	add("many variables, JSON", repeatToSize(hostileJSON+jsonOne+`,"env":[{}`, `,{"name":"A%d","value":"b"}`, "]}]}"))
	const tokens = "  tokenAttributes:\n    serviceAccountTokenAudience: a\n    cacheType: Token\n    requireServiceAccount: true\n    requiredServiceAccountAnnotationKeys:\n"
	add("many annotations", repeatToSize(hostileHead+hostileOne+tokens, "    - a.example/k%d\n", ""))
	add("bad annotations", repeatToSize(hostileHead+hostileOne+tokens, "    - /%d\n", ""))
	add("one annotation many times", repeatToSize(hostileHead+hostileOne+tokens, "    - a\n", ""))

	// Many invalid elements.
	add("unknown fields", repeatToSize(hostileHead+hostileOne, "  foo%d: 1\n", ""))
	add("unknown fields, almost known", repeatToSize(hostileHead+hostileOne, "  matchimage%d: 1\n", ""))
	add("unknown fields at the top", repeatToSize(hostileHead+hostileOne, "foo%d: 1\n", ""))
	add("unknown fields of one provider each", repeatToSize(hostileHead, strings.ReplaceAll(hostileOne, "name: a", "name: p%d")+"  foo: 1\n", ""))
	add("unknown fields, JSON", repeatToSize(hostileJSON+jsonOne, `,"foo%d":1`, "}]}"))
	add("duplicate fields", repeatToSize(hostileHead+hostileOne, "  name: a\n", ""))
	add("duplicate fields, JSON", repeatToSize(hostileJSON+jsonOne, `,"name":"a"`, "}]}"))
	add("duplicate fields in each provider", repeatToSize(hostileHead, "- {name: a, name: b}\n", ""))
	add("duplicate unknown fields", repeatToSize(hostileHead+hostileOne, "  foo: 1\n", ""))
	add("fields in another case", repeatToSize(hostileHead, "- {NAME: a, Matchimages: []}\n", ""))
	add("values of another type", repeatToSize(hostileHead, "- {name: 1, matchImages: 2}\n", ""))
	add("numbers", repeatToSize(hostileHead+hostileOne+"  args: [", "1,", "1]\n"))
	add("maps as args", repeatToSize(hostileHead+hostileOne+"  args:\n", "  - {a: b}\n", ""))
	add("lists as args", repeatToSize(hostileHead+hostileOne+"  args:\n", "  - []\n", ""))
	add("providers as a map", repeatToSize(hostileHead, "  p%d: {name: a}\n", ""))
	add("providers as texts", repeatToSize(hostileHead, "- a\n", ""))
	add("another kind", repeatToSize("kind: Pod\napiVersion: v1\nmetadata:\n", "  a%d: b\n", ""))
	add("no kind", repeatToSize("providers:\n", "- {name: a}\n", ""))
	add("a list at the top", repeatToSize("", "- a\n", ""))
	add("numbers as keys", repeatToSize(hostileHead+hostileOne+"  foo:\n", "    %d: 1\n", ""))
	add("maps as keys", repeatToSize(hostileHead+hostileOne+"  foo:\n", "    ? {a: %d}\n    : 1\n", ""))
	add("the predecessor's", repeatToSize("kind: RegistryCredentialConfig\napiVersion: v1alpha1\nproviders:\n", "- {name: p%d, imageMatchers: [r%d.example]}\n", ""))
	add("the predecessor's args", repeatToSize("kind: RegistryCredentialConfig\napiVersion: v1alpha1\nproviders:\n- name: a\n  imageMatchers: [a.example]\n  extraArgs:\n", "    a%d: b\n", ""))
	add("the predecessor's args, twice", repeatToSize("kind: RegistryCredentialConfig\napiVersion: v1alpha1\nproviders:\n- name: a\n  imageMatchers: [a.example]\n  extraArgs:\n", "  - {name: a, value: b}\n", ""))

	// Deeply nested values.
	const foo = hostileHead + hostileOne + "  foo: "
	add("deep lists", nestToSize(foo, "[", "", "]", "\n", 9990))
	add("too deep lists", nestToSize(foo, "[", "", "]", "\n", 1<<30))
	add("deep maps", nestToSize(foo, "{a: ", "b", "}", "\n", 9990))
	add("too deep maps", nestToSize(foo, "{a: ", "b", "}", "\n", 1<<30))
	add("deep lists, JSON", nestToSize(hostileJSON+jsonOne+`,"foo":`, "[", "", "]", "}]}", 9990))
	add("too deep lists, JSON", nestToSize(hostileJSON+jsonOne+`,"foo":`, "[", "", "]", "}]}", 1<<30))
	add("deep maps, JSON", nestToSize(hostileJSON+jsonOne+`,"foo":`, `{"a":`, "1", "}", "}]}", 9990))
	add("deep dashes", nestToSize(hostileHead, "- ", "a", "", "\n", 9990))
	add("too deep dashes", nestToSize(hostileHead, "- ", "a", "", "\n", 1<<30))
	add("deep dashes on many lines", repeatToSize(hostileHead, strings.Repeat("- ", 500)+"a\n", ""))
	add("deep lists on many lines", repeatToSize(hostileHead, "- "+strings.Repeat("[", 500)+strings.Repeat("]", 500)+"\n", ""))
	add("deep indentation", indentedLines("a:"))
	add("deep indentation of lists", indentedLines("-"))
	add("question marks", nestToSize(foo, "? ", "a", "", "\n", 1<<30))
	add("open brackets", nestToSize(foo, "[", "", "", "\n", 1<<30))
	add("open braces", nestToSize(foo, "{", "", "", "\n", 1<<30))
	add("closed brackets", nestToSize(foo, "]", "", "", "\n", 1<<30))

	// Long values.
	add("a long text", repeatToSize(hostileHead+hostileOne+"  args: [", "x", "]\n"))
	add("a long quoted text", repeatToSize(hostileHead+hostileOne+`  args: ["`, "x", "\"]\n"))
	add("a long text of escapes", repeatToSize(hostileHead+hostileOne+`  args: ["`, `\x01`, "\"]\n"))
	add("a long text of wide escapes", repeatToSize(hostileHead+hostileOne+`  args: ["`, `\U0001F600`, "\"]\n"))
	add("a long text of <", repeatToSize(hostileHead+hostileOne+`  args: ["`, `<`, "\"]\n"))
	add("a long text of blanks", repeatToSize(hostileHead+hostileOne+"  args: [a", " ", "]\n"))
	add("a long text in lines", repeatToSize(hostileHead+hostileOne+"  args:\n  - |\n", "    x\n", ""))
	add("a long folded text", repeatToSize(hostileHead+hostileOne+"  args:\n  - >\n", "    x\n", ""))
	add("a long plain text in lines", repeatToSize(hostileHead+hostileOne+"  args:\n  - a\n", "    x\n", ""))
	add("empty lines", repeatToSize(hostileHead+hostileOne, "\n", ""))
	add("a long key", repeatToSize(hostileHead+hostileOne+"  ? ", "k", "\n  : 1\n"))
	add("long keys", repeatToSize(hostileHead+hostileOne, "  "+strings.Repeat("k", 900)+"%d: 1\n", ""))
	add("a long name", repeatToSize(hostileHead+"- matchImages: [a.example]\n"+hostileRest+"  name: ", "n", "\n"))
	add("a long number", repeatToSize(foo, "9", "\n"))
	add("a long number with underscores", repeatToSize(foo, "9_", "9\n"))
	add("a long duration", repeatToSize(hostileHead+"- name: a\n  matchImages: [a.example]\n  apiVersion: x\n  defaultCacheDuration: ", "1h", "\n"))
	add("comments", repeatToSize("", "# comment\n", hostileHead+hostileOne))
	add("comments alone", repeatToSize("", "#\n", ""))
	add("a comment to each field", repeatToSize(hostileHead, "# p\n- name: p%d # n\n  # m\n  matchImages: [r%d.example] # o\n"+hostileRest, ""))

	// Documents, characters, tags.
	add("documents", repeatToSize(hostileHead+hostileOne, "---\na: 1\n", ""))
	add("empty documents", repeatToSize(hostileHead+hostileOne, "---\n", ""))
	add("a long second document", repeatToSize(hostileHead+hostileOne+"---\n", "- a\n", ""))
	add("a broken second document", repeatToSize(hostileHead+hostileOne+"---\n{ [ :\n", "- a\n", ""))
	add("a lower garbage", func(size int) string {
		return repeatToSize(strings.ReplaceAll(" "+hostileHead+hostileOne, "\n", "\n "), "- name: p%d\n ", "\n}\n")(size)
	})
	add("directives", repeatToSize("%YAML 1.1\n", "%TAG !a%d! tag:a.example,2000:\n", "---\n"+hostileHead+hostileOne))
	add("carriage returns", func(size int) string {
		return strings.ReplaceAll(repeatToSize(hostileHead+"- name: a\n"+hostileRest+"  matchImages:\n", "  - r%d.example\n", "")(size), "\n", "\r")
	})
	add("line separators", func(size int) string {
		return strings.ReplaceAll(repeatToSize(hostileHead+"- name: a\n"+hostileRest+"  matchImages:\n", "  - r%d.example\n", "")(size/2), "\n", "\u2028")
	})
	add("UTF-16", func(size int) string {
		var b strings.Builder
		b.WriteString("\xff\xfe")
		for _, c := range []byte(repeatToSize(hostileHead+"- name: a\n"+hostileRest+"  matchImages:\n", "  - r%d.example\n", "")(size / 2)) {
			b.Write([]byte{c, 0})
		}
		return b.String()
	})
	add("NUL", repeatToSize("", "\x00", ""))
	add("NUL behind a configuration", repeatToSize(hostileHead+hostileOne, "\x00", ""))
	add("random bytes", repeatToSize("", "\x9c\xfe\x03\x81", ""))
	add("tabs", repeatToSize(hostileHead+hostileOne, "\t", ""))
	add("tags", repeatToSize(hostileHead+hostileOne+"  args:\n", "  - !!str a\n", ""))
	add("unknown tags", repeatToSize(hostileHead+hostileOne+"  args:\n", "  - !t%d a\n", ""))
	add("a long tag", repeatToSize(hostileHead+hostileOne+"  args:\n  - !<", "t", "> a\n"))
	add("binary", repeatToSize(hostileHead+hostileOne+"  args:\n", "  - !!binary aGk=\n", ""))

	// Anchors and aliases.
	add("anchors without aliases", repeatToSize(hostileHead+hostileOne+"  args:\n", "  - &a%d b\n", ""))
	add("one anchor many times", repeatToSize(hostileHead+hostileOne+"  args:\n", "  - &a b\n", ""))
	add("an unquoted glob in each", repeatToSize(hostileHead+"- name: a\n"+hostileRest+"  matchImages:\n", "  - *.r%d.example\n", ""))
	add("an alias many times", repeatToSize(hostileHead+hostileOne+"  args:\n  - &a b\n", "  - *a\n", ""))
	add("aliases to an anchor each", repeatToSize(hostileHead+hostileOne+"  args:\n", "  - &a%d b\n  - *a%d\n", ""))
	add("a tree of aliases", aliasTree("x", 9, 9, false))
	add("a tall tree of aliases", aliasTree("x", 2, 60, false))
	add("a tree of maps", aliasTree("x", 9, 9, true))
	add("a wide tree", aliasTree("x", 600, 2, false))
	add("long text, many aliases", aliasesToLongText(longText("x"), hostileHead+hostileOne, "  - *a\n", ""))
	add("long number, many aliases", aliasesToLongText(longText("9_"), hostileHead+hostileOne, "  - *a\n", "x\n"))
	add("long binary, many aliases", aliasesToLongText(func(n int) string { return "!!binary " + longText("aGlo")(n) }, hostileHead+hostileOne, "  - *a\n", ""))
	add("long text, aliases, a broken second document", aliasesToLongText(longText("x"), hostileHead+hostileOne, "  - *a\n", "---\n{ [ :\n"))
	add("long text, aliases, a lower bracket", func(size int) string {
		return strings.ReplaceAll("\n"+aliasesToLongText(longText("x"), hostileHead+hostileOne, "  - *a\n", "")(size*3/4), "\n", "\n ") + "\n}%\n"
	})
	add("merged", repeatToSize(hostileHead+"- &m\n  "+hostileOne[2:], "- {<<: *m, name: p%d}\n", ""))
	add("merged many times into one", repeatToSize(hostileHead+"- &m\n  "+hostileOne[2:]+"- <<: [", "*m,", "*m]\n"))
	add("merged in a chain", repeatToSize(hostileHead+"- &m0\n  "+hostileOne[2:]+"- {}\n", "- &m {<<: *m0, name: p%d}\n", ""))
	add("an alias to itself", repeatToSize(hostileHead+hostileOne+"  foo: &a\n", "  - [*a]\n", ""))
	return all
}
