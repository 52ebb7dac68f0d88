// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package corpus

import (
	"fmt"
	"strings"
)

// File is one entry of a configuration directory.
type File struct {
	Name    string `json:"name"`
	Content Text   `json:"content,omitempty"`
	Dir     bool   `json:"dir,omitempty"`     // the entry is a directory
	Symlink string `json:"symlink,omitempty"` // the entry is a symbolic link with this target
}

// Config is one configuration: a file, or a directory with files.
type Config struct {
	Name  string `json:"name"`
	IsDir bool   `json:"isDir,omitempty"` // the given path is the directory
	Files []File `json:"files"`
}

// The group and versions of configuration files and of the exec protocol.
const (
	configGroup = "kubelet.config.k8s.io/"
	execGroup   = "credentialprovider.kubelet.k8s.io/"
)

const head = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n"

const one = `providers:
- name: one
  matchImages: ["registry.io"]
  defaultCacheDuration: 1h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
`

const base = head + one

const tokens = `  tokenAttributes:
    serviceAccountTokenAudience: registry.io
    cacheType: Token
    requireServiceAccount: true
`

const baseJSON = `{"apiVersion":"kubelet.config.k8s.io/v1","kind":"CredentialProviderConfig","providers":[` + oneJSON + `]}`

const oneJSON = `{"name":"one","matchImages":["registry.io"],"defaultCacheDuration":"1h","apiVersion":"credentialprovider.kubelet.k8s.io/v1"}`

// swap replaces the first old in s. It panics if s does not contain old.
func swap(s, old, new string) string {
	if !strings.Contains(s, old) {
		panic(fmt.Sprintf("corpus: %q is not in %q", old, s))
	}
	return strings.Replace(s, old, new, 1)
}

func named(name string) string { return swap(one, "name: one", "name: "+name) }

func provider(name string) string { return strings.TrimPrefix(named(name), "providers:\n") }

