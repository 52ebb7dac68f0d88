// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
	"unicode"

	"github.com/regcred/regcred/internal/dockerjson"
	"github.com/regcred/regcred/internal/jsonplace"
	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/lint/internal/rules"
)

// anonymousEffect describes the effect of a missing user name (containerd: ParseAuth in
// internal/cri/server/images; CRI-O: PullImage).
const anonymousEffect = "the runtime ignores a credential without a user name and pulls anonymously"

type credentialPart struct{ field, name, text string }

func (e *authEntry) parts() []credentialPart {
	return []credentialPart{{"username", "user name", e.user}, {"password", "password", e.password}}
}

func checkEmptyEntry(e *authEntry) []rules.Result {
	if e.broken || e.user != "" || e.password != "" || e.hasToken() || e.usesHelper() || e.Kind != jsonplace.KindObject && e.Kind != jsonplace.KindNull {
		return nil
	}
	for _, f := range e.Members {
		if name := fieldNameCorrections[strings.ToLower(f.Key)]; name != "" && f.Kind == jsonplace.KindString {
			return e.config.resultAtOffset(f.Start, e.path(), name, "%s has neither username nor password, and the kubelet ignores the field %q", e.displayKey(), strings.ToLower(f.Key))
		}
	}
	return e.fieldResult("", "set auth, or set username and password", "%s has neither a user name nor a password: %s", e.displayKey(), anonymousEffect)
}

// fieldNameCorrections maps common wrong field names to the correct names.
var fieldNameCorrections = map[string]string{
	"user": "username", "login": "username", "name": "username", "account": "username",
	"pass": "password", "passwd": "password", "pwd": "password", "secret": "password", "token": "password", "key": "password",
	"access_token": "password", "accesstoken": "password", "apikey": "password", "authorization": "auth", "auths": "auth", "authentication": "auth",
}

func checkTokenOnly(e *authEntry) []rules.Result {
	field := "identitytoken"
	if e.stringField(field) == "" {
		field = "registrytoken"
	}
	if e.stringField(field) == "" || e.broken || e.user != "" && e.password != "" {
		return nil
	}
	return e.fieldResult(field, "use a user name and password that the registry's token server accepts",
		"%s has an %s, which kubelets ignore, but no %s", e.displayKey(), field, map[bool]string{true: "user name and password", false: "password"}[e.user == ""])
}

func checkNoUser(e *authEntry) []rules.Result {
	if e.broken || e.user != "" || e.password == "" {
		return nil
	}
	return e.fieldResult("password", "set the user name that the registry expects", "%s has a password without a user name: %s", e.displayKey(), anonymousEffect)
}

func checkNoPassword(e *authEntry) []rules.Result {
	if e.broken || e.user == "" || e.password != "" || e.hasToken() {
		return nil
	}
	return e.fieldResult("username", "set the password", "%s has a user name but no password: containerd does not send it, CRI-O sends an empty password", e.displayKey())
}

// checkControlCharacter enforces RFC 7617, section 2: user names and passwords must not
// contain control characters.
func checkControlCharacter(e *authEntry) []rules.Result {
	const fix = "encode it with printf %s instead of echo"
	for _, part := range e.parts() {
		text := part.text
		switch i := strings.IndexFunc(text, unicode.IsControl); {
		case i < 0:
		case strings.HasPrefix(e.user, "_json_key") && part.field == "password": // line feeds in a JSON key are harmless
		case strings.TrimRightFunc(text, unicode.IsControl) == text[:i]:
			return e.fieldResult(part.field, fix, "the %s for %s ends with %s, which is sent to the registry", part.name, e.displayKey(), controlCharacterName(text[i:]))
		default:
			return e.fieldResult(part.field, fix, "the %s for %s contains %s, which HTTP basic authentication does not allow", part.name, e.displayKey(), controlCharacterName(text[i:]))
		}
	}
	return nil
}

func controlCharacterName(s string) string {
	if strings.HasPrefix(s, "\r\n") {
		return "a carriage return and a line feed"
	}
	names := map[byte]string{'\n': "a line feed", '\r': "a carriage return", 0: "a NUL", '\t': "a tab"}
	return cmp.Or(names[s[0]], "a control character")
}

func checkOuterSpace(e *authEntry) []rules.Result {
	for _, part := range e.parts() {
		if text := strings.TrimFunc(part.text, unicode.IsControl); text == part.text && strings.TrimSpace(text) != text {
			return e.fieldResult(part.field, "remove the space unless it is part of the value", "the %s for %s begins or ends with a space, which is sent to the registry", part.name, e.displayKey())
		}
	}
	return nil
}

// variablePattern matches a placeholder that a shell or CI job would replace.
var variablePattern = rules.LazyRegexp(`^(\$\{?\w+\}?|\$\(.*\)|%\w+%)$`)

func checkPlaceholder(e *authEntry) []rules.Result {
	for _, part := range e.parts() {
		if part.field == "username" && dockerjson.IsLiteralUser(part.text) {
			continue
		}
		if rules.IsPlaceholder(part.text) || variablePattern().MatchString(strings.TrimSpace(part.text)) {
			return e.fieldResult(part.field, "replace the placeholder with its value", "the %s for %s looks like an unfilled placeholder", part.name, e.displayKey())
		}
	}
	return nil
}

// checkRobotName reports user names from which a shell probably removed "$NAME". Harbor's robot accounts
// are named robot$NAME or robot$PROJECT+NAME.
func checkRobotName(e *authEntry) []rules.Result {
	if e.broken || e.user != "robot" && !strings.HasPrefix(e.user, "robot+") {
		return nil
	}
	return e.fieldResult("username", "create it again with single quotes: --docker-username='robot$NAME'",
		"the user name for %s is %q, but Harbor's robot accounts are named robot$NAME: a shell expands $NAME unless it is in single quotes", e.displayKey(), dockerjson.DisplayUser(e.user))
}

