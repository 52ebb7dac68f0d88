// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package probe

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/internal/login"
	"github.com/regcred/regcred/internal/platform"
	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/internal/route"
	"github.com/regcred/regcred/internal/terminal"
)

// tryCredentials requests the manifest with each credential until one is accepted.
func (a *session) tryCredentials(ctx context.Context, creds []regcred.Credential) {
	from := len(a.result.Steps)
	shown := a.usableCredentials(creds)
	for i := range max(len(shown), 1) {
		var cred *regcred.Credential
		if len(shown) > 0 {
			cred = &shown[i]
		}
		if ctx.Err() != nil {
			a.addFailedStep(StepManifest, "", "%s: %v", login.FailedAttempt{Credential: cred}.CredentialText(), ContextCause(ctx))
			return
		}
		if a.requestToken(ctx, cred) && a.requestManifest(ctx, cred) {
			a.recordAccepted(from, i, shown)
			return
		}
	}
	a.markUntested(from, len(shown) > 0)
}

// usableCredentials returns the credentials that the runtime would send to the host.
func (a *session) usableCredentials(creds []regcred.Credential) []regcred.Credential {
	if a.result.Challenge != nil && (a.hop.Credential == route.CredentialKubelet || a.hop.Credential == route.CredentialHeader) {
		return creds
	}
	return nil
}

// recordAccepted records the accepted credential. Earlier failures become warnings.
func (a *session) recordAccepted(from, i int, shown []regcred.Credential) {
	a.result.CanPull = true
	for j := range a.result.Steps[from:] {
		if s := &a.result.Steps[from+j]; s.Severity == finding.SeverityError {
			s.Severity = finding.SeverityWarning
		}
	}
	if len(shown) == 0 {
		return
	}
	a.result.Accepted = i
	for j := i + 1; j < len(shown); j++ {
		a.addStep(StepManifest, finding.SeveritySkipped, "", "%s: not tried, because the previous credential was accepted", login.FailedAttempt{Credential: &shown[j]}.CredentialText())
	}
}

// requestToken requests a token if the registry requires one.
func (a *session) requestToken(ctx context.Context, cred *regcred.Credential) bool {
	if a.plainRealm && cred != nil && cred.Username != "" {
		a.result.Untested = "the password over plain HTTP to " + singleLine(a.tokens.realm.Host)
		a.addStep(StepToken, finding.SeverityWarning, plainRealmFix, "%s: not tested: %s sends %s, which regcred does not", login.FailedAttempt{Credential: cred}.CredentialText(), a.runtimeName(), a.result.Untested)
		return false
	}
	session, err := a.logIn(ctx, cred)
	if err != nil {
		return a.addTokenError(ctx, cred, err)
	}
	a.loginSession = session
	who := login.FailedAttempt{Credential: cred}.CredentialText()
	if what, fix := a.tokens.missingTokenProblem(); what != "" {
		return a.addFailedStep(StepToken, fix, "%s: %s", who, what)
	}
	c := a.result.Challenge
	if c == nil || c.Scheme != "Bearer" {
		return true
	}
	if missingAccess := a.missingAccessText(); missingAccess != "" {
		a.addStep(StepToken, finding.SeverityWarning, a.statusFix(http.StatusForbidden, cred), "%s: %s issued a token that does not grant access to this image: %s", who, a.tokens.realm.Host, missingAccess)
	} else {
		a.addStep(StepToken, finding.SeverityOK, "", "%s: %s issues a token", who, a.tokens.realm.Host)
	}
	return true
}

func (a *session) logIn(ctx context.Context, cred *regcred.Credential) (*login.Session, error) {
	ctx, cancel := a.withStepTimeout(ctx)
	defer cancel()
	if a.anonymousResponse.StatusCode != http.StatusOK && a.result.Challenge == nil {
		return nil, nil // no credential is required
	}
	session, err := a.registry.Login(ctx, cred)
	if err != nil {
		err = a.timeoutCause(ctx, err)
	}
	return session, err
}

