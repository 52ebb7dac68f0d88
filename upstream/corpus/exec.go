// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package corpus

import "strings"

// The planted secrets. Tests search their own output for "canary-".
const (
	password = "canary-password-4b1d"
	token    = "canary-token-4b1d"
)

// Versions lists the API versions of the exec protocol.
var Versions = []string{execGroup + "v1", execGroup + "v1beta1", execGroup + "v1alpha1"}

// Request is a request to a plugin.
type Request struct {
	APIVersion  string            `json:"apiVersion"`
	Image       Text              `json:"image"`
	Token       string            `json:"token,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Requests returns the requests for request.json.
func Requests() []Request {
	var all []Request
	for _, v := range Versions {
		for _, image := range []Text{"registry.io/app", "docker.io/library/nginx", "", "a\"b\\c\n\t\x01", "é/日本", "<&>", "\u2028\u2029", "a\xffb", "\U0001f433", "\x7f"} {
			all = append(all, Request{APIVersion: v, Image: image})
		}
		for _, a := range []map[string]string{nil, {}, {"a": ""}, {"": "x"}, {"b": "1", "a": "2", "example.com/c": "<é>\n"}} {
			all = append(all, Request{APIVersion: v, Image: "registry.io/app", Token: token, Annotations: a},
				Request{APIVersion: v, Image: "registry.io/app", Annotations: a})
		}
	}
	return all
}

// Response is a plugin's standard output for a request in APIVersion.
type Response struct {
	Name       string `json:"name"`
	APIVersion string `json:"apiVersion"`
	Output     Text   `json:"output"`
}

const answer = `{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image","cacheDuration":"1h","auth":{"registry.io":{"username":"u","password":"` + password + `"}}}`

// Responses returns the outputs for response.json, in a fixed order.
func Responses() []Response {
	var all []Response
	add := func(name, version, output string) {
		all = append(all, Response{name, version, Text(output)})
	}
	for _, asked := range Versions {
		for _, given := range append(Versions, execGroup+"v2", execGroup, "v1", "", "/v1", "V1", "kubelet.config.k8s.io/v1", execGroup+"__internal") {
			add("asked in "+asked+", answered in "+given, asked, swap(answer, execGroup+"v1", given))
		}
	}
	m := responses()
	for _, name := range sortedKeys(m) {
		add(name, Versions[0], m[name])
	}
	for _, v := range Versions[1:] {
		for _, name := range []string{"unknown field", "wrong case", "duplicate field", "auth null", "duration null", "trailing blank"} {
			add(name+" in "+v, v, strings.Replace(m[name], Versions[0], v, 1))
		}
	}
	return all
}

func responses() map[string]string {
	const auth = `"auth":{"registry.io":{"username":"u","password":"` + password + `"}}`
	m := map[string]string{
		"plain":                        answer,
		"empty":                        "",
		"blank":                        " \n",
		"null":                         "null",
		"object":                       "{}",
		"list":                         "[" + answer + "]",
		"string":                       `"x"`,
		"number":                       "1",
		"half":                         answer[:70],
		"two":                          answer + answer,
		"two lines":                    answer + "\n" + answer,
		"trailing blank":               answer + " \r\n\t",
		"leading blank":                "\n " + answer,
		"trailing comma":               answer + ",",
		"trailing word":                answer + " ok",
		"trailing brace":               answer + "}",
		"trailing NUL":                 answer + "\x00",
		"trailing comment":             answer + "\n# c",
		"leading word":                 "ok\n" + answer,
		"BOM":                          "\ufeff" + answer,
		"YAML":                         "apiVersion: credentialprovider.kubelet.k8s.io/v1\nkind: CredentialProviderResponse\ncacheKeyType: Image\n",
		"document marker":              "---\n" + answer,
		"invalid UTF-8":                swap(answer, `"u"`, "\"\xff\""),
		"CRLF":                         strings.ReplaceAll(answer, ",", ",\r\n"),
		"kind missing":                 swap(answer, `"kind":"CredentialProviderResponse",`, ""),
		"kind empty":                   swap(answer, "CredentialProviderResponse", ""),
		"kind request":                 swap(answer, "CredentialProviderResponse", "CredentialProviderRequest"),
		"kind wrong":                   swap(answer, "CredentialProviderResponse", "Response"),
		"kind lower":                   swap(answer, "CredentialProviderResponse", "credentialproviderresponse"),
		"kind null":                    swap(answer, `"CredentialProviderResponse"`, "null"),
		"kind number":                  swap(answer, `"CredentialProviderResponse"`, "1"),
		"kind with NUL":                swap(answer, "Response\"", "Response\\u0000\""),
		"apiVersion missing":           swap(answer, `"apiVersion":"credentialprovider.kubelet.k8s.io/v1",`, ""),
		"apiVersion null":              swap(answer, `"credentialprovider.kubelet.k8s.io/v1"`, "null"),
		"apiVersion number":            swap(answer, `"credentialprovider.kubelet.k8s.io/v1"`, "1"),
		"apiVersion extra slash":       swap(answer, "io/v1", "io/v1/x"),
		"unknown field":                swap(answer, `"auth"`, `"x":1,"auth"`),
		"unknown field null":           swap(answer, `"auth"`, `"x":null,"auth"`),
		"metadata":                     swap(answer, `"auth"`, `"metadata":{},"auth"`),
		"wrong case":                   swap(answer, `"cacheKeyType"`, `"cachekeytype"`),
		"wrong case kind":              swap(answer, `"kind"`, `"Kind"`),
		"wrong case apiVersion":        swap(answer, `"apiVersion"`, `"APIVersion"`),
		"both cases of kind":           swap(answer, `{`, `{"Kind":"CredentialProviderResponse",`),
		"wrong case auth":              swap(answer, `"auth"`, `"Auth"`),
		"wrong case username":          swap(answer, `"username"`, `"userName"`),
		"wrong case beside right":      swap(answer, `"auth"`, `"Auth":null,"auth"`),
		"duplicate field":              swap(answer, `"auth"`, `"cacheKeyType":"Image","auth"`),
		"duplicate kind":               swap(answer, `{`, `{"kind":"CredentialProviderResponse",`),
		"duplicate apiVersion":         swap(answer, `{`, `{"apiVersion":"credentialprovider.kubelet.k8s.io/v1",`),
		"duplicate auth":               swap(answer, `"auth"`, `"auth":{},"auth"`),
		"duplicate auth key":           swap(answer, `"registry.io":`, `"registry.io":{},"registry.io":`),
		"duplicate username":           swap(answer, `"username":"u"`, `"username":"u","username":"u"`),
		"duplicate by escape":          swap(answer, `"auth"`, `"\u0061uth":{},"auth"`),
		"escaped key":                  swap(answer, `"auth"`, `"\u0061uth"`),
		"duplicate auth key by escape": swap(answer, `"registry.io":`, `"registr\u0079.io":{},"registry.io":`),
		"unknown field in auth":        swap(answer, `"username"`, `"email":"x","username"`),
		"auth field":                   swap(answer, `"username"`, `"auth":"x","username"`),
		"identitytoken":                swap(answer, `"username"`, `"identitytoken":"x","username"`),
		"auth null":                    swap(answer, auth, `"auth":null`),
		"auth empty":                   swap(answer, auth, `"auth":{}`),
		"auth missing":                 swap(answer, ","+auth, ""),
		"auth list":                    swap(answer, auth, `"auth":[]`),
		"auth string":                  swap(answer, auth, `"auth":"x"`),
		"auth entry null":              swap(answer, auth, `"auth":{"registry.io":null}`),
		"auth entry empty":             swap(answer, auth, `"auth":{"registry.io":{}}`),
		"auth entry string":            swap(answer, auth, `"auth":{"registry.io":"x"}`),
		"auth entry list":              swap(answer, auth, `"auth":{"registry.io":[]}`),
		"auth key empty":               swap(answer, `"registry.io"`, `""`),
		"auth key unicode":             swap(answer, `"registry.io"`, `"é"`),
		"auth key invalid UTF-8":       swap(answer, `"registry.io"`, "\"\xff\""),
		"auth keys of invalid UTF-8":   swap(answer, `"registry.io":`, "\"\xff\":{},\"\xfe\":"),
		"two auth keys":                swap(answer, `"registry.io":`, `"*.io":{"username":"v","password":""},"registry.io":`),
		"username null":                swap(answer, `"u"`, "null"),
		"username number":              swap(answer, `"u"`, "1"),
		"username empty":               swap(answer, `"u"`, `""`),
		"username missing":             swap(answer, `"username":"u",`, ""),
		"password missing":             swap(answer, `,"password":"`+password+`"`, ""),
		"password number":              swap(answer, `"`+password+`"`, "1"),
		"password null":                swap(answer, `"`+password+`"`, "null"),
		"password list":                swap(answer, `"`+password+`"`, "[]"),
		"password with escapes":        swap(answer, password, password+`\n\u00e9\"\\`),
		"lone surrogate":               swap(answer, `"u"`, `"\ud800"`),
		"surrogate pair":               swap(answer, `"u"`, `"\ud83d\udc33"`),
		"NUL escaped":                  swap(answer, `"u"`, `"\u0000"`),
		"control character":            swap(answer, `"u"`, "\"\x01\""),
		"bad escape":                   swap(answer, `"u"`, `"\x"`),
		"upper-case hex escape":        swap(answer, `"u"`, `"\u00E9"`),
		"DEL":                          swap(answer, `"u"`, "\"\x7f\""),
		"long":                         swap(answer, `"u"`, `"`+strings.Repeat("u", 70000)+`"`),
		"deep nesting":                 `{"x":` + strings.Repeat("[", 20000),
		"deep nesting closed":          swap(answer, `"auth"`, `"x":`+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+`,"auth"`),
		"number in wrong form":         swap(answer, `"1h"`, "01"),
		"single quotes":                strings.ReplaceAll(answer, `"`, "'"),
		"trailing comma in object":     swap(answer, "}}}", "}},}"),
		"comment":                      swap(answer, "{", "{/*c*/"),
		"cacheDuration missing":        swap(answer, `"cacheDuration":"1h",`, ""),
		"cacheKeyType missing":         swap(answer, `"cacheKeyType":"Image",`, ""),
	}
	for _, d := range []string{"null", `""`, "0", `"0"`, `"0s"`, `"-0s"`, `"1h"`, `"-1h"`, `"-1ns"`, `"1d"`, "3600", "3600000000000", "1.5", "true", "{}", "[]", `" 1h"`, `"1h "`, `"+1h"`, `"1.5h"`, `"1h1h"`, `"2562047h47m16.854775807s"`, `"9999999999h"`, `"\u0031h"`, `"1µs"`, `"1e3s"`, `"Infinity"`} {
		m["duration "+d] = swap(answer, `"1h"`, d)
	}
	m["duration null"] = swap(answer, `"1h"`, "null")
	for _, t := range []string{`"Registry"`, `"Global"`, `"image"`, `"IMAGE"`, `""`, "null", "1", `"Image "`, `"\u0049mage"`, `"None"`, "[]", "{}"} {
		m["cacheKeyType "+t] = swap(answer, `"Image"`, t)
	}
	return m
}
