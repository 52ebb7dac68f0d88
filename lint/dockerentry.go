// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"github.com/regcred/regcred/internal/jsonplace"
)

// anonymous is what a runtime makes of a login without a user name
// (containerd: ParseAuth in internal/cri/server/images; CRI-O: PullImage).
const anonymous = "the kubelet hands it to the runtime all the same, which takes a login without a user name for none and pulls anonymously"

// ruleNoLogin is about entries with neither user nor password nor token.
func ruleNoLogin(e *dockerEntry) []remark {
	if e.broken || e.user != "" || e.password != "" || e.hasToken() || e.withHelper() || e.Kind != jsonplace.Object && e.Kind != jsonplace.Null {
		return nil
	}
	for _, f := range e.Members {
		if name := misnamed[strings.ToLower(f.Key)]; name != "" && f.Kind == jsonplace.String {
			return e.at(f.Start, e.path(), name, "%s has neither username nor password: %q is no field that anybody reads", e.shown(), strings.ToLower(f.Key))
		}
	}
	return e.say("", "write auth, or username and password; or take the entry out", "%s has neither user name nor password: %s", e.shown(), anonymous)
}

// misnamed are names that people give to the fields.
var misnamed = map[string]string{
	"user": "username", "login": "username", "name": "username", "account": "username",
	"pass": "password", "passwd": "password", "pwd": "password", "secret": "password", "token": "password", "key": "password",
	"access_token": "password", "accesstoken": "password", "apikey": "password", "authorization": "auth", "auths": "auth", "authentication": "auth",
}

func ruleTokenAlone(e *dockerEntry) []remark {
	field := "identitytoken"
	if e.text(field) == "" {
		field = "registrytoken"
	}
	if e.text(field) == "" || e.broken || e.user != "" && e.password != "" {
		return nil
	}
	return e.say(field, "log in with a user name and a password that the registry's token server takes, such as a token of its own for that",
		"%s has an %s, which no kubelet reads, and no %s beside it", e.shown(), field, map[bool]string{true: "user name and password", false: "password"}[e.user == ""])
}

func ruleNoUser(e *dockerEntry) []remark {
	if e.broken || e.user != "" || e.password == "" {
		return nil
	}
	return e.say("password", "write the user name; registries that go by a token alone say which one they want",
		"%s has a password without a user name: %s", e.shown(), anonymous)
}

func ruleNoPassword(e *dockerEntry) []remark {
	if e.broken || e.user == "" || e.password != "" || e.hasToken() {
		return nil
	}
	return e.say("username", "write the password", "%s has a user name without a password, which is sent as it is", e.shown())
}

// ruleControlCharacter goes by RFC 7617: neither part holds any.
func ruleControlCharacter(e *dockerEntry) []remark {
	const cure = "encode it with printf %s, not with echo or a file that ends with a line feed"
	for _, part := range []struct{ field, name, text string }{{"username", "user name", e.user}, {"password", "password", e.password}} {
		text := part.text
		if strings.HasPrefix(e.user, "_json_key") && part.field == "password" {
			continue // JSON has line feeds, and they do not matter
		}
		i := strings.IndexFunc(text, unicode.IsControl)
		switch {
		case i < 0:
		case strings.TrimRightFunc(text, unicode.IsControl) == text[:i]:
			return e.say(part.field, cure, "the %s for %s ends with %s, which is sent with it", part.name, e.shown(), controlName(text[i:]))
		default:
			return e.say(part.field, cure, "the %s for %s holds %s, which HTTP does not allow there", part.name, e.shown(), controlName(text[i:]))
		}
	}
	return nil
}

func controlName(s string) string {
	switch {
	case strings.HasPrefix(s, "\r\n"):
		return "a carriage return and a line feed"
	case s[0] == '\n':
		return "a line feed"
	case s[0] == '\r':
		return "a carriage return"
	case s[0] == 0:
		return "a NUL"
	case s[0] == '\t':
		return "a tab"
	}
	return "a control character"
}

func ruleLoginBlank(e *dockerEntry) []remark {
	for _, part := range []struct{ field, name, text string }{{"username", "user name", e.user}, {"password", "password", e.password}} {
		if text := strings.TrimFunc(part.text, unicode.IsControl); text == part.text && strings.TrimSpace(text) != text {
			return e.say(part.field, "take it away, unless it is meant", "the %s for %s begins or ends with a blank", part.name, e.shown())
		}
	}
	return nil
}

// wholeVariable matches what a shell, or a CI job, would put something for.
var wholeVariable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(\$\{?\w+\}?|\$\(.*\)|%\w+%)$`)
})

func ruleDockerPlaceholder(e *dockerEntry) []remark {
	for _, part := range []struct{ field, name, text string }{{"username", "user name", e.user}, {"password", "password", e.password}} {
		if text := strings.TrimSpace(part.text); placeholders().MatchString(text) || wholeVariable().MatchString(text) {
			return e.say(part.field, "write what it stands for; nothing replaces it", "the %s for %s looks like an unfilled placeholder", part.name, e.shown())
		}
	}
	return nil
}

func ruleAuthWrapped(e *dockerEntry) []remark {
	if e.broken || !strings.ContainsAny(e.text("auth"), "\r\n") {
		return nil
	}
	return e.say("auth", "encode it with base64 -w0", "the auth of %s has line breaks, which kubelets and docker skip and others may not", e.shown())
}

func ruleAuthWins(e *dockerEntry) []remark {
	if e.broken || e.text("auth") == "" {
		return nil
	}
	for _, part := range []struct{ field, text string }{{"username", e.user}, {"password", e.password}} {
		if beside := e.text(part.field); beside != "" && beside != part.text {
			v := e.fields[part.field]
			return e.at(v.Start, e.path()+"."+part.field, "take it out, or encode auth anew", "the %s of %s is not the one in auth, which counts", part.field, e.shown())
		}
	}
	return nil
}

func rulePasswordEncoded(e *dockerEntry) []remark {
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(e.password))
	if err != nil || e.user == "" || !strings.HasPrefix(string(decoded), e.user+":") {
		return nil
	}
	return e.say("password", "write the password itself, or the whole as auth", "the password for %s is the base64 of the user name and a password", e.shown())
}

// ruleJSONKey is about keys of Google's service accounts.
func ruleJSONKey(e *dockerEntry) []remark {
	if e.password == "" || len(ruleDockerPlaceholder(e)) > 0 {
		return nil
	}
	text := e.password
	switch e.user {
	case "_json_key":
		if json.Valid([]byte(text)) && strings.HasPrefix(strings.TrimSpace(text), "{") {
			return nil
		}
		if isJSONKeyBase64(text) {
			return e.say("password", "write the user name _json_key_base64", "the password for %s is the base64 of a key, and the user name _json_key says that it is the key itself", e.shown())
		}
	case "_json_key_base64":
		if isJSONKeyBase64(text) {
			return nil
		}
		if json.Valid([]byte(text)) {
			return e.say("password", "write the user name _json_key", "the password for %s is a key, and the user name _json_key_base64 says that it is the base64 of one", e.shown())
		}
	default:
		return nil
	}
	return e.say("password", "take the whole file of the key; jq -Rs . quotes it for JSON", "the password for %s is not the key of a service account, which is JSON: was it cut, or lost its quotes?", e.shown())
}

func isJSONKeyBase64(s string) bool {
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(s))
	return err == nil && json.Valid(decoded)
}