// addTokenError reports why no token was issued. If the token server cannot be reached, it
// reports the step that failed.
func (a *session) addTokenError(ctx context.Context, cred *regcred.Credential, err error) bool {
	try := login.NewFailedAttempt(cred, err, a.registry.Secrets)
	realm := a.tokens.realm
	ownRealm := realm != nil && hostPort(realm) == hostPort(&a.base)
	if try.Status == 0 && realm != nil && a.tokens.status == 0 && !errors.Is(err, login.ErrIncompleteCredential) && !ownRealm {
		a.messagePrefix = "token server " + singleLine(realm.Host) + ": "
		reached := a.openConnection(ctx, realm)
		a.messagePrefix = ""
		if !reached {
			return false
		}
	}
	fix := ""
	what, look := a.tokens.missingTokenProblem()
	switch {
	case errors.Is(err, login.ErrIncompleteCredential):
		fix = "add the missing user name or password where the credential is stored (the pull secret or the provider's source)"
	case try.Status == 0 && what != "":
		return a.addFailedStep(StepToken, look, "%s: %s", try.CredentialText(), what)
	case errors.Is(err, login.ErrBadToken):
		fix = fmt.Sprintf("correct the token server's response: %s cannot decode it", a.runtimeName())
	case try.Status != 0:
		fix = a.statusFix(try.Status, cred)
		if a.tokens.method == http.MethodPost && a.Runtime.Name == "containerd" {
			fix = strings.TrimPrefix(fix+"; ", "; ") + "this is the response to POST, which containerd sends first; containerd tries GET only if POST returns 400, 401, 404 or 405"
		}
	}
	if isTimeout(err) && realm != nil {
		return a.addFailedStep(StepToken, "check the token server's log: it accepts connections but does not respond", "%s: the token server %s: %v", try.CredentialText(), singleLine(realm.Host), err)
	}
	return a.addFailedStep(StepToken, fix, "%s: %s", try.CredentialText(), strings.TrimPrefix(try.Err.Error(), "login: "))
}

// missingAccessText explains why a token does not grant access to the image. It returns "" if
// the token grants access or cannot be parsed.
func (a *session) missingAccessText() string {
	given, access := a.tokens.tokenFields()
	for _, token := range []string{access, given} {
		claims, err := jwt.Parse(token)
		if err != nil || claims.Access == nil {
			continue
		}
		var granted []string
		for _, g := range claims.Access {
			if g.Type == "repository" && g.Name == a.hop.Repository && (slices.Contains(g.Actions, "pull") || slices.Contains(g.Actions, "*")) {
				return ""
			}
			granted = append(granted, fmt.Sprintf("%s:%s:%s", g.Type, g.Name, strings.Join(g.Actions, ",")))
		}
		if granted == nil {
			return "it grants nothing"
		}
		return "it grants " + singleLine(login.Truncate(strings.Join(granted, " "), 300))
	}
	return ""
}

// requestManifest requests the manifest using the current session.
func (a *session) requestManifest(ctx context.Context, cred *regcred.Credential) bool {
	var rt http.RoundTripper = a.registry
	if a.loginSession != nil {
		rt = a.loginSession
	}
	try := login.FailedAttempt{Credential: cred}
	got, err := a.sendRequest(ctx, rt, http.MethodHead, a.manifestURL(), 0)
	if err == nil && got.StatusCode >= 400 && got.StatusCode != http.StatusUnauthorized {
		// Send GET as well, because a HEAD response has no body with the reason. After a 401,
		// do not send a wrong password twice.
		head := got.StatusCode
		if got, err = a.sendRequest(ctx, rt, http.MethodGet, a.manifestURL(), maxManifestSize); err == nil && got.StatusCode == http.StatusOK && head != http.StatusMethodNotAllowed {
			a.result.Status = head
			return a.addFailedStep(StepManifest, "check the proxy in front of the registry: it allows GET but not HEAD, which runtimes send first",
				"%s: HEAD returned HTTP %d, but GET returned 200", try.CredentialText(), head)
		}
	}
	switch {
	case errors.Is(err, login.ErrIncompleteCredential):
		return a.addTokenError(ctx, cred, errors.Unwrap(err))
	case err != nil:
		return a.addFailedStep(StepManifest, checkRegistryLogFix, "%s: %s", try.CredentialText(), a.redactedText(ctx, err))
	}
	a.result.Status = got.StatusCode
	if got.StatusCode != http.StatusOK {
		return a.addManifestError(cred, got)
	}
	return a.checkManifest(ctx, rt, try.CredentialText(), got)
}

