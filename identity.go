// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/await"
	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/internal/spelling"
	"github.com/regcred/regcred/plugin"
)

// identity is the service account for which a provider is called. Only origin is set for a
// provider without tokenAttributes, and for a pod without a service account.
type identity struct {
	key         string // part of the cache key; "" if there is no service account or token
	annotations map[string]string
	origin      *responseOrigin
	report      *Identity // for the Attempt; may be nil

	// pod describes the token to request. It is zero if Request.Token is used. It is a
	// copy, because an exec may outlive the lookup and its Request.
	pod   TokenRequest
	token plugin.Secret // zero if no token has been requested yet
}

// needsToken reports whether a token must be requested before the plugin runs.
func (id *identity) needsToken() bool { return id.token.IsZero() && id.pod != TokenRequest{} }

// identityFor returns the identity for which r's provider is called. If the provider must not
// be called, skipped is the reason. If the request has a service account or a token, id.report
// is set even if the provider is skipped or an error is returned.
func (r *runner) identityFor(ctx context.Context, req *Request) (id identity, skipped string, err error) {
	if r.tokenAttributes == nil {
		return identity{origin: r.origin}, "", nil
	}
	if !req.Token.IsZero() {
		return r.tokenIdentity(req)
	}
	pod := req.Pod
	if pod == nil || pod.ServiceAccount == "" {
		if required := r.tokenAttributes.RequireServiceAccount; required != nil && *required {
			return id, "the provider requires a service account, but the request has none", nil
		}
		return identity{origin: r.origin}, "", nil
	}
	ref := ObjectRef{Namespace: pod.Namespace, Name: pod.ServiceAccount}
	id.report = &Identity{ServiceAccount: ref, Audience: r.tokenAttributes.ServiceAccountTokenAudience}
	account, err := r.getServiceAccount(ctx, pod)
	if err != nil {
		return id, "", err
	}
	id.report.ServiceAccount.UID = account.UID
	if id.annotations = r.selectAnnotations(account.Annotations, id.report); id.report.Missing != "" {
		// kubelet: it skips the provider silently, although the documentation calls this an
		// error.
		return id, fmt.Sprintf("service account %s/%s lacks the required annotation %q", pod.Namespace, pod.ServiceAccount, id.report.Missing), nil
	}
	return id, "", r.setPodIdentity(ctx, &id, pod)
}

func (r *runner) getServiceAccount(ctx context.Context, pod *Pod) (*ServiceAccount, error) {
	if r.env.opts.ServiceAccounts == nil {
		return nil, newStageError(StageServiceAccount, "service account %s/%s: access to service accounts is not configured", pod.Namespace, pod.ServiceAccount)
	}
	namespace, name := pod.Namespace, pod.ServiceAccount // copied, because the goroutine may outlive the lookup
	account, err := await.Call(ctx, "read", func() (*ServiceAccount, error) {
		return r.env.opts.ServiceAccounts.GetServiceAccount(ctx, namespace, name)
	})
	if err == nil && account == nil {
		err = errors.New("the service account lookup returned neither an account nor an error")
	}
	if err != nil {
		return nil, newStageError(StageServiceAccount, "service account %s/%s: %w", pod.Namespace, pod.ServiceAccount, err)
	}
	return account, nil
}

// selectAnnotations returns the annotations that the configuration lists, and records
// their keys in report. If a required annotation is missing, it sets report.Missing and
// returns nil.
func (r *runner) selectAnnotations(all map[string]string, report *Identity) map[string]string {
	selected := map[string]string{}
	for _, key := range r.tokenAttributes.RequiredServiceAccountAnnotationKeys {
		v, ok := all[key]
		if !ok {
			report.Missing, report.Similar = key, r.similarAnnotations(all, key)
			return nil
		}
		selected[key] = v
	}
	for _, key := range r.tokenAttributes.OptionalServiceAccountAnnotationKeys {
		if v, ok := all[key]; ok {
			selected[key] = v
		} else {
			report.Absent = append(report.Absent, key)
		}
	}
	report.Annotations = slices.Sorted(maps.Keys(selected))
	report.Similar = r.similarAnnotations(all, report.Absent...)
	return selected
}

// similarAnnotations returns the unused annotation that each missing key probably means, if there is one.
func (r *runner) similarAnnotations(all map[string]string, missing ...string) (similar map[string]string) {
	if len(missing) == 0 {
		return nil
	}
	used := slices.Concat(r.tokenAttributes.RequiredServiceAccountAnnotationKeys, r.tokenAttributes.OptionalServiceAccountAnnotationKeys)
	unused := slices.DeleteFunc(slices.Collect(maps.Keys(all)), func(key string) bool { return slices.Contains(used, key) })
	for _, key := range missing {
		if found := spelling.SimilarKey(key, unused); found != "" {
			if similar == nil {
				similar = map[string]string{}
			}
			similar[key] = found
		}
	}
	return similar
}

