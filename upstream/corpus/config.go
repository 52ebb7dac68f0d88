// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package corpus

import (
	"fmt"
	"strings"
)

// File is a file, directory or symlink in a configuration directory.
type File struct {
	Name    string    `json:"name"`
	Content RawString `json:"content,omitempty"`
	Dir     bool      `json:"dir,omitempty"`     // the entry is a directory
	Symlink string    `json:"symlink,omitempty"` // the entry is a symbolic link with this target
}

// Config is a configuration, which consists of a file or of a directory with files.
type Config struct {
	Name  string `json:"name"`
	IsDir bool   `json:"isDir,omitempty"` // the given path is the directory
	Files []File `json:"files"`
}

// configGroup and execGroup are the API groups of configuration files and of the exec protocol.
const (
	configGroup = "kubelet.config.k8s.io/"
	execGroup   = "credentialprovider.kubelet.k8s.io/"
)

const configHeader = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n"

const oneProviderConfig = `providers:
- name: one
  matchImages: ["registry.io"]
  defaultCacheDuration: 1h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
`

const baseConfig = configHeader + oneProviderConfig

const tokenConfig = `  tokenAttributes:
    serviceAccountTokenAudience: registry.io
    cacheType: Token
    requireServiceAccount: true
`

const baseConfigJSON = `{"apiVersion":"kubelet.config.k8s.io/v1","kind":"CredentialProviderConfig","providers":[` + oneProviderJSON + `]}`

const oneProviderJSON = `{"name":"one","matchImages":["registry.io"],"defaultCacheDuration":"1h","apiVersion":"credentialprovider.kubelet.k8s.io/v1"}`

// mustReplace replaces the first old in s. It panics if s does not contain old.
func mustReplace(s, old, new string) string {
	if !strings.Contains(s, old) {
		panic(fmt.Sprintf("corpus: %q is not in %q", old, s))
	}
	return strings.Replace(s, old, new, 1)
}

func configWithName(name string) string {
	return mustReplace(oneProviderConfig, "name: one", "name: "+name)
}

func providerYAML(name string) string {
	return strings.TrimPrefix(configWithName(name), "providers:\n")
}