func checkWrappedAuth(e *authEntry) []rules.Result {
	if e.broken || !strings.ContainsAny(e.stringField("auth"), "\r\n") {
		return nil
	}
	return e.fieldResult("auth", "encode it with base64 -w0", "the auth value for %s has line breaks, which kubelets and docker ignore but other clients might reject", e.displayKey())
}

func checkAuthWins(e *authEntry) []rules.Result {
	if e.broken || e.stringField("auth") == "" {
		return nil
	}
	for _, part := range e.parts() {
		if value := e.stringField(part.field); value != "" && value != part.text {
			v := e.fields[part.field]
			return e.config.resultAtOffset(v.Start, e.path()+"."+part.field, "remove this field, or encode auth again", "the %s for %s differs from auth, which takes precedence", part.field, e.displayKey())
		}
	}
	return nil
}

func checkEncodedPassword(e *authEntry) []rules.Result {
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(e.password))
	if err != nil || e.user == "" || !strings.HasPrefix(string(decoded), e.user+":") {
		return nil
	}
	return e.fieldResult("password", "set only the password, or move this value to auth", "the password for %s is a base64-encoded user:password pair, so the registry rejects it", e.displayKey())
}

// checkJSONKey reports passwords that are not a Google service account key in the format that the
// user name requires.
func checkJSONKey(e *authEntry) []rules.Result {
	if e.password == "" || len(checkPlaceholder(e)) > 0 {
		return nil
	}
	isPlain := json.Valid([]byte(e.password))
	switch {
	case e.user == "_json_key" && isPlain && strings.HasPrefix(strings.TrimSpace(e.password), "{"),
		e.user == "_json_key_base64" && isJSONKeyBase64(e.password),
		e.user != "_json_key" && e.user != "_json_key_base64":
		return nil
	case e.user == "_json_key" && isJSONKeyBase64(e.password):
		return e.fieldResult("password", "set the user name to _json_key_base64", "the password for %s is a base64-encoded key, but the user name _json_key requires a plain key", e.displayKey())
	case e.user == "_json_key_base64" && isPlain:
		return e.fieldResult("password", "set the user name to _json_key", "the password for %s is a plain key, but the user name _json_key_base64 requires a base64-encoded key", e.displayKey())
	}
	return e.fieldResult("password", "use the whole key file, quoted with jq -Rs .", "the password for %s is not a service account key in JSON, so the registry rejects it", e.displayKey())
}

func isJSONKeyBase64(s string) bool {
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(s))
	return err == nil && json.Valid(decoded)
}

// minLifetime is the remaining lifetime below which checkExpires reports a password.
const minLifetime = 7 * 24 * time.Hour

const renewAdvice = "create a new token, or use a credential provider"

// lifetime describes when a password expires.
type lifetime struct {
	tokenKind       string // kind of password, such as "an Amazon ECR token"
	expiry          time.Time
	typicalLifetime string // typical lifetime, for tokens without an expiry
}

// tokenLifetime returns the lifetime of a password that is an expiring token. ok is false for other
// passwords.
func tokenLifetime(user, password string) (l lifetime, ok bool) {
	password = strings.TrimSpace(password)
	switch {
	case password == "":
	case user == "AWS":
		var token struct{ Expiration int64 }
		data, err := base64.StdEncoding.DecodeString(password)
		if err == nil && json.Unmarshal(data, &token) == nil && token.Expiration > 0 {
			return lifetime{tokenKind: "an Amazon ECR token", expiry: time.Unix(token.Expiration, 0)}, true
		}
		return lifetime{tokenKind: "an Amazon ECR token", typicalLifetime: "12 hours"}, true
	case user == "oauth2accesstoken" || strings.HasPrefix(password, "ya29."):
		return lifetime{tokenKind: "a Google access token", typicalLifetime: "an hour"}, true
	case strings.HasPrefix(password, "ghs_"):
		return lifetime{tokenKind: "a GitHub job or app token", typicalLifetime: "an hour or the job's duration"}, true
	case user == "gitlab-ci-token":
		return lifetime{tokenKind: "a GitLab job token", typicalLifetime: "the job's duration"}, true
	}
	if claims, err := jwt.Parse(password); err == nil && !claims.Expires.IsZero() {
		return lifetime{tokenKind: "a JSON Web Token", expiry: claims.Expires}, true
	}
	return lifetime{}, false
}

func formatDate(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func checkExpired(e *authEntry) []rules.Result {
	l, ok := tokenLifetime(e.user, e.password)
	if !ok || l.expiry.IsZero() || l.expiry.After(e.config.now) {
		return nil
	}
	return e.fieldResult("password", renewAdvice, "the password for %s is %s that expired at %s", e.displayKey(), l.tokenKind, formatDate(l.expiry))
}

func checkExpires(e *authEntry) []rules.Result {
	l, ok := tokenLifetime(e.user, e.password)
	switch {
	case !ok || e.config.fromAPIServer || e.user == dockerjson.OpenShiftTokenUser || !l.expiry.IsZero() && (!l.expiry.After(e.config.now) || l.expiry.After(e.config.now.Add(minLifetime))):
		return nil
	case l.expiry.IsZero():
		return e.fieldResult("password", renewAdvice, "the password for %s is %s, which is valid for %s and is not renewed", e.displayKey(), l.tokenKind, l.typicalLifetime)
	}
	return e.fieldResult("password", renewAdvice, "the password for %s is %s that expires at %s and is not renewed", e.displayKey(), l.tokenKind, formatDate(l.expiry))
}
