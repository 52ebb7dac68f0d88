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
	"github.com/regcred/regcred/plugin"
)

// identity is on whose behalf a provider is asked. The zero value is nobody:
// a provider without tokenAttributes, or a pod without service account.
type identity struct {
	key         string // what keeps the answers of identities apart; "" for nobody
	annotations map[string]string
	from        *origin
	who         *Identity // for the Attempt; nil for nobody

	// pod is how to ask for the pod's token; zero for nobody, and for a token
	// that was given. Of the caller's Pod nothing else outlives the lookup.
	pod   TokenRequest
	token plugin.Secret // if it is at hand
}

// mints reports whether the plugin needs a token that is not there yet.
func (id *identity) mints() bool { return id.token.IsZero() && id.pod != TokenRequest{} }

// identify finds out on whose behalf r's provider is asked. A reason in
// skipped means that it is not asked at all. What is known of the identity is
// in id.who in any case.
func (r *runner) identify(ctx context.Context, req *Request) (id identity, skipped string, err error) {
	if r.tokens == nil {
		return identity{from: r.from}, "", nil
	}
	if !req.Token.IsZero() {
		return r.heldIdentity(req)
	}
	pod := req.Pod
	if pod == nil || pod.ServiceAccount == "" {
		if r.requiresAccount() {
			return id, "the provider requires a service account, but the request has none", nil
		}
		return identity{from: r.from}, "", nil
	}
	ref := ObjectRef{Namespace: pod.Namespace, Name: pod.ServiceAccount}
	id.who = &Identity{ServiceAccount: ref, Audience: r.tokens.ServiceAccountTokenAudience}
	account, err := r.readAccount(ctx, pod)
	if err != nil {
		return id, "", err
	}
	id.who.ServiceAccount.UID = account.UID
	if id.annotations = r.selectAnnotations(account.Annotations, id.who); id.who.Missing != "" {
		// kubelet: skipped without a word, though its documentation calls it an error.
		return id, fmt.Sprintf("service account %s/%s lacks the required annotation %q", pod.Namespace, pod.ServiceAccount, id.who.Missing), nil
	}
	return id, "", r.bePod(ctx, &id, pod)
}

func (r *runner) requiresAccount() bool {
	return r.tokens.RequireServiceAccount != nil && *r.tokens.RequireServiceAccount
}

func (r *runner) readAccount(ctx context.Context, pod *Pod) (*ServiceAccount, error) {
	if r.host.opts.ServiceAccounts == nil {
		return nil, failAt(StageServiceAccount, "service account %s/%s: access to service accounts is not configured", pod.Namespace, pod.ServiceAccount)
	}
	namespace, name := pod.Namespace, pod.ServiceAccount
	account, err := await.Result(ctx, "read", func() (*ServiceAccount, error) {
		return r.host.opts.ServiceAccounts.GetServiceAccount(ctx, namespace, name)
	})
	if err == nil && account == nil {
		err = errors.New("the service account lookup returned neither an account nor an error")
	}
	if err != nil {
		return nil, failAt(StageServiceAccount, "service account %s/%s: %w", pod.Namespace, pod.ServiceAccount, err)
	}
	return account, nil
}

// selectAnnotations returns those that the configuration lists, and tells who
// which there are; a required one that is missing ends it.
func (r *runner) selectAnnotations(all map[string]string, who *Identity) map[string]string {
	selected := map[string]string{}
	for _, key := range r.tokens.RequiredServiceAccountAnnotationKeys {
		v, ok := all[key]
		if !ok {
			who.Missing = key
			return nil
		}
		selected[key] = v
	}
	for _, key := range r.tokens.OptionalServiceAccountAnnotationKeys {
		if v, ok := all[key]; ok {
			selected[key] = v
		} else {
			who.Absent = append(who.Absent, key)
		}
	}
	who.Annotations = slices.Sorted(maps.Keys(selected))
	return selected
}