// addManifestError reports a status other than 200.
func (a *session) addManifestError(cred *regcred.Credential, got serverResponse) bool {
	try := login.NewFailedAttempt(cred, got.registryError(), a.registry.Secrets)
	text := try.Err.Error()
	if i := strings.Index(text, "HTTP "); i > 0 {
		text = text[i:]
	}
	switch {
	case got.StatusCode == http.StatusNotFound && a.Image.Digest != "":
		text = a.hop.Repository + "@" + a.Image.Digest + ": " + text
	case got.StatusCode == http.StatusNotFound:
		text = a.hop.Repository + ":" + a.Image.tagOrDigest() + ": " + text
	}
	fix := a.statusFix(got.StatusCode, cred)
	if c := a.result.Challenge; c != nil && c.Scheme == "Bearer" && cred != nil && got.StatusCode == http.StatusUnauthorized {
		// A token was issued, so the password is correct.
		text = strings.TrimSuffix(text, " ("+try.Hint()+")") + fmt.Sprintf(", although the token server %s issued a token", a.tokens.realm.Host)
		if statusHints(registry.HostOwner(a.base.Hostname()))[got.StatusCode] == "" {
			fix = fmt.Sprintf("allow the user to pull %s; if every user is refused, check that the registry and token server have the same service, issuer and key, and that their clocks agree", a.hop.Repository)
		}
	}
	return a.addFailedStep(StepManifest, fix+retryAfterText(got), "%s: %s", try.CredentialText(), text)
}

// markUntested replaces the failures of the steps after from if the host rejected the request, but
// the runtime sends a credential from its own files, which regcred does not read.
func (a *session) markUntested(from int, withCredentials bool) {
	own := ""
	switch a.hop.Credential {
	case route.CredentialRuntime:
		own = fmt.Sprintf("its own credential (%s)", cmp.Or(a.hop.CredentialPlace(), a.hop.File))
	case route.CredentialHeader:
		own = fmt.Sprintf("the Authorization header from %s:%d", a.hop.File, max(a.hop.Line, 1))
	}
	status := a.result.Status
	if status == 0 && a.tokens != nil {
		status = a.tokens.status
	}
	rejected := slices.Contains([]int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound}, status)
	if own == "" || a.result.Challenge == nil || !rejected {
		return
	}
	steps := a.result.Steps[from:]
	if !withCredentials {
		steps = slices.DeleteFunc(steps, func(f finding.Finding) bool { return f.Severity == finding.SeverityError })
		a.result.Steps = a.result.Steps[:from+len(steps)]
	}
	for i := range steps {
		if steps[i].Severity == finding.SeverityError {
			steps[i].Severity = finding.SeverityWarning
		}
	}
	a.result.Untested = own
	a.addStep(StepManifest, finding.SeveritySkipped, "", "%s sends %s, which regcred did not test", a.runtimeName(), own)
}

// retryAfterText returns how long a server requests to wait, or "".
func retryAfterText(got serverResponse) string {
	if after, ok := remote.RetryAfter(got.Header, time.Now()); ok && after > 0 {
		return fmt.Sprintf("; retry after %s", terminal.FormatDuration(after))
	}
	return ""
}

