// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package corpus

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// Auth is a credential in a response.
type Auth struct {
	Username RawString `json:"username"`
	Password RawString `json:"password"`
}

// MatchAllPatterns lists patterns that together match all repositories in keyring.json.
var MatchAllPatterns = []string{"*", "*.*", "*.*.*", "*.*.*.*", "*:5000", "*.*:5000", "*.*.*:5000", "*:443", "*.*:443"}

// KeyringCase contains the providers' responses, in the order of the configuration, and the
// repository to pull.
type KeyringCase struct {
	Responses []map[string]Auth `json:"answers"`
	Image     string            `json:"image"`
}

// newResponses returns a response for each list of auth keys. A user name such as "0/registry.io"
// contains the index of the response and the key.
func newResponses(keys ...[]string) []map[string]Auth {
	all := make([]map[string]Auth, len(keys))
	for i, list := range keys {
		all[i] = map[string]Auth{}
		for _, k := range list {
			all[i][k] = Auth{RawString(fmt.Sprintf("%d/%s", i, k)), RawString(fmt.Sprintf("%s-%d", plantedPassword, i))}
		}
	}
	return all
}

// KeyringCases returns the cases for keyring.json. No response has two keys that are equal after
// normalization, because the kubelet returns their credentials in random order.
func KeyringCases() []KeyringCase {
	k := func(keys ...string) []string { return keys }
	sets := [][]map[string]Auth{
		{}, newResponses(k()), newResponses(k("registry.io")), newResponses(k("registry.io"), k("registry.io")), newResponses(k("*.io"), k("registry.io"), k("registry.io/team")),
		newResponses(k("registry.io", "registry.io/team", "*.io", "registry.io/team/app")), newResponses(k("registry.io/te"), k("registry.io/team-evil"), k("registry.io/team")),
		newResponses(k("https://registry.io"), k("http://registry.io"), k("HTTPS://registry.io"), k("ftp://registry.io"), k("//registry.io")),
		newResponses(k("https://registry.io/v1/"), k("https://registry.io/v2/"), k("registry.io/v1/team"), k("registry.io/v2"), k("registry.io/v1"), k("registry.io/")),
		newResponses(k("registry.io/v3/"), k("registry.io/v1/v1/team"), k("registry.io/v1//team"), k("registry.io//"), k("https://registry.io/v1/team/app")),
		newResponses(k("user@registry.io"), k("user:pw@registry.io"), k("registry.io?q=1"), k("registry.io#f"), k("https://u@registry.io/v1/?q")),
		newResponses(k("%zz", "registry.io")), newResponses(k("registry.io/%zz"), k("registry.io/%74eam"), k("registry.io/%2574eam"), k("registry.io/%25zz"), k("registry.io:x"), k("regis try.io"), k("")),
		newResponses(k("registry.io:5000"), k("registry.io:"), k("*:5000"), k("registry.io:5000/team")), newResponses(k("*", "*.io", "*.*", "r*.io", "registry.*", "?egistry.io", "[r]egistry.io", "Registry.io")),
		newResponses(k("docker.io"), k("index.docker.io")), newResponses(k("https://index.docker.io/v1/")), newResponses(k("index.docker.io", "registry.io")), newResponses(k("docker.io/library"), k("https://index.docker.io/v1/")),
		newResponses(k("https://index.docker.io/v2/"), k("index.docker.io/v1"), k("index.docker.io/"), k("http://index.docker.io")), newResponses(k("index.docker.io/library"), k("*.docker.io")),
		newResponses(k("registry-1.docker.io"), k("index.docker.io/v1/library")), newResponses(k("localhost"), k("localhost:5000"), k("index.docker.io")), newResponses(k("[::1]:5000"), k("[::1]"), k("*:5000")),
		newResponses(k("b.io", "a.io", "*.io"), k("*.io/team", "*.io"), k("registry.io", "*.io/")), newResponses(k("registry.io/team", "registry.io/Team", "registry.io/team.x", "registry.io/team-x", "registry.io/team/x")),
	}
	images := []string{"registry.io/team/app", "registry.io/team-evil/app", "registry.io:5000/team/app", "docker.io/library/nginx", "docker.io/team/app", "index.docker.io/team/app", "localhost/app", "localhost:5000/app", "[::1]:5000/app", "sub.registry.io/app"}
	var all []KeyringCase
	for _, set := range sets {
		for _, image := range images {
			all = append(all, KeyringCase{set, image})
		}
	}
	return all
}