// bePod makes id that of a pod's service account. With cacheType
// ServiceAccount no token is needed to look into the cache, so none is minted
// until a plugin runs; the kubelet mints one first in any case.
func (r *runner) bePod(ctx context.Context, id *identity, pod *Pod) (err error) {
	ref := id.who.ServiceAccount
	id.from = r.originFor(&ref)
	id.pod = TokenRequest{
		Namespace: pod.Namespace, ServiceAccount: pod.ServiceAccount, ServiceAccountUID: ref.UID,
		PodName: pod.Name, PodUID: pod.UID,
		Audience: r.tokens.ServiceAccountTokenAudience,
	}
	if r.tokens.CacheType != config.CachePerToken {
		id.key, err = identityKey(&ref, id.annotations)
		return err
	}
	id.who.Token = TokenRequested
	if id.token, err = r.requestToken(ctx, id.pod); err != nil {
		return err
	}
	id.key, err = identityKey(&ref, id.annotations, "token", tokenHash(id.token))
	return err
}

// heldIdentity is the identity of a token that the caller brought along.
func (r *runner) heldIdentity(req *Request) (id identity, skipped string, err error) {
	id = identity{token: req.Token, from: r.from, who: &Identity{Audience: r.tokens.ServiceAccountTokenAudience, Token: TokenGiven}}
	if id.annotations = r.selectAnnotations(req.Annotations, id.who); id.who.Missing != "" {
		return id, fmt.Sprintf("the request lacks the required annotation %q", id.who.Missing), nil
	}
	var ref ObjectRef
	if req.Pod != nil {
		ref = ObjectRef{Namespace: req.Pod.Namespace, Name: req.Pod.ServiceAccount}
		id.who.ServiceAccount = ref
		id.from = r.originFor(&ref)
	}
	if err := r.checkAudience(req.Token); err != nil {
		return id, "", err
	}
	id.key, err = identityKey(&ref, id.annotations, "token", tokenHash(req.Token))
	return id, "", err
}

// checkAudience refuses a token that was not issued for the provider: who
// receives it could use it where it is good.
func (r *runner) checkAudience(token plugin.Secret) error {
	want := r.tokens.ServiceAccountTokenAudience
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
	return failAt(StageToken, "the request's token %s; the provider's serviceAccountTokenAudience is %q: use a token for that audience", is, want)
}

func (r *runner) originFor(account *ObjectRef) *origin {
	return &origin{r.name, Origin{Kind: FromProvider, ServiceAccount: account}}
}

func (r *runner) requestToken(ctx context.Context, req TokenRequest) (plugin.Secret, error) {
	token, err := await.Result(ctx, "request", func() (plugin.Secret, error) { return r.host.opts.ServiceAccounts.RequestToken(ctx, req) })
	r.host.observe(ctx, Event{Kind: EventToken, Provider: r.name, Err: err})
	if err == nil && token.IsZero() {
		err = errors.New("the API server returned an empty token")
	}
	if err != nil {
		return plugin.Secret{}, failAt(StageToken, "token for service account %s/%s, audience %q: %w", req.Namespace, req.ServiceAccount, req.Audience, err)
	}
	return token, nil
}

func tokenHash(token plugin.Secret) string {
	sum := sha256.Sum256([]byte(token.Reveal()))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// identityKey is what tells identities apart: the service account, the
// selected annotations with their keys sorted, and what else counts. Lengths
// stand before the fields, so that no two identities collide.
//
// kubelet: the lengths have 16 bits, and the whole is in turn a field of the
// cache key, so that a service account with longer annotations makes the
// provider fail (the API allows 256 KiB in all). The layout is the kubelet's
// (generateServiceAccountCacheKey), so that both fail at the same length.
func identityKey(ref *ObjectRef, annotations map[string]string, more ...string) (string, error) {
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
	for _, s := range more {
		add(s)
	}
	if len(b) > math.MaxUint16 {
		return "", failAt(StageServiceAccount, "with the selected annotations and the service account's name, the cache key is %d bytes long, but the kubelet's limit is %d", len(b), math.MaxUint16)
	}
	return string(b), nil
}