// setPodIdentity completes id for a pod's service account. With cacheType ServiceAccount, the
// cache key does not depend on the token, so the token is requested only before an exec.
//
// kubelet: it requests the token first, even if the response is cached.
func (r *runner) setPodIdentity(ctx context.Context, id *identity, pod *Pod) (err error) {
	ref := id.report.ServiceAccount
	id.origin = &responseOrigin{r.name, Origin{Kind: FromProvider, ServiceAccount: &ref}}
	id.pod = TokenRequest{
		Namespace: pod.Namespace, ServiceAccount: pod.ServiceAccount, ServiceAccountUID: ref.UID,
		PodName: pod.Name, PodUID: pod.UID,
		Audience: r.tokenAttributes.ServiceAccountTokenAudience,
	}
	if r.tokenAttributes.CacheType != config.CachePerToken {
		id.key, err = identityKey(&ref, id.annotations)
		return err
	}
	id.report.Token = TokenRequested
	if id.token, err = r.requestToken(ctx, id.pod); err != nil {
		return err
	}
	id.key, err = identityKey(&ref, id.annotations, "token", hashToken(id.token))
	return err
}

// tokenIdentity returns the identity of Request.Token.
func (r *runner) tokenIdentity(req *Request) (id identity, skipped string, err error) {
	id = identity{token: req.Token, origin: r.origin, report: &Identity{Audience: r.tokenAttributes.ServiceAccountTokenAudience, Token: TokenGiven}}
	if id.annotations = r.selectAnnotations(req.Annotations, id.report); id.report.Missing != "" {
		return id, fmt.Sprintf("the request lacks the required annotation %q", id.report.Missing), nil
	}
	var ref ObjectRef
	if req.Pod != nil {
		ref = ObjectRef{Namespace: req.Pod.Namespace, Name: req.Pod.ServiceAccount}
		id.report.ServiceAccount = ref
		id.origin = &responseOrigin{r.name, Origin{Kind: FromProvider, ServiceAccount: &ref}}
	}
	if err := r.checkAudience(req.Token); err != nil {
		return id, "", err
	}
	id.key, err = identityKey(&ref, id.annotations, "token", hashToken(req.Token))
	return id, "", err
}

// checkAudience rejects a token that was not issued for the provider's
// serviceAccountTokenAudience. Otherwise the provider could use the token for another service.
func (r *runner) checkAudience(token plugin.Secret) error {
	want := r.tokenAttributes.ServiceAccountTokenAudience
	claims, err := jwt.Parse(token.Reveal())
	var is string
	switch {
	case err != nil:
		is = "is not a JSON Web Token, so its audience is unknown"
	case slices.Contains(claims.Audience, want):
		return nil
	case len(claims.Audience) == 0:
		is = "has no audience"
	default:
		is = fmt.Sprintf("has the audiences %.100q", claims.Audience[:min(len(claims.Audience), 5)])
	}
	return newStageError(StageToken, "the request's token %s; the provider's serviceAccountTokenAudience is %q: use a token for that audience", is, want)
}

func (r *runner) requestToken(ctx context.Context, req TokenRequest) (plugin.Secret, error) {
	token, err := await.Call(ctx, "request", func() (plugin.Secret, error) { return r.env.opts.ServiceAccounts.RequestToken(ctx, req) })
	r.env.emit(ctx, Event{Kind: EventToken, Provider: r.name, Err: err})
	if err == nil && token.IsZero() {
		err = errors.New("the API server returned an empty token")
	}
	if err != nil {
		return plugin.Secret{}, newStageError(StageToken, "token for service account %s/%s, audience %q: %w", req.Namespace, req.ServiceAccount, req.Audience, err)
	}
	return token, nil
}

func hashToken(token plugin.Secret) string {
	sum := sha256.Sum256([]byte(token.Reveal()))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// identityKey encodes the service account, the annotations sorted by key, and the strings in
// further. Each string is preceded by its length, so that different identities have different
// keys.
//
// kubelet: lengths have 16 bits, and the length of this key is encoded in the same way. So a
// provider fails for a service account with longer annotations (the API allows 256 KiB). The
// layout is the same as in the kubelet (generateServiceAccountCacheKey), so that both fail at
// the same length.
func identityKey(ref *ObjectRef, annotations map[string]string, further ...string) (string, error) {
	var b []byte
	add := func(s string) {
		b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
		b = append(b, s...)
	}
	add(ref.Namespace)
	add(ref.Name)
	add(ref.UID)
	b = binary.BigEndian.AppendUint32(b, uint32(len(annotations)))
	for _, k := range slices.Sorted(maps.Keys(annotations)) {
		add(k)
		add(annotations[k])
	}
	for _, s := range further {
		add(s)
	}
	if len(b) > math.MaxUint16 {
		return "", newStageError(StageServiceAccount, "with the selected annotations and the service account's name, the cache key is %d bytes long, but the kubelet's limit is %d", len(b), math.MaxUint16)
	}
	return string(b), nil
}