// PullSecretCase is a pull secret and the images to pull with it.
type PullSecretCase struct {
	Name   string    `json:"name"`
	Type   string    `json:"type"`
	Key    string    `json:"key"`
	Data   RawString `json:"data"`
	Images []string  `json:"images"`
}

const (
	dockerConfigJSONType, dockerConfigJSONKey = "kubernetes.io/dockerconfigjson", ".dockerconfigjson"
	dockercfgType, dockercfgKey               = "kubernetes.io/dockercfg", ".dockercfg"
)

// PullSecretCases returns the pull secrets for dockerconfig.json, in a fixed order: each entry in
// both file formats, then whole documents.
func PullSecretCases() []PullSecretCase {
	images := []string{"registry.io/app"}
	var all []PullSecretCase
	m := authEntries()
	for _, name := range sortedKeys(m) {
		cfg := `{"registry.io":` + m[name] + `}`
		all = append(all, PullSecretCase{name, dockerConfigJSONType, dockerConfigJSONKey, RawString(`{"auths":` + cfg + `}`), images}, PullSecretCase{name, dockercfgType, dockercfgKey, RawString(cfg), images})
	}
	entry := `{"registry.io":` + m["user and password"] + `}`
	docs := dockerConfigDocuments(entry)
	for _, name := range sortedKeys(docs) {
		all = append(all, PullSecretCase{name, dockerConfigJSONType, dockerConfigJSONKey, RawString(docs[name]), images}, PullSecretCase{name, dockercfgType, dockercfgKey, RawString(docs[name]), images})
	}
	auths := `{"auths":` + entry + `}`
	for _, t := range [][2]string{{dockerConfigJSONType, dockercfgKey}, {dockercfgType, dockerConfigJSONKey}, {"Opaque", dockerConfigJSONKey}, {"", dockerConfigJSONKey}, {dockerConfigJSONType, "config.json"}, {"kubernetes.io/DockerConfigJSON", dockerConfigJSONKey}} {
		all = append(all, PullSecretCase{"type and key do not belong together", t[0], t[1], RawString(auths), images})
	}
	return all
}

func encodeBase64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func authEntries() map[string]string {
	pair := encodeBase64("u:" + plantedPassword)
	raw := base64.RawStdEncoding.EncodeToString([]byte("u:" + plantedPassword + "~"))
	q := func(s string) string { return fmt.Sprintf("%q", s) }
	field := func(auth string) string { return `{"auth":` + auth + `}` }
	return map[string]string{
		"user and password":              `{"username":"u","password":"` + plantedPassword + `"}`,
		"user alone":                     `{"username":"u"}`,
		"password alone":                 `{"password":"` + plantedPassword + `"}`,
		"empty":                          `{}`,
		"null":                           `null`,
		"string":                         `"x"`,
		"list":                           `[]`,
		"number":                         `1`,
		"true":                           "true",
		"email":                          `{"username":"u","password":"` + plantedPassword + `","email":"e@x"}`,
		"identitytoken":                  `{"identitytoken":"` + plantedToken + `"}`,
		"unknown field":                  `{"username":"u","x":{}}`,
		"wrong case":                     `{"Username":"u","PASSWORD":"` + plantedPassword + `"}`,
		"wrong case auth":                `{"Auth":` + q(pair) + `}`,
		"duplicate field":                `{"username":"u","username":"v"}`,
		"both cases":                     `{"username":"u","Username":"v"}`,
		"auth":                           field(q(pair)),
		"auth unpadded":                  field(q(raw)),
		"auth padding lacks":             field(q(strings.TrimRight(encodeBase64("u:"+plantedPassword+"~~"), "="))),
		"auth padding too much":          field(q(pair + "=")),
		"auth wins":                      `{"username":"x","password":"` + plantedPassword + `-2","auth":` + q(pair) + `}`,
		"auth empty":                     `{"username":"u","password":"` + plantedPassword + `","auth":""}`,
		"auth null":                      `{"username":"u","auth":null}`,
		"auth number":                    field("1"),
		"auth object":                    field("{}"),
		"auth without colon":             field(q(encodeBase64("u"))),
		"auth only colon":                field(q(encodeBase64(":"))),
		"auth empty user":                field(q(encodeBase64(":" + plantedPassword))),
		"auth empty password":            field(q(encodeBase64("u:"))),
		"auth two colons":                field(q(encodeBase64("u:p:" + plantedPassword))),
		"auth not base64":                field(`"***"`),
		"auth url alphabet":              field(q(base64.URLEncoding.EncodeToString([]byte("u:\xfb\xff\xfe")))),
		"auth std alphabet":              field(q(encodeBase64("u:\xfb\xff\xfe"))),
		"auth with newline":              field(q(pair[:8] + "\n" + pair[8:])),
		"auth trailing newline":          field(q(pair + "\n")),
		"auth trailing CRLF":             field(q(pair + "\r\n")),
		"auth leading blank":             field(q(" " + pair)),
		"auth trailing blank":            field(q(pair + " ")),
		"auth padded trailing blank":     field(q(encodeBase64("u:"+plantedPassword+"~~") + " ")),
		"auth trailing newline unpadded": field(q(raw + "\n")),
		"auth inner blank":               field(q(pair[:8] + " " + pair[8:])),
		"auth NUL":                       field(q(encodeBase64("u:" + plantedPassword + "\x00\x00"))),
		"auth binary":                    field(q(encodeBase64("\xff:\xfe"))),
		"auth one character":             field(`"a"`),
		"auth equals":                    field(`"="`),
		"auth blank":                     field(`" "`),
		"auth trailing bits":             field(`"dTp="`),
		"auth trailing bits unpadded":    field(`"dTp1x"`),
		"auth newline in value":          field(q(encodeBase64("u:" + plantedPassword + "\n"))),
		"auth utf-8":                     field(q(encodeBase64("é:" + plantedPassword))),
		"user null":                      `{"username":null,"password":"` + plantedPassword + `"}`,
		"user number":                    `{"username":1}`,
		"lone surrogate":                 `{"username":"\ud800"}`,
		"invalid UTF-8":                  "{\"username\":\"\xff\"}",
	}
}