// checkManifest checks the manifest, and the platforms of an index.
func (a *session) checkManifest(ctx context.Context, rt http.RoundTripper, who string, got serverResponse) bool {
	a.result.Digest, a.result.MediaType = singleLine(login.Truncate(got.Header.Get("Docker-Content-Digest"), 200)), singleLine(login.Truncate(got.Header.Get("Content-Type"), 200))
	if isWebPage(got) {
		return a.addFailedStep(StepManifest, "check the host, port and path", "%s: the response is a web page, not a manifest", who)
	}
	what := a.Image.tagOrDigest() + " exists"
	if a.result.Digest != "" && a.result.Digest != a.Image.Digest {
		what += ", " + a.result.Digest
	}
	kind := types.MediaType(a.result.MediaType)
	if kind.IsImage() && a.result.Digest != "" && a.Image.Digest == "" {
		a.addStep(StepManifest, finding.SeverityOK, "", "%s: accepted; %s", who, what)
		return true // some registries would count another GET as a pull
	}
	body, err := a.sendRequest(ctx, rt, http.MethodGet, a.manifestURL(), maxManifestSize)
	switch {
	case err != nil:
		return a.addFailedStep(StepManifest, checkRegistryLogFix, "%s: %s, but the manifest cannot be read: %s", who, what, a.redactedText(ctx, err))
	case body.StatusCode != http.StatusOK:
		return a.addFailedStep(StepManifest, checkRegistryLogFix, "%s: %s; HEAD returned HTTP 200, but GET returned HTTP %d", who, what, body.StatusCode)
	case isWebPage(body), schemaVersion(body.body) <= 0:
		return a.addFailedStep(StepManifest, "check the host, port and path, and any proxy in front of the registry", "%s: the response is not a manifest", who)
	}
	if got := contentDigest(a.Image.Digest, body.body); got != a.Image.Digest {
		a.result.Digest = got
		return a.addFailedStep(StepManifest, "check why the host serves another image: a wrong mirror, or a proxy that changes manifests",
			"%s: %s was requested, but the content that %s returned has the digest %s, so %s rejects it", who, a.Image.Digest, a.base.Host, got, a.runtimeName())
	}
	readsSchema1 := a.registry.Runtime == login.ContainersImage && schemaVersion(body.body) == 1
	if kind, err = platform.MediaType(body.Header.Get("Content-Type"), body.body); err != nil && !readsSchema1 {
		return a.addFailedStep(StepManifest, fmt.Sprintf("push the image again with a newer tool, because %s cannot pull it", a.runtimeName()), "%s: %s, but %s", who, what, singleLine(err.Error()))
	}
	if kind.IsIndex() && a.Platform != "" {
		a.result.Platforms = indexPlatforms(body.body)
		if err := a.selectImage(ctx, rt, kind, body.body); err != nil {
			if _, missing := errors.AsType[*platform.NoImageError](err); missing {
				return a.addFailedStep(StepManifest, "build or mirror the image for "+a.Platform+" too", "%s: %s, but there is %s", who, what, a.redactedText(ctx, err))
			}
			return a.addFailedStep(StepManifest, checkRegistryLogFix, "%s: %s, but the index cannot be read: %s", who, what, a.redactedText(ctx, err))
		}
		what += ", for " + a.Platform
	}
	a.addStep(StepManifest, finding.SeverityOK, "", "%s: accepted; %s", who, what)
	return true
}

// selectImage returns an error if the runtime finds no image for the platform in an index.
func (a *session) selectImage(ctx context.Context, rt http.RoundTripper, kind types.MediaType, index []byte) error {
	want, err := v1.ParsePlatform(a.Platform)
	if err != nil {
		return err
	}
	rules := platform.Containerd
	if a.registry.Runtime == login.ContainersImage {
		rules = platform.ContainersImage
	}
	_, err = rules.Select(ctx, v1.Descriptor{MediaType: kind}, *want, &indexSource{a, rt, index})
	return err
}

// indexSource reads what an index lists.
type indexSource struct {
	session *session
	rt      http.RoundTripper
	top     []byte // the index with the empty digest
}

// Index implements [platform.Source].
func (i *indexSource) Index(ctx context.Context, d v1.Descriptor) ([]v1.Descriptor, error) {
	raw := i.top
	if d.Digest != (v1.Hash{}) {
		var err error
		if raw, err = i.get(ctx, "manifests", d.Digest); err != nil {
			return nil, err
		}
	}
	var index v1.IndexManifest
	err := json.Unmarshal(raw, &index)
	return index.Manifests, err
}

// ConfigPlatform implements [platform.Source].
func (i *indexSource) ConfigPlatform(ctx context.Context, d v1.Descriptor) (have v1.Platform, err error) {
	raw, err := i.get(ctx, "manifests", d.Digest)
	var image v1.Manifest
	if err == nil {
		err = json.Unmarshal(raw, &image)
	}
	if err == nil {
		raw, err = i.get(ctx, "blobs", image.Config.Digest)
	}
	if err == nil {
		err = json.Unmarshal(raw, &have)
	}
	return have, err
}

func (i *indexSource) get(ctx context.Context, kind string, digest v1.Hash) ([]byte, error) {
	got, err := i.session.sendRequest(ctx, i.rt, http.MethodGet, i.session.contentURL(kind, digest.String()), maxManifestSize)
	switch {
	case err != nil:
		return nil, err
	case got.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s/%s: HTTP %d", kind, digest, got.StatusCode)
	case contentDigest(digest.String(), got.body) != digest.String():
		return nil, fmt.Errorf("%s/%s: the registry sent other content", kind, digest)
	}
	return got.body, nil
}

