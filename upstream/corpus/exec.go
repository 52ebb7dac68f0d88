// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package corpus

import "strings"

// plantedPassword and the following constants are planted secrets. Tests search their
// own output for "canary-".
const (
	plantedPassword = "canary-password-4b1d"
	plantedToken    = "canary-token-4b1d"
)

// Versions lists the API versions of the exec protocol.
var Versions = []string{execGroup + "v1", execGroup + "v1beta1", execGroup + "v1alpha1"}

// Request is a request to a plugin.
type Request struct {
	APIVersion  string            `json:"apiVersion"`
	Image       RawString         `json:"image"`
	Token       string            `json:"token,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Requests returns the requests for request.json.
func Requests() []Request {
	var all []Request
	for _, v := range Versions {
		for _, image := range []RawString{"registry.io/app", "docker.io/library/nginx", "", "a\"b\\c\n\t\x01", "é/日本", "<&>", "\u2028\u2029", "a\xffb", "\U0001f433", "\x7f"} {
			all = append(all, Request{APIVersion: v, Image: image})
		}
		for _, a := range []map[string]string{nil, {}, {"a": ""}, {"": "x"}, {"b": "1", "a": "2", "example.com/c": "<é>\n"}} {
			all = append(all, Request{APIVersion: v, Image: "registry.io/app", Token: plantedToken, Annotations: a},
				Request{APIVersion: v, Image: "registry.io/app", Annotations: a})
		}
	}
	return all
}

// Response is a plugin's standard output for a request in APIVersion.
type Response struct {
	Name       string    `json:"name"`
	APIVersion string    `json:"apiVersion"`
	Output     RawString `json:"output"`
}

const sampleResponse = `{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image","cacheDuration":"1h","auth":{"registry.io":{"username":"u","password":"` + plantedPassword + `"}}}`

// Responses returns the outputs for response.json, in a fixed order.
func Responses() []Response {
	var all []Response
	add := func(name, version, output string) {
		all = append(all, Response{name, version, RawString(output)})
	}
	for _, asked := range Versions {
		for _, given := range append(Versions, execGroup+"v2", execGroup, "v1", "", "/v1", "V1", "kubelet.config.k8s.io/v1", execGroup+"__internal") {
			add("asked in "+asked+", answered in "+given, asked, mustReplace(sampleResponse, execGroup+"v1", given))
		}
	}
	m := namedResponses()
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

func namedResponses() map[string]string {
	const auth = `"auth":{"registry.io":{"username":"u","password":"` + plantedPassword + `"}}`
	m := map[string]string{
		"plain":                        sampleResponse,
		"empty":                        "",
		"blank":                        " \n",
		"null":                         "null",
		"object":                       "{}",
		"list":                         "[" + sampleResponse + "]",
		"string":                       `"x"`,
		"number":                       "1",
		"half":                         sampleResponse[:70],
		"two":                          sampleResponse + sampleResponse,
		"two lines":                    sampleResponse + "\n" + sampleResponse,
		"trailing blank":               sampleResponse + " \r\n\t",
		"leading blank":                "\n " + sampleResponse,
		"trailing comma":               sampleResponse + ",",
		"trailing word":                sampleResponse + " ok",
		"trailing brace":               sampleResponse + "}",
		"trailing NUL":                 sampleResponse + "\x00",
		"trailing comment":             sampleResponse + "\n# c",
		"leading word":                 "ok\n" + sampleResponse,
		"BOM":                          "\ufeff" + sampleResponse,
		"YAML":                         "apiVersion: credentialprovider.kubelet.k8s.io/v1\nkind: CredentialProviderResponse\ncacheKeyType: Image\n",
		"document marker":              "---\n" + sampleResponse,
		"invalid UTF-8":                mustReplace(sampleResponse, `"u"`, "\"\xff\""),
		"CRLF":                         strings.ReplaceAll(sampleResponse, ",", ",\r\n"),
		"kind missing":                 mustReplace(sampleResponse, `"kind":"CredentialProviderResponse",`, ""),
		"kind empty":                   mustReplace(sampleResponse, "CredentialProviderResponse", ""),
		"kind request":                 mustReplace(sampleResponse, "CredentialProviderResponse", "CredentialProviderRequest"),
		"kind wrong":                   mustReplace(sampleResponse, "CredentialProviderResponse", "Response"),
		"kind lower":                   mustReplace(sampleResponse, "CredentialProviderResponse", "credentialproviderresponse"),
		"kind null":                    mustReplace(sampleResponse, `"CredentialProviderResponse"`, "null"),
		"kind number":                  mustReplace(sampleResponse, `"CredentialProviderResponse"`, "1"),
		"kind with NUL":                mustReplace(sampleResponse, "Response\"", "Response\\u0000\""),
		"apiVersion missing":           mustReplace(sampleResponse, `"apiVersion":"credentialprovider.kubelet.k8s.io/v1",`, ""),
		"apiVersion null":              mustReplace(sampleResponse, `"credentialprovider.kubelet.k8s.io/v1"`, "null"),
		"apiVersion number":            mustReplace(sampleResponse, `"credentialprovider.kubelet.k8s.io/v1"`, "1"),
		"apiVersion extra slash":       mustReplace(sampleResponse, "io/v1", "io/v1/x"),
		"unknown field":                mustReplace(sampleResponse, `"auth"`, `"x":1,"auth"`),
		"unknown field null":           mustReplace(sampleResponse, `"auth"`, `"x":null,"auth"`),
		"metadata":                     mustReplace(sampleResponse, `"auth"`, `"metadata":{},"auth"`),
		"wrong case":                   mustReplace(sampleResponse, `"cacheKeyType"`, `"cachekeytype"`),
		"wrong case kind":              mustReplace(sampleResponse, `"kind"`, `"Kind"`),
		"wrong case apiVersion":        mustReplace(sampleResponse, `"apiVersion"`, `"APIVersion"`),
		"both cases of kind":           mustReplace(sampleResponse, `{`, `{"Kind":"CredentialProviderResponse",`),
		"wrong case auth":              mustReplace(sampleResponse, `"auth"`, `"Auth"`),
		"wrong case username":          mustReplace(sampleResponse, `"username"`, `"userName"`),
		"wrong case beside right":      mustReplace(sampleResponse, `"auth"`, `"Auth":null,"auth"`),
		"duplicate field":              mustReplace(sampleResponse, `"auth"`, `"cacheKeyType":"Image","auth"`),
		"duplicate kind":               mustReplace(sampleResponse, `{`, `{"kind":"CredentialProviderResponse",`),
		"duplicate apiVersion":         mustReplace(sampleResponse, `{`, `{"apiVersion":"credentialprovider.kubelet.k8s.io/v1",`),
		"duplicate auth":               mustReplace(sampleResponse, `"auth"`, `"auth":{},"auth"`),
		"duplicate auth key":           mustReplace(sampleResponse, `"registry.io":`, `"registry.io":{},"registry.io":`),
		"duplicate username":           mustReplace(sampleResponse, `"username":"u"`, `"username":"u","username":"u"`),
		"duplicate by escape":          mustReplace(sampleResponse, `"auth"`, `"\u0061uth":{},"auth"`),
		"escaped key":                  mustReplace(sampleResponse, `"auth"`, `"\u0061uth"`),
		"duplicate auth key by escape": mustReplace(sampleResponse, `"registry.io":`, `"registr\u0079.io":{},"registry.io":`),
		"unknown field in auth":        mustReplace(sampleResponse, `"username"`, `"email":"x","username"`),
		"auth field":                   mustReplace(sampleResponse, `"username"`, `"auth":"x","username"`),
		"identitytoken":                mustReplace(sampleResponse, `"username"`, `"identitytoken":"x","username"`),
		"auth null":                    mustReplace(sampleResponse, auth, `"auth":null`),
		"auth empty":                   mustReplace(sampleResponse, auth, `"auth":{}`),
		"auth missing":                 mustReplace(sampleResponse, ","+auth, ""),
		"auth list":                    mustReplace(sampleResponse, auth, `"auth":[]`),
		"auth string":                  mustReplace(sampleResponse, auth, `"auth":"x"`),
		"auth entry null":              mustReplace(sampleResponse, auth, `"auth":{"registry.io":null}`),
		"auth entry empty":             mustReplace(sampleResponse, auth, `"auth":{"registry.io":{}}`),
		"auth entry string":            mustReplace(sampleResponse, auth, `"auth":{"registry.io":"x"}`),
		"auth entry list":              mustReplace(sampleResponse, auth, `"auth":{"registry.io":[]}`),
		"auth key empty":               mustReplace(sampleResponse, `"registry.io"`, `""`),
		"auth key unicode":             mustReplace(sampleResponse, `"registry.io"`, `"é"`),
		"auth key invalid UTF-8":       mustReplace(sampleResponse, `"registry.io"`, "\"\xff\""),
		"auth keys of invalid UTF-8":   mustReplace(sampleResponse, `"registry.io":`, "\"\xff\":{},\"\xfe\":"),
		"two auth keys":                mustReplace(sampleResponse, `"registry.io":`, `"*.io":{"username":"v","password":""},"registry.io":`),
		"username null":                mustReplace(sampleResponse, `"u"`, "null"),
		"username number":              mustReplace(sampleResponse, `"u"`, "1"),
		"username empty":               mustReplace(sampleResponse, `"u"`, `""`),
		"username missing":             mustReplace(sampleResponse, `"username":"u",`, ""),
		"password missing":             mustReplace(sampleResponse, `,"password":"`+plantedPassword+`"`, ""),
		"password number":              mustReplace(sampleResponse, `"`+plantedPassword+`"`, "1"),
		"password null":                mustReplace(sampleResponse, `"`+plantedPassword+`"`, "null"),
		"password list":                mustReplace(sampleResponse, `"`+plantedPassword+`"`, "[]"),
		"password with escapes":        mustReplace(sampleResponse, plantedPassword, plantedPassword+`\n\u00e9\"\\`),
		"lone surrogate":               mustReplace(sampleResponse, `"u"`, `"\ud800"`),
		"surrogate pair":               mustReplace(sampleResponse, `"u"`, `"\ud83d\udc33"`),
		"NUL escaped":                  mustReplace(sampleResponse, `"u"`, `"\u0000"`),
		"control character":            mustReplace(sampleResponse, `"u"`, "\"\x01\""),
		"bad escape":                   mustReplace(sampleResponse, `"u"`, `"\x"`),
		"upper-case hex escape":        mustReplace(sampleResponse, `"u"`, `"\u00E9"`),
		"DEL":                          mustReplace(sampleResponse, `"u"`, "\"\x7f\""),
		"long":                         mustReplace(sampleResponse, `"u"`, `"`+strings.Repeat("u", 70000)+`"`),
		"deep nesting":                 `{"x":` + strings.Repeat("[", 20000),
		"deep nesting closed":          mustReplace(sampleResponse, `"auth"`, `"x":`+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+`,"auth"`),
		"number in wrong form":         mustReplace(sampleResponse, `"1h"`, "01"),
		"single quotes":                strings.ReplaceAll(sampleResponse, `"`, "'"),
		"trailing comma in object":     mustReplace(sampleResponse, "}}}", "}},}"),
		"comment":                      mustReplace(sampleResponse, "{", "{/*c*/"),
		"cacheDuration missing":        mustReplace(sampleResponse, `"cacheDuration":"1h",`, ""),
		"cacheKeyType missing":         mustReplace(sampleResponse, `"cacheKeyType":"Image",`, ""),
	}
	for _, d := range []string{"null", `""`, "0", `"0"`, `"0s"`, `"-0s"`, `"1h"`, `"-1h"`, `"-1ns"`, `"1d"`, "3600", "3600000000000", "1.5", "true", "{}", "[]", `" 1h"`, `"1h "`, `"+1h"`, `"1.5h"`, `"1h1h"`, `"2562047h47m16.854775807s"`, `"9999999999h"`, `"\u0031h"`, `"1µs"`, `"1e3s"`, `"Infinity"`} {
		m["duration "+d] = mustReplace(sampleResponse, `"1h"`, d)
	}
	m["duration null"] = mustReplace(sampleResponse, `"1h"`, "null")
	for _, t := range []string{`"Registry"`, `"Global"`, `"image"`, `"IMAGE"`, `""`, "null", "1", `"Image "`, `"\u0049mage"`, `"None"`, "[]", "{}"} {
		m["cacheKeyType "+t] = mustReplace(sampleResponse, `"Image"`, t)
	}
	return m
}