func dockerConfigDocuments(entry string) map[string]string {
	auths := `{"auths":` + entry + `}`
	return map[string]string{
		"document empty":            "",
		"document blank":            " ",
		"document null":             "null",
		"document list":             "[]",
		"document string":           `"x"`,
		"document number":           "1",
		"document object":           "{}",
		"document half":             auths[:30],
		"document twice":            auths + auths,
		"document trailing word":    auths + "x",
		"document trailing newline": auths + "\n",
		"document BOM":              "\ufeff" + auths,
		"document plain":            auths,
		"document bare":             entry,
		"document YAML":             "auths:\n  registry.io: {}\n",
		"auths null":                `{"auths":null}`,
		"auths empty":               `{"auths":{}}`,
		"auths list":                `{"auths":[]}`,
		"auths string":              `{"auths":"x"}`,
		"auths upper":               `{"AUTHS":` + entry + `}`,
		"auths twice":               `{"auths":` + entry + `,"auths":{}}`,
		"auths twice, merged":       `{"auths":` + entry + `,"auths":{"*.io":{"username":"w"}}}`,
		"auths both cases":          `{"auths":` + entry + `,"Auths":{"*.io":{"username":"w"}}}`,
		"key twice":                 `{"auths":{"registry.io":{"username":"a"},"registry.io":{"password":"` + plantedPassword + `"}}}`,
		"headers":                   `{"auths":` + entry + `,"HttpHeaders":{"User-Agent":"x"}}`,
		"headers of another type":   `{"auths":` + entry + `,"HttpHeaders":1}`,
		"headers lower":             `{"auths":` + entry + `,"httpheaders":{"a":1}}`,
		"helpers":                   `{"auths":` + entry + `,"credHelpers":{"registry.io":"x"},"credsStore":"y"}`,
		"helpers of another type":   `{"auths":` + entry + `,"credHelpers":1}`,
		"unknown":                   `{"auths":` + entry + `,"x":1}`,
		"one entry broken":          `{"auths":{"registry.io":{"username":"u"},"other.io":{"auth":"*"}}}`,
		"one key broken":            `{"auths":{"%zz":{"username":"x"},"registry.io":{"username":"u"}}}`,
		"several keys":              `{"auths":{"https://registry.io/v1/":{"username":"a"},"*.io":{"username":"b"},"registry.io/app":{"username":"c"}}}`,
		"deep":                      `{"auths":` + strings.Repeat("[", 11000),
		"entry null beside":         `{"auths":{"a.io":null,"registry.io":{"username":"u"}}}`,
	}
}