// contentDigest returns the digest of a manifest, with the algorithm of want. It returns want if the
// algorithm is unknown or want is empty.
func contentDigest(want string, manifest []byte) string {
	switch algorithm, _, _ := strings.Cut(want, ":"); algorithm {
	case "sha256":
		return fmt.Sprintf("sha256:%x", sha256.Sum256(manifest))
	case "sha384":
		return fmt.Sprintf("sha384:%x", sha512.Sum384(manifest))
	case "sha512":
		return fmt.Sprintf("sha512:%x", sha512.Sum512(manifest))
	}
	return want
}

// schemaVersion returns the schema version of a manifest, or 0 if the body is not a manifest.
func schemaVersion(body []byte) int {
	var doc struct {
		Version int `json:"schemaVersion"`
	}
	if json.Unmarshal(body, &doc) != nil {
		return 0
	}
	return doc.Version
}

// maxPlatforms limits how many platforms of an index are read.
const maxPlatforms = 100

// indexPlatforms returns the platforms of an index.
func indexPlatforms(index []byte) (list []string) {
	var doc struct {
		Manifests []struct {
			Platform struct {
				OS   string `json:"os"`
				Arch string `json:"architecture"`
			} `json:"platform"`
		} `json:"manifests"`
	}
	json.Unmarshal(index, &doc)
	for _, m := range doc.Manifests[:min(len(doc.Manifests), maxPlatforms)] {
		p := singleLine(login.Truncate(m.Platform.OS+"/"+m.Platform.Arch, 40))
		if p != "/" && p != "unknown/unknown" && !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	return list
}

// statusFix returns the fix for a status. It depends on the registry, because some registries
// hide images from users without access.
func (a *session) statusFix(status int, cred *regcred.Credential) string {
	switch {
	case status == http.StatusTooManyRequests:
		return "if pulls are anonymous, use a credential; otherwise, pull less often or use a mirror"
	case status >= 500:
		return "try again later, or contact the registry's operator"
	case status != http.StatusUnauthorized && status != http.StatusForbidden && status != http.StatusNotFound:
		return ""
	case cred == nil && status != http.StatusNotFound:
		return "no credential was found: add a pull secret to the pod, or add a matchImages pattern for this image to a provider"
	}
	if status == http.StatusUnauthorized && cred != nil && (cred.Username == "robot" || strings.HasPrefix(cred.Username, "robot+")) {
		return "use the robot account's full name, which starts with robot$ in Harbor; single-quote it, because an unquoted shell expands $NAME"
	}
	if text := statusHints(registry.HostOwner(a.base.Hostname()))[status]; text != "" {
		return text
	}
	switch status {
	case http.StatusUnauthorized:
		text := "correct the user name and password where they are stored (the pull secret or the provider's source)"
		if cred.Provider == "" {
			text += "; in a shell, single-quote values that contain $"
		}
		return text
	case http.StatusForbidden:
		return "allow this user to pull " + a.hop.Repository
	}
	return "check the name and the tag; some registries also respond with 404 if the user is not allowed to pull"
}

// statusHints returns hints for statuses with a special meaning in the registry service of
// the given owner.
func statusHints(owner string) map[int]string {
	google := map[int]string{
		http.StatusForbidden: "Google also returns this status for a missing repository: check its name, and grant roles/artifactregistry.reader to the account",
	}
	return map[string]map[int]string{
		"Docker Hub": {
			http.StatusUnauthorized: "Docker Hub also returns this status for a missing repository: check the repository name, the user, and the access token's read permission",
		},
		"Amazon ECR": {
			http.StatusForbidden: "ECR: allow ecr:BatchGetImage and ecr:GetDownloadUrlForLayer in the node role's policy and, for cross-account pulls, also in the repository policy; tokens expire after 12 hours",
			http.StatusNotFound:  "ECR: the repository or tag does not exist in this account and region",
		},
		"Google Artifact Registry":  google,
		"Google Container Registry": google,
		"Azure Container Registry": {
			http.StatusUnauthorized: "ACR also returns this status for a missing repository: check its name, and grant AcrPull to the identity",
		},
		"GitHub Packages": {
			http.StatusForbidden: "GitHub: the token needs the read:packages scope, its user needs access to the package, and an organization with SSO must authorize the token",
			http.StatusNotFound:  "GitHub also returns this status for packages that the user is not allowed to see",
		},
		"Quay.io": {
			http.StatusUnauthorized: "Quay also returns this status if the repository does not exist or this robot account is not allowed to read it",
		},
	}[owner]
}