// single returns single-file configurations.
func single() map[string]string {
	m := map[string]string{
		"base":                                base,
		"base JSON":                           baseJSON,
		"v1beta1":                             swap(base, "io/v1\n", "io/v1beta1\n"),
		"v1alpha1":                            swap(base, "io/v1\n", "io/v1alpha1\n"),
		"empty":                               "",
		"blank":                               "  \n",
		"comment":                             "# nothing\n",
		"null":                                "null",
		"empty object":                        "{}",
		"list":                                "- a\n",
		"scalar":                              "a\n",
		"number":                              "1",
		"binary":                              "\x00\x01\x02\xff\xfe",
		"invalid UTF-8":                       swap(base, "registry.io", "\xff"),
		"invalid UTF-8 in JSON":               swap(baseJSON, "registry.io", "\xff"),
		"no apiVersion":                       swap(base, "apiVersion: kubelet.config.k8s.io/v1\n", ""),
		"no kind":                             swap(base, "kind: CredentialProviderConfig\n", ""),
		"only apiVersion and kind":            head,
		"providers null":                      head + "providers:\n",
		"providers empty":                     head + "providers: []\n",
		"providers object":                    head + "providers: {}\n",
		"providers scalar":                    head + "providers: x\n",
		"providers of null":                   head + "providers: [null]\n",
		"providers of scalar":                 head + "providers: [x]\n",
		"providers of list":                   head + "providers: [[]]\n",
		"provider empty":                      head + "providers: [{}]\n",
		"BOM":                                 "\ufeff" + base,
		"BOM JSON":                            "\ufeff" + baseJSON,
		"BOM twice":                           "\ufeff\ufeff" + base,
		"UTF-16":                              "\xff\xfea\x00:\x00 \x00b\x00",
		"CRLF":                                strings.ReplaceAll(base, "\n", "\r\n"),
		"CR":                                  strings.ReplaceAll(base, "\n", "\r"),
		"CRLF JSON":                           strings.ReplaceAll(baseJSON, ",", ",\r\n"),
		"no last newline":                     strings.TrimSuffix(base, "\n"),
		"tab indent":                          swap(base, "  matchImages", "\tmatchImages"),
		"tab in JSON":                         "\t" + baseJSON,
		"tab before comment":                  base + "\t# c\n",
		"document marker":                     "---\n" + base,
		"document end":                        base + "...\n",
		"directive":                           "%YAML 1.1\n---\n" + base,
		"directive 1.2":                       "%YAML 1.2\n---\n" + base,
		"unknown directive":                   "%FOO bar\n---\n" + base,
		"second document":                     base + "---\n" + swap(base, "name: one", "name: two"),
		"second document broken":              base + "---\n{ [\n",
		"second document empty":               base + "---\n",
		"first document empty":                "---\n---\n" + base,
		"first document a comment":            "# c\n---\n" + base,
		"second document JSON":                baseJSON + "\n" + baseJSON,
		"JSON then comma":                     baseJSON + ",",
		"JSON then YAML document":             baseJSON + "\n---\n" + base,
		"JSON then brace":                     baseJSON + "}",
		"JSON then blanks":                    baseJSON + " \n\n",
		"JSON then NUL":                       baseJSON + "\x00",
		"blanks then JSON":                    " \n " + baseJSON,
		"JSON with comment":                   "// c\n" + baseJSON,
		"JSON with hash comment":              "# c\n" + baseJSON,
		"JSON with inner hash comment":        swap(baseJSON, "{", "{ # c\n"),
		"JSON trailing comma":                 swap(baseJSON, `v1"}]`, `v1",}]`),
		"JSON unquoted keys":                  "{apiVersion: kubelet.config.k8s.io/v1, kind: CredentialProviderConfig, providers: []}",
		"JSON single quotes":                  strings.ReplaceAll(baseJSON, `"`, "'"),
		"JSON array":                          "[" + baseJSON + "]",
		"JSON half":                           baseJSON[:60],
		"JSON string":                         `"x"`,
		"flow after marker":                   "--- " + baseJSON,
		"flow YAML behind comment":            "# c\n{apiVersion: kubelet.config.k8s.io/v1, kind: CredentialProviderConfig, providers: [{name: a, matchImages: [b], defaultCacheDuration: 1h, apiVersion: credentialprovider.kubelet.k8s.io/v1}]}",
		"unknown top field":                   base + "extra: 1\n",
		"unknown top field null":              base + "extra:\n",
		"metadata":                            base + "metadata: {name: x}\n",
		"status":                              base + "status: {}\n",
		"unknown provider field":              base + "  extra: 1\n",
		"unknown env field":                   base + "  env: [{name: A, value: b, valueFrom: {}}]\n",
		"unknown token field":                 base + tokens + "    extra: 1\n",
		"wrong case top":                      swap(base, "providers:", "Providers:"),
		"wrong case kind":                     swap(base, "kind:", "Kind:"),
		"wrong case apiVersion":               swap(base, "apiVersion: kubelet", "apiversion: kubelet"),
		"both cases of kind":                  "Kind: CredentialProviderConfig\n" + base,
		"wrong case provider":                 swap(base, "matchImages", "matchimages"),
		"wrong case env":                      base + "  env: [{Name: A, value: b}]\n",
		"wrong case token field":              base + swap(tokens, "cacheType", "cachetype"),
		"underscore":                          swap(base, "matchImages", "match_images"),
		"duplicate top":                       base + "kind: CredentialProviderConfig\n",
		"duplicate providers":                 base + one,
		"duplicate provider field":            base + "  name: two\n",
		"duplicate provider field same value": base + "  name: one\n",
		"duplicate in JSON":                   swap(baseJSON, `"name":"one"`, `"name":"one","name":"one"`),
		"duplicate top in JSON":               swap(baseJSON, `"kind":`, `"kind":"CredentialProviderConfig","kind":`),
		"duplicate env key":                   base + "  env: [{name: A, value: b, value: c}]\n",
		"duplicate token field":               base + tokens + "    cacheType: Token\n",
		"unknown in JSON":                     swap(baseJSON, `"name":"one"`, `"name":"one","x":1`),
		"wrong case in JSON":                  swap(baseJSON, `"matchImages"`, `"MatchImages"`),
		"wrong case kind in JSON":             swap(baseJSON, `"kind"`, `"KIND"`),
		"wrong case beside right in JSON":     swap(baseJSON, `"name":"one"`, `"name":"one","Name":"two"`),
		"escaped key in JSON":                 swap(baseJSON, `"name"`, `"n\u0061me"`),
		"duplicate by escape in JSON":         swap(baseJSON, `"name":"one"`, `"name":"one","n\u0061me":"two"`),
		"lone surrogate in JSON":              swap(baseJSON, `"one"`, `"\ud800"`),
		"NUL in JSON":                         swap(baseJSON, `"one"`, `"\u0000"`),
		"control character in JSON":           swap(baseJSON, `"one"`, "\"o\x01ne\""),
		"bad escape in JSON":                  swap(baseJSON, `"one"`, `"\x"`),
		"name yes":                            head + named("yes"),
		"name on":                             head + named("on"),
		"name y":                              head + named("y"),
		"name n":                              head + named("n"),
		"name off":                            head + named("off"),
		"name true":                           head + named("true"),
		"name True":                           head + named("True"),
		"name quoted yes":                     head + named(`"yes"`),
		"name str yes":                        head + named("!!str yes"),
		"name null":                           head + named("null"),
		"name tilde":                          head + named("~"),
		"name Null":                           head + named("Null"),
		"name number":                         head + named("1"),
		"name octal":                          head + named("017"),
		"name 0o17":                           head + named("0o17"),
		"name hex":                            head + named("0x1F"),
		"name binary":                         head + named("0b11"),
		"name underscore":                     head + named("1_000"),
		"name float":                          head + named("1.5"),
		"name exponent":                       head + named("1e3"),
		"name inf":                            head + named(".inf"),
		"name nan":                            head + named(".nan"),
		"name sexagesimal":                    head + named("1:30"),
		"name date":                           head + named("2001-01-01"),
		"name timestamp":                      head + named("2001-12-14t21:59:43.10-05:00"),
		"name binary tag":                     head + named("!!binary b25l"),
		"name int tag":                        head + named("!!int \"1\""),
		"name custom tag":                     head + named("!foo one"),
		"name float tag":                      head + named("!!float 1"),
		"name bad binary tag":                 head + named("!!binary '*'"),
		"name merge":                          head + named("<<"),
		"name equals":                         head + named("="),
		"name list":                           head + named("[a]"),
		"name object":                         head + named("{a: b}"),
		"name huge int":                       head + named("99999999999999999999"),
		"name plus":                           head + named("+1"),
		"name dot":                            head + named(`"."`),
		"name dots":                           head + named(".."),
		"name triple dot":                     head + named(`"..."`),
		"name slash":                          head + named("a/b"),
		"name backslash":                      head + named(`a\b`),
		"name space":                          head + named("a b"),
		"name inner tab":                      head + named(`"a\tb"`),
		"name newline":                        head + named(`"a\nb"`),
		"name empty":                          head + named(`""`),
		"name NUL":                            head + named(`"a\0b"`),
		"name nbsp":                           head + named(`"a\_b"`),
		"name absent":                         swap(base, "- name: one\n ", "-"),
		"name unicode":                        head + named("é"),
		"name upper":                          head + named("One"),
		"name exe":                            head + named("one.exe"),
		"name folded":                         head + swap(one, "name: one", "name: >\n    one"),
		"name literal strip":                  head + swap(one, "name: one", "name: |-\n    one"),
		"name alias missing":                  head + named("*x"),
		"name anchor":                         head + named("&x one"),
		"name percent":                        head + named("%x"),
		"name at":                             head + named("@x"),
		"name backtick":                       head + named("`x`"),
		"two providers":                       base + provider("two"),
		"duplicate names":                     base + provider("one"),
		"duplicate empty names":               head + named(`""`) + provider(`""`),
		"names differ in case":                base + provider("One"),
		"anchor and alias":                    head + "providers:\n- &p\n  name: one\n  matchImages: [a]\n  defaultCacheDuration: 1h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n- *p\n",
		"merge key":                           head + "providers:\n- &p\n  name: one\n  matchImages: [a]\n  defaultCacheDuration: 1h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n- <<: *p\n  name: two\n",
		"merge list":                          head + "providers:\n- &p\n  name: one\n  matchImages: [a]\n  defaultCacheDuration: 1h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n- <<: [*p]\n  name: two\n",
		"merge scalar":                        head + "providers:\n- <<: x\n  name: two\n",
		"alias in list":                       head + "providers:\n- name: &n one\n  matchImages: [*n]\n  defaultCacheDuration: 1h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n",
		"alias cycle":                         "a: &a [*a]\n",
		"integer key":                         base + "1: x\n",
		"boolean key":                         base + "yes: x\n",
		"null key":                            base + "~: x\n",
		"complex key":                         base + "? [a]\n: b\n",
		"float key":                           base + "1.5: x\n",
		"question key":                        base + "? extra\n: b\n",
		"quoted key":                          swap(base, "kind:", `"kind":`),
		"tagged key":                          swap(base, "kind:", "!!str kind:"),
		"boolean key in env":                  base + "  env: [{name: A, value: b, on: c}]\n",
		"key with blank":                      swap(base, "kind:", "kind :"),
		"wrong indent":                        swap(base, "  matchImages", " matchImages"),
		"list without indent":                 base,
		"block list":                          swap(base, `["registry.io"]`, "\n  - registry.io"),
		"unclosed list":                       swap(base, `["registry.io"]`, `["registry.io"`),
		"unclosed quote":                      swap(base, `"registry.io"`, `"registry.io`),
		"star unquoted":                       swap(base, `["registry.io"]`, "[*.io]"),
		"star unquoted block":                 swap(base, `["registry.io"]`, "\n  - *.registry.io"),
		"deep nesting":                        strings.Repeat("[", 20000),
		"deep nesting JSON":                   `{"apiVersion":` + strings.Repeat("[", 20000),
		"deep nesting map":                    strings.Repeat("{a: ", 11000),
		"bomb":                                "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: &h [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n",
		"args":                                base + "  args: [get-credentials, --v=3]\n",
		"args null":                           base + "  args:\n",
		"args number":                         base + "  args: [1]\n",
		"args boolean":                        base + "  args: [yes]\n",
		"args of null":                        base + "  args: [null]\n",
		"args scalar":                         base + "  args: x\n",
		"args empty":                          base + "  args: []\n",
		"env":                                 base + "  env: [{name: A, value: b}, {name: A, value: c}]\n",
		"env null":                            base + "  env:\n",
		"env map":                             base + "  env: {A: b}\n",
		"env number":                          base + "  env: [{name: A, value: 1}]\n",
		"env without value":                   base + "  env: [{name: A}]\n",
		"env without name":                    base + "  env: [{value: b}]\n",
		"env null value":                      base + "  env: [{name: A, value: ~}]\n",
		"env name with equals":                base + "  env: [{name: A=B, value: c}]\n",
		"env null entry":                      base + "  env: [null]\n",
		"tokens":                              base + tokens,
		"tokens in v1beta1":                   swap(base, "io/v1\n", "io/v1beta1\n") + tokens,
		"tokens in v1alpha1":                  swap(base, "io/v1\n", "io/v1alpha1\n") + tokens,
		"tokens null":                         base + "  tokenAttributes:\n",
		"tokens null in v1beta1":              swap(base, "io/v1\n", "io/v1beta1\n") + "  tokenAttributes:\n",
		"tokens empty":                        base + "  tokenAttributes: {}\n",
		"tokens scalar":                       base + "  tokenAttributes: x\n",
		"tokens list":                         base + "  tokenAttributes: []\n",
	}
	for _, v := range []string{"v1", "v2", "v1beta1", "v1alpha1", "v1beta2", "V1", "", "__internal", "v1/", "/v1", "v1 "} {
		m["config version "+v] = swap(base, configGroup+"v1\n", fmt.Sprintf("%q\n", configGroup+v))
		m["provider version "+v] = swap(base, execGroup+"v1\n", fmt.Sprintf("%q\n", execGroup+v))
	}
	for _, v := range []string{"v1", "", "/", "kubelet.config.k8s.io", "Kubelet.config.k8s.io/v1", "credentialprovider.kubelet.k8s.io/v1", "kubelet.config.k8s.io/v1/x", "apps/v1", "kubelet.k8s.io/v1alpha1"} {
		m["config group "+v] = swap(base, configGroup+"v1\n", fmt.Sprintf("%q\n", v))
		m["provider group "+v] = swap(base, execGroup+"v1\n", fmt.Sprintf("%q\n", v))
	}
	for _, v := range []string{"null", "1", "true", "[v1]", "{a: b}"} {
		m["config version type "+v] = swap(base, configGroup+"v1\n", v+"\n")
		m["provider version type "+v] = swap(base, execGroup+"v1\n", v+"\n")
		m["kind type "+v] = swap(base, "CredentialProviderConfig", v)
	}
	for _, v := range []string{"KubeletConfiguration", "credentialproviderconfig", "CredentialProviderRequest", "List", "Status", "CredentialProviderConfigList", "SerializedNodeConfigSource", `""`} {
		m["kind "+v] = swap(base, "CredentialProviderConfig", v)
	}
	m["provider request of the exec group"] = "apiVersion: credentialprovider.kubelet.k8s.io/v1\nkind: CredentialProviderRequest\nimage: x\n"
	m["kubelet configuration"] = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	m["registry credential config"] = "apiVersion: v1alpha1\nkind: RegistryCredentialConfig\nproviders: []\n"
	for _, d := range []string{"null", "~", `""`, "0", `"0"`, "0s", "-0s", "1h", "1h30m", "1.5h", "-1h", "-1ns", "1d", "+1h", `" 1h"`, `"1h "`, "1H", "1e3s", "1us", "1µs", "1μs", "1", "3600", "1.5", "true", "yes", "{}", "[]", "1h1h", "h", ".5s", "2562047h47m16.854775807s", "2562047h47m16.854775808s", "9999999999h", "-2562047h47m16.854775808s", "1:30", "01h", "1_0h", `"\u0031h"`, "!!str 1h", "2001-01-01", "1h # c"} {
		m["duration "+d] = swap(base, ": 1h", ": "+d)
	}
	m["duration absent"] = swap(base, "  defaultCacheDuration: 1h\n", "")
	for _, p := range []string{"null", "[]", "{}", "x", "[null]", "[1]", "[yes]", "[1.5]", `[""]`, `["a", "a"]`, `["*"]`, `["https://registry.io"]`, `["%zz"]`, `["a%zz"]`, `["a/%zz"]`, `["a b"]`, `["a:b"]`, `["a:80:80"]`, `["::1"]`, `["[::1"]`, `["[::1]"]`, `["a\u0001"]`, `["a\u007f"]`, `["x[a"]`, `["a\\b"]`, `["a#%zz"]`, `["a?%zz"]`, `["u%zz@a"]`, `["u p@a"]`, `["é"]`, `["a:-1"]`, `["ok", "a:b", "c d"]`, `["a<b"]`, `["[fe80::1%25en0]"]`, `["[fe80::1%en0]"]`, `["a\nb"]`} {
		m["images "+p] = swap(base, `["registry.io"]`, p)
	}
	m["images absent"] = swap(base, `  matchImages: ["registry.io"]`+"\n", "")
	for _, a := range []string{"null", `""`, "1", "registry.io", `" "`, "[a]"} {
		m["audience "+a] = base + swap(tokens, "Audience: registry.io", "Audience: "+a)
	}
	m["audience absent"] = base + swap(tokens, "    serviceAccountTokenAudience: registry.io\n", "")
	for _, c := range []string{"null", `""`, "Token", "ServiceAccount", "token", "serviceaccount", "None", "1", `"Token "`} {
		m["cacheType "+c] = base + swap(tokens, "cacheType: Token", "cacheType: "+c)
	}
	m["cacheType absent"] = base + swap(tokens, "    cacheType: Token\n", "")
	for _, r := range []string{"null", "false", "yes", "no", "on", `"true"`, "1", "0", "True", "FALSE", "y", "n"} {
		m["require "+r] = base + swap(tokens, "Account: true", "Account: "+r)
	}
	m["require absent"] = base + swap(tokens, "    requireServiceAccount: true\n", "")
	const req, opt = "    requiredServiceAccountAnnotationKeys: ", "    optionalServiceAccountAnnotationKeys: "
	for _, k := range []string{"null", "[]", "[a]", "[a, b]", "[a, a]", "[a, A]", "[A]", "[example.com/a]", "[Example.com/A]", "[example.com/a/b]", "[/a]", "[example.com/]", `[""]`, `["a b"]`, "[-a]", "[a-]", "[a.b]", "[a_b]", "[1]", "[null]", "[" + strings.Repeat("a", 63) + "]", "[" + strings.Repeat("a", 64) + "]", "[" + strings.Repeat("a", 253) + "/a]", "[" + strings.Repeat("a", 254) + "/a]", "[" + strings.Repeat("abc.", 62) + "abc/a]", "[exa_mple.com/a]", "[-example.com/a]", "[é]", "[\u0130]", "[\u212a]", "[example..com/a]", "x"} {
		m["required keys "+k] = base + tokens + req + k + "\n"
		m["optional keys "+k] = base + tokens + opt + k + "\n"
	}
	m["key in both lists"] = base + tokens + req + "[a]\n" + opt + "[b, a]\n"
	m["key in both lists, other case"] = base + tokens + req + "[a]\n" + opt + "[A]\n"
	m["required keys without required account"] = base + swap(tokens, "true", "false") + req + "[a]\n"
	m["required keys empty without required account"] = base + swap(tokens, "true", "false") + req + "[]\n"
	m["optional keys without required account"] = base + swap(tokens, "true", "false") + opt + "[a]\n"
	m["tokens with provider v1beta1"] = swap(base, execGroup+"v1\n", execGroup+"v1beta1\n") + tokens
	internal := "apiVersion: kubelet.config.k8s.io/__internal\nkind: CredentialProviderConfig\n"
	m["internal version"] = internal + "Providers:\n- Name: one\n  MatchImages: [registry.io]\n  DefaultCacheDuration: 1h\n  APIVersion: credentialprovider.kubelet.k8s.io/v1\n"
	m["internal version without providers"] = internal
	m["internal version, all fields"] = m["internal version"] + "  Args: [a]\n  Env: [{Name: A, Value: b}]\n  TokenAttributes: {ServiceAccountTokenAudience: a, CacheType: Token, RequireServiceAccount: true, RequiredServiceAccountAnnotationKeys: [a]}\n"
	m["everything wrong"] = head + "providers:\n- name: a/b c\n  matchImages: ['%zz']\n  defaultCacheDuration: -1s\n  apiVersion: v9\n  tokenAttributes: {cacheType: x, requiredServiceAccountAnnotationKeys: [' ']}\n- name: ..\n"
	return m
}