// singleFileConfigs returns single-file configurations.
func singleFileConfigs() map[string]string {
	m := map[string]string{
		"base":                                baseConfig,
		"base JSON":                           baseConfigJSON,
		"v1beta1":                             mustReplace(baseConfig, "io/v1\n", "io/v1beta1\n"),
		"v1alpha1":                            mustReplace(baseConfig, "io/v1\n", "io/v1alpha1\n"),
		"empty":                               "",
		"blank":                               "  \n",
		"comment":                             "# nothing\n",
		"null":                                "null",
		"empty object":                        "{}",
		"list":                                "- a\n",
		"scalar":                              "a\n",
		"number":                              "1",
		"binary":                              "\x00\x01\x02\xff\xfe",
		"invalid UTF-8":                       mustReplace(baseConfig, "registry.io", "\xff"),
		"invalid UTF-8 in JSON":               mustReplace(baseConfigJSON, "registry.io", "\xff"),
		"no apiVersion":                       mustReplace(baseConfig, "apiVersion: kubelet.config.k8s.io/v1\n", ""),
		"no kind":                             mustReplace(baseConfig, "kind: CredentialProviderConfig\n", ""),
		"only apiVersion and kind":            configHeader,
		"providers null":                      configHeader + "providers:\n",
		"providers empty":                     configHeader + "providers: []\n",
		"providers object":                    configHeader + "providers: {}\n",
		"providers scalar":                    configHeader + "providers: x\n",
		"providers of null":                   configHeader + "providers: [null]\n",
		"providers of scalar":                 configHeader + "providers: [x]\n",
		"providers of list":                   configHeader + "providers: [[]]\n",
		"provider empty":                      configHeader + "providers: [{}]\n",
		"BOM":                                 "\ufeff" + baseConfig,
		"BOM JSON":                            "\ufeff" + baseConfigJSON,
		"BOM twice":                           "\ufeff\ufeff" + baseConfig,
		"UTF-16":                              "\xff\xfea\x00:\x00 \x00b\x00",
		"CRLF":                                strings.ReplaceAll(baseConfig, "\n", "\r\n"),
		"CR":                                  strings.ReplaceAll(baseConfig, "\n", "\r"),
		"CRLF JSON":                           strings.ReplaceAll(baseConfigJSON, ",", ",\r\n"),
		"no last newline":                     strings.TrimSuffix(baseConfig, "\n"),
		"tab indent":                          mustReplace(baseConfig, "  matchImages", "\tmatchImages"),
		"tab in JSON":                         "\t" + baseConfigJSON,
		"tab before comment":                  baseConfig + "\t# c\n",
		"document marker":                     "---\n" + baseConfig,
		"document end":                        baseConfig + "...\n",
		"directive":                           "%YAML 1.1\n---\n" + baseConfig,
		"directive 1.2":                       "%YAML 1.2\n---\n" + baseConfig,
		"unknown directive":                   "%FOO bar\n---\n" + baseConfig,
		"second document":                     baseConfig + "---\n" + mustReplace(baseConfig, "name: one", "name: two"),
		"second document broken":              baseConfig + "---\n{ [\n",
		"second document empty":               baseConfig + "---\n",
		"first document empty":                "---\n---\n" + baseConfig,
		"first document a comment":            "# c\n---\n" + baseConfig,
		"second document JSON":                baseConfigJSON + "\n" + baseConfigJSON,
		"JSON then comma":                     baseConfigJSON + ",",
		"JSON then YAML document":             baseConfigJSON + "\n---\n" + baseConfig,
		"JSON then brace":                     baseConfigJSON + "}",
		"JSON then blanks":                    baseConfigJSON + " \n\n",
		"JSON then NUL":                       baseConfigJSON + "\x00",
		"blanks then JSON":                    " \n " + baseConfigJSON,
		"JSON with comment":                   "// c\n" + baseConfigJSON,
		"JSON with hash comment":              "# c\n" + baseConfigJSON,
		"JSON with inner hash comment":        mustReplace(baseConfigJSON, "{", "{ # c\n"),
		"JSON trailing comma":                 mustReplace(baseConfigJSON, `v1"}]`, `v1",}]`),
		"JSON unquoted keys":                  "{apiVersion: kubelet.config.k8s.io/v1, kind: CredentialProviderConfig, providers: []}",
		"JSON single quotes":                  strings.ReplaceAll(baseConfigJSON, `"`, "'"),
		"JSON array":                          "[" + baseConfigJSON + "]",
		"JSON half":                           baseConfigJSON[:60],
		"JSON string":                         `"x"`,
		"flow after marker":                   "--- " + baseConfigJSON,
		"flow YAML behind comment":            "# c\n{apiVersion: kubelet.config.k8s.io/v1, kind: CredentialProviderConfig, providers: [{name: a, matchImages: [b], defaultCacheDuration: 1h, apiVersion: credentialprovider.kubelet.k8s.io/v1}]}",
		"unknown top field":                   baseConfig + "extra: 1\n",
		"unknown top field null":              baseConfig + "extra:\n",
		"metadata":                            baseConfig + "metadata: {name: x}\n",
		"status":                              baseConfig + "status: {}\n",
		"unknown provider field":              baseConfig + "  extra: 1\n",
		"unknown env field":                   baseConfig + "  env: [{name: A, value: b, valueFrom: {}}]\n",
		"unknown token field":                 baseConfig + tokenConfig + "    extra: 1\n",
		"wrong case top":                      mustReplace(baseConfig, "providers:", "Providers:"),
		"wrong case kind":                     mustReplace(baseConfig, "kind:", "Kind:"),
		"wrong case apiVersion":               mustReplace(baseConfig, "apiVersion: kubelet", "apiversion: kubelet"),
		"both cases of kind":                  "Kind: CredentialProviderConfig\n" + baseConfig,
		"wrong case provider":                 mustReplace(baseConfig, "matchImages", "matchimages"),
		"wrong case env":                      baseConfig + "  env: [{Name: A, value: b}]\n",
		"wrong case token field":              baseConfig + mustReplace(tokenConfig, "cacheType", "cachetype"),
		"underscore":                          mustReplace(baseConfig, "matchImages", "match_images"),
		"duplicate top":                       baseConfig + "kind: CredentialProviderConfig\n",
		"duplicate providers":                 baseConfig + oneProviderConfig,
		"duplicate provider field":            baseConfig + "  name: two\n",
		"duplicate provider field same value": baseConfig + "  name: one\n",
		"duplicate in JSON":                   mustReplace(baseConfigJSON, `"name":"one"`, `"name":"one","name":"one"`),
		"duplicate top in JSON":               mustReplace(baseConfigJSON, `"kind":`, `"kind":"CredentialProviderConfig","kind":`),
		"duplicate env key":                   baseConfig + "  env: [{name: A, value: b, value: c}]\n",
		"duplicate token field":               baseConfig + tokenConfig + "    cacheType: Token\n",
		"unknown in JSON":                     mustReplace(baseConfigJSON, `"name":"one"`, `"name":"one","x":1`),
		"wrong case in JSON":                  mustReplace(baseConfigJSON, `"matchImages"`, `"MatchImages"`),
		"wrong case kind in JSON":             mustReplace(baseConfigJSON, `"kind"`, `"KIND"`),
		"wrong case beside right in JSON":     mustReplace(baseConfigJSON, `"name":"one"`, `"name":"one","Name":"two"`),
		"escaped key in JSON":                 mustReplace(baseConfigJSON, `"name"`, `"n\u0061me"`),
		"duplicate by escape in JSON":         mustReplace(baseConfigJSON, `"name":"one"`, `"name":"one","n\u0061me":"two"`),
		"lone surrogate in JSON":              mustReplace(baseConfigJSON, `"one"`, `"\ud800"`),
		"NUL in JSON":                         mustReplace(baseConfigJSON, `"one"`, `"\u0000"`),
		"control character in JSON":           mustReplace(baseConfigJSON, `"one"`, "\"o\x01ne\""),
		"bad escape in JSON":                  mustReplace(baseConfigJSON, `"one"`, `"\x"`),
		"name yes":                            configHeader + configWithName("yes"),
		"name on":                             configHeader + configWithName("on"),
		"name y":                              configHeader + configWithName("y"),
		"name n":                              configHeader + configWithName("n"),
		"name off":                            configHeader + configWithName("off"),
		"name true":                           configHeader + configWithName("true"),
		"name True":                           configHeader + configWithName("True"),
		"name quoted yes":                     configHeader + configWithName(`"yes"`),
		"name str yes":                        configHeader + configWithName("!!str yes"),
		"name null":                           configHeader + configWithName("null"),
		"name tilde":                          configHeader + configWithName("~"),
		"name Null":                           configHeader + configWithName("Null"),
		"name number":                         configHeader + configWithName("1"),
		"name octal":                          configHeader + configWithName("017"),
		"name 0o17":                           configHeader + configWithName("0o17"),
		"name hex":                            configHeader + configWithName("0x1F"),
		"name binary":                         configHeader + configWithName("0b11"),
		"name underscore":                     configHeader + configWithName("1_000"),
		"name float":                          configHeader + configWithName("1.5"),
		"name exponent":                       configHeader + configWithName("1e3"),
		"name inf":                            configHeader + configWithName(".inf"),
		"name nan":                            configHeader + configWithName(".nan"),
		"name sexagesimal":                    configHeader + configWithName("1:30"),
		"name date":                           configHeader + configWithName("2001-01-01"),
		"name timestamp":                      configHeader + configWithName("2001-12-14t21:59:43.10-05:00"),
		"name binary tag":                     configHeader + configWithName("!!binary b25l"),
		"name int tag":                        configHeader + configWithName("!!int \"1\""),
		"name custom tag":                     configHeader + configWithName("!foo one"),
		"name float tag":                      configHeader + configWithName("!!float 1"),
		"name bad binary tag":                 configHeader + configWithName("!!binary '*'"),
		"name merge":                          configHeader + configWithName("<<"),
		"name equals":                         configHeader + configWithName("="),
		"name list":                           configHeader + configWithName("[a]"),
		"name object":                         configHeader + configWithName("{a: b}"),
		"name huge int":                       configHeader + configWithName("99999999999999999999"),
		"name plus":                           configHeader + configWithName("+1"),
		"name dot":                            configHeader + configWithName(`"."`),
		"name dots":                           configHeader + configWithName(".."),
		"name triple dot":                     configHeader + configWithName(`"..."`),
		"name slash":                          configHeader + configWithName("a/b"),
		"name backslash":                      configHeader + configWithName(`a\b`),
		"name space":                          configHeader + configWithName("a b"),
		"name inner tab":                      configHeader + configWithName(`"a\tb"`),
		"name newline":                        configHeader + configWithName(`"a\nb"`),
		"name empty":                          configHeader + configWithName(`""`),
		"name NUL":                            configHeader + configWithName(`"a\0b"`),
		"name nbsp":                           configHeader + configWithName(`"a\_b"`),
		"name absent":                         mustReplace(baseConfig, "- name: one\n ", "-"),
		"name unicode":                        configHeader + configWithName("é"),
		"name upper":                          configHeader + configWithName("One"),
		"name exe":                            configHeader + configWithName("one.exe"),
		"name folded":                         configHeader + mustReplace(oneProviderConfig, "name: one", "name: >\n    one"),
		"name literal strip":                  configHeader + mustReplace(oneProviderConfig, "name: one", "name: |-\n    one"),
		"name alias missing":                  configHeader + configWithName("*x"),
		"name anchor":                         configHeader + configWithName("&x one"),
		"name percent":                        configHeader + configWithName("%x"),
		"name at":                             configHeader + configWithName("@x"),
		"name backtick":                       configHeader + configWithName("`x`"),
		"two providers":                       baseConfig + providerYAML("two"),
		"duplicate names":                     baseConfig + providerYAML("one"),
		"duplicate empty names":               configHeader + configWithName(`""`) + providerYAML(`""`),
		"names differ in case":                baseConfig + providerYAML("One"),
		"anchor and alias":                    configHeader + "providers:\n- &p\n  name: one\n  matchImages: [a]\n  defaultCacheDuration: 1h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n- *p\n",
		"merge key":                           configHeader + "providers:\n- &p\n  name: one\n  matchImages: [a]\n  defaultCacheDuration: 1h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n- <<: *p\n  name: two\n",
		"merge list":                          configHeader + "providers:\n- &p\n  name: one\n  matchImages: [a]\n  defaultCacheDuration: 1h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n- <<: [*p]\n  name: two\n",
		"merge scalar":                        configHeader + "providers:\n- <<: x\n  name: two\n",
		"alias in list":                       configHeader + "providers:\n- name: &n one\n  matchImages: [*n]\n  defaultCacheDuration: 1h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n",
		"alias cycle":                         "a: &a [*a]\n",
		"integer key":                         baseConfig + "1: x\n",
		"boolean key":                         baseConfig + "yes: x\n",
		"null key":                            baseConfig + "~: x\n",
		"complex key":                         baseConfig + "? [a]\n: b\n",
		"float key":                           baseConfig + "1.5: x\n",
		"question key":                        baseConfig + "? extra\n: b\n",
		"quoted key":                          mustReplace(baseConfig, "kind:", `"kind":`),
		"tagged key":                          mustReplace(baseConfig, "kind:", "!!str kind:"),
		"boolean key in env":                  baseConfig + "  env: [{name: A, value: b, on: c}]\n",
		"key with blank":                      mustReplace(baseConfig, "kind:", "kind :"),
		"wrong indent":                        mustReplace(baseConfig, "  matchImages", " matchImages"),
		"list without indent":                 baseConfig,
		"block list":                          mustReplace(baseConfig, `["registry.io"]`, "\n  - registry.io"),
		"unclosed list":                       mustReplace(baseConfig, `["registry.io"]`, `["registry.io"`),
		"unclosed quote":                      mustReplace(baseConfig, `"registry.io"`, `"registry.io`),
		"star unquoted":                       mustReplace(baseConfig, `["registry.io"]`, "[*.io]"),
		"star unquoted block":                 mustReplace(baseConfig, `["registry.io"]`, "\n  - *.registry.io"),
		"deep nesting":                        strings.Repeat("[", 20000),
		"deep nesting JSON":                   `{"apiVersion":` + strings.Repeat("[", 20000),
		"deep nesting map":                    strings.Repeat("{a: ", 11000),
		"bomb":                                "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: &h [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n",
		"args":                                baseConfig + "  args: [get-credentials, --v=3]\n",
		"args null":                           baseConfig + "  args:\n",
		"args number":                         baseConfig + "  args: [1]\n",
		"args boolean":                        baseConfig + "  args: [yes]\n",
		"args of null":                        baseConfig + "  args: [null]\n",
		"args scalar":                         baseConfig + "  args: x\n",
		"args empty":                          baseConfig + "  args: []\n",
		"env":                                 baseConfig + "  env: [{name: A, value: b}, {name: A, value: c}]\n",
		"env null":                            baseConfig + "  env:\n",
		"env map":                             baseConfig + "  env: {A: b}\n",
		"env number":                          baseConfig + "  env: [{name: A, value: 1}]\n",
		"env without value":                   baseConfig + "  env: [{name: A}]\n",
		"env without name":                    baseConfig + "  env: [{value: b}]\n",
		"env null value":                      baseConfig + "  env: [{name: A, value: ~}]\n",
		"env name with equals":                baseConfig + "  env: [{name: A=B, value: c}]\n",
		"env null entry":                      baseConfig + "  env: [null]\n",
		"tokens":                              baseConfig + tokenConfig,
		"tokens in v1beta1":                   mustReplace(baseConfig, "io/v1\n", "io/v1beta1\n") + tokenConfig,
		"tokens in v1alpha1":                  mustReplace(baseConfig, "io/v1\n", "io/v1alpha1\n") + tokenConfig,
		"tokens null":                         baseConfig + "  tokenAttributes:\n",
		"tokens null in v1beta1":              mustReplace(baseConfig, "io/v1\n", "io/v1beta1\n") + "  tokenAttributes:\n",
		"tokens empty":                        baseConfig + "  tokenAttributes: {}\n",
		"tokens scalar":                       baseConfig + "  tokenAttributes: x\n",
		"tokens list":                         baseConfig + "  tokenAttributes: []\n",
	}
	for _, v := range []string{"v1", "v2", "v1beta1", "v1alpha1", "v1beta2", "V1", "", "__internal", "v1/", "/v1", "v1 "} {
		m["config version "+v] = mustReplace(baseConfig, configGroup+"v1\n", fmt.Sprintf("%q\n", configGroup+v))
		m["provider version "+v] = mustReplace(baseConfig, execGroup+"v1\n", fmt.Sprintf("%q\n", execGroup+v))
	}
	for _, v := range []string{"v1", "", "/", "kubelet.config.k8s.io", "Kubelet.config.k8s.io/v1", "credentialprovider.kubelet.k8s.io/v1", "kubelet.config.k8s.io/v1/x", "apps/v1", "kubelet.k8s.io/v1alpha1"} {
		m["config group "+v] = mustReplace(baseConfig, configGroup+"v1\n", fmt.Sprintf("%q\n", v))
		m["provider group "+v] = mustReplace(baseConfig, execGroup+"v1\n", fmt.Sprintf("%q\n", v))
	}
	for _, v := range []string{"null", "1", "true", "[v1]", "{a: b}"} {
		m["config version type "+v] = mustReplace(baseConfig, configGroup+"v1\n", v+"\n")
		m["provider version type "+v] = mustReplace(baseConfig, execGroup+"v1\n", v+"\n")
		m["kind type "+v] = mustReplace(baseConfig, "CredentialProviderConfig", v)
	}
	for _, v := range []string{"KubeletConfiguration", "credentialproviderconfig", "CredentialProviderRequest", "List", "Status", "CredentialProviderConfigList", "SerializedNodeConfigSource", `""`} {
		m["kind "+v] = mustReplace(baseConfig, "CredentialProviderConfig", v)
	}
	m["provider request of the exec group"] = "apiVersion: credentialprovider.kubelet.k8s.io/v1\nkind: CredentialProviderRequest\nimage: x\n"
	m["kubelet configuration"] = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	m["registry credential config"] = "apiVersion: v1alpha1\nkind: RegistryCredentialConfig\nproviders: []\n"
	for _, d := range []string{"null", "~", `""`, "0", `"0"`, "0s", "-0s", "1h", "1h30m", "1.5h", "-1h", "-1ns", "1d", "+1h", `" 1h"`, `"1h "`, "1H", "1e3s", "1us", "1µs", "1μs", "1", "3600", "1.5", "true", "yes", "{}", "[]", "1h1h", "h", ".5s", "2562047h47m16.854775807s", "2562047h47m16.854775808s", "9999999999h", "-2562047h47m16.854775808s", "1:30", "01h", "1_0h", `"\u0031h"`, "!!str 1h", "2001-01-01", "1h # c"} {
		m["duration "+d] = mustReplace(baseConfig, ": 1h", ": "+d)
	}
	m["duration absent"] = mustReplace(baseConfig, "  defaultCacheDuration: 1h\n", "")
	for _, p := range []string{"null", "[]", "{}", "x", "[null]", "[1]", "[yes]", "[1.5]", `[""]`, `["a", "a"]`, `["*"]`, `["https://registry.io"]`, `["%zz"]`, `["a%zz"]`, `["a/%zz"]`, `["a b"]`, `["a:b"]`, `["a:80:80"]`, `["::1"]`, `["[::1"]`, `["[::1]"]`, `["a\u0001"]`, `["a\u007f"]`, `["x[a"]`, `["a\\b"]`, `["a#%zz"]`, `["a?%zz"]`, `["u%zz@a"]`, `["u p@a"]`, `["é"]`, `["a:-1"]`, `["ok", "a:b", "c d"]`, `["a<b"]`, `["[fe80::1%25en0]"]`, `["[fe80::1%en0]"]`, `["a\nb"]`} {
		m["images "+p] = mustReplace(baseConfig, `["registry.io"]`, p)
	}
	m["images absent"] = mustReplace(baseConfig, `  matchImages: ["registry.io"]`+"\n", "")
	for _, a := range []string{"null", `""`, "1", "registry.io", `" "`, "[a]"} {
		m["audience "+a] = baseConfig + mustReplace(tokenConfig, "Audience: registry.io", "Audience: "+a)
	}
	m["audience absent"] = baseConfig + mustReplace(tokenConfig, "    serviceAccountTokenAudience: registry.io\n", "")
	for _, c := range []string{"null", `""`, "Token", "ServiceAccount", "token", "serviceaccount", "None", "1", `"Token "`} {
		m["cacheType "+c] = baseConfig + mustReplace(tokenConfig, "cacheType: Token", "cacheType: "+c)
	}
	m["cacheType absent"] = baseConfig + mustReplace(tokenConfig, "    cacheType: Token\n", "")
	for _, r := range []string{"null", "false", "yes", "no", "on", `"true"`, "1", "0", "True", "FALSE", "y", "n"} {
		m["require "+r] = baseConfig + mustReplace(tokenConfig, "Account: true", "Account: "+r)
	}
	m["require absent"] = baseConfig + mustReplace(tokenConfig, "    requireServiceAccount: true\n", "")
	const req, opt = "    requiredServiceAccountAnnotationKeys: ", "    optionalServiceAccountAnnotationKeys: "
	for _, k := range []string{"null", "[]", "[a]", "[a, b]", "[a, a]", "[a, A]", "[A]", "[example.com/a]", "[Example.com/A]", "[example.com/a/b]", "[/a]", "[example.com/]", `[""]`, `["a b"]`, "[-a]", "[a-]", "[a.b]", "[a_b]", "[1]", "[null]", "[" + strings.Repeat("a", 63) + "]", "[" + strings.Repeat("a", 64) + "]", "[" + strings.Repeat("a", 253) + "/a]", "[" + strings.Repeat("a", 254) + "/a]", "[" + strings.Repeat("abc.", 62) + "abc/a]", "[exa_mple.com/a]", "[-example.com/a]", "[é]", "[\u0130]", "[\u212a]", "[example..com/a]", "x"} {
		m["required keys "+k] = baseConfig + tokenConfig + req + k + "\n"
		m["optional keys "+k] = baseConfig + tokenConfig + opt + k + "\n"
	}
	m["key in both lists"] = baseConfig + tokenConfig + req + "[a]\n" + opt + "[b, a]\n"
	m["key in both lists, other case"] = baseConfig + tokenConfig + req + "[a]\n" + opt + "[A]\n"
	m["required keys without required account"] = baseConfig + mustReplace(tokenConfig, "true", "false") + req + "[a]\n"
	m["required keys empty without required account"] = baseConfig + mustReplace(tokenConfig, "true", "false") + req + "[]\n"
	m["optional keys without required account"] = baseConfig + mustReplace(tokenConfig, "true", "false") + opt + "[a]\n"
	m["tokens with provider v1beta1"] = mustReplace(baseConfig, execGroup+"v1\n", execGroup+"v1beta1\n") + tokenConfig
	internal := "apiVersion: kubelet.config.k8s.io/__internal\nkind: CredentialProviderConfig\n"
	m["internal version"] = internal + "Providers:\n- Name: one\n  MatchImages: [registry.io]\n  DefaultCacheDuration: 1h\n  APIVersion: credentialprovider.kubelet.k8s.io/v1\n"
	m["internal version without providers"] = internal
	m["internal version, all fields"] = m["internal version"] + "  Args: [a]\n  Env: [{Name: A, Value: b}]\n  TokenAttributes: {ServiceAccountTokenAudience: a, CacheType: Token, RequireServiceAccount: true, RequiredServiceAccountAnnotationKeys: [a]}\n"
	m["everything wrong"] = configHeader + "providers:\n- name: a/b c\n  matchImages: ['%zz']\n  defaultCacheDuration: -1s\n  apiVersion: v9\n  tokenAttributes: {cacheType: x, requiredServiceAccountAnnotationKeys: [' ']}\n- name: ..\n"
	return m
}
