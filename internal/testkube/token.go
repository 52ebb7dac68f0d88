// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testkube

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/regcred/regcred/plugin"
)

// serveToken implements the TokenRequest API.
func (s *Server) serveToken(w http.ResponseWriter, r *http.Request, req Request) {
	var tr authenticationv1.TokenRequest
	if !readJSON(w, r, &tr) {
		return
	}
	s.mu.Lock()
	s.recordTokenRequest(req, &tr)
	refused := s.issueToken(req, &tr)
	s.mu.Unlock()
	if refused != nil {
		writeError(w, refused)
		return
	}
	writeJSON(w, http.StatusCreated, tr)
}

func (s *Server) recordTokenRequest(req Request, tr *authenticationv1.TokenRequest) {
	entry := &s.requestLog[req.logIndex]
	entry.AccountUID, entry.Audiences = string(tr.UID), tr.Spec.Audiences
	entry.ExpirationSeconds = tr.Spec.ExpirationSeconds
	if ref := tr.Spec.BoundObjectRef; ref != nil {
		entry.BoundKind, entry.BoundName, entry.BoundUID = ref.APIVersion+"/"+ref.Kind, ref.Name, string(ref.UID)
	}
}

// issueToken sets the token in tr. It performs its checks in the same order as the real API
// server.
func (s *Server) issueToken(req Request, tr *authenticationv1.TokenRequest) *apierrors.StatusError {
	account := s.getServiceAccount(req.Namespace, req.Name)
	if account == nil {
		return notFound("serviceaccounts", req.Name)
	}
	if tr.UID != "" && tr.UID != account.UID {
		return apierrors.NewConflict(schema.GroupResource{Group: "authentication.k8s.io", Resource: "TokenRequest"}, req.Name,
			fmt.Errorf("the UID in the token request (%s) does not match the UID of the service account (%s)", tr.UID, account.UID))
	}
	if why := s.checkNodeRestriction(req, tr); why != "" {
		return newForbiddenError(req, why)
	}
	var pod *corev1.Pod
	if ref := tr.Spec.BoundObjectRef; ref != nil {
		if pod = s.getPod(req.Namespace, ref.Name); pod == nil {
			return notFound("pods", ref.Name)
		}
		if refused := checkTokenBinding(account, pod, ref.UID); refused != nil {
			return refused
		}
	}
	s.setTokenStatus(tr, account, pod)
	s.requestLog[req.logIndex].Token = plugin.NewSecret(tr.Status.Token)
	return nil
}

// checkTokenBinding returns an error if a token of the service account cannot be bound to
// the pod.
func checkTokenBinding(account *corev1.ServiceAccount, pod *corev1.Pod, uid types.UID) *apierrors.StatusError {
	switch {
	case pod.Spec.ServiceAccountName != account.Name:
		return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", account.Name))
	case uid != "" && uid != pod.UID:
		return apierrors.NewConflict(schema.GroupResource{Resource: "Pod"}, pod.Name,
			fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", uid))
	}
	return nil
}

// checkNodeRestriction returns the error message of the NodeRestriction admission plugin,
// or "". Unlike the real plugin, it does not check which node a pod runs on. s.mu must be
// held.
func (s *Server) checkNodeRestriction(req Request, tr *authenticationv1.TokenRequest) string {
	audience := ""
	if len(tr.Spec.Audiences) > 0 {
		audience = tr.Spec.Audiences[0]
	}
	asked := Request{User: req.User, Verb: AudienceVerb, Resource: audience}
	if _, isNode := nodeNameOfUser(req.User); !isNode {
		return ""
	}
	if tr.Spec.BoundObjectRef == nil {
		return "node requested token not bound to a pod"
	}
	if ok, _ := s.checkAllowed(asked); !ok {
		return fmt.Sprintf("audience %q not found in pod spec volume, %s is not authorized to request tokens for this audience", audience, req.User)
	}
	return ""
}

// setTokenStatus fills in the metadata and the status of tr, with a new token that is
// unique.
func (s *Server) setTokenStatus(tr *authenticationv1.TokenRequest, account *corev1.ServiceAccount, pod *corev1.Pod) {
	now := time.Now()
	seconds := int64(s.opts.TokenLifetime / time.Second)
	if tr.Spec.ExpirationSeconds != nil {
		seconds = *tr.Spec.ExpirationSeconds
	}
	expires := now.Add(time.Duration(seconds) * time.Second)
	s.tokenCount++
	claims := map[string]any{
		"iss": "https://testkube", "sub": "system:serviceaccount:" + account.Namespace + ":" + account.Name,
		"aud": tr.Spec.Audiences, "iat": now.Unix(), "nbf": now.Unix(), "exp": expires.Unix(),
		"jti":           fmt.Sprint(s.opts.Secret, "-", s.tokenCount),
		"kubernetes.io": boundObjectClaims(account, pod),
	}
	tr.TypeMeta = typeMeta("authentication.k8s.io/v1", "TokenRequest")
	tr.ObjectMeta = metav1.ObjectMeta{Name: account.Name, Namespace: account.Namespace, UID: account.UID, CreationTimestamp: metav1.NewTime(now)}
	tr.Spec.ExpirationSeconds = &seconds
	tr.Status = authenticationv1.TokenRequestStatus{Token: encodeJWT(claims), ExpirationTimestamp: metav1.NewTime(expires)}
}

func boundObjectClaims(account *corev1.ServiceAccount, pod *corev1.Pod) map[string]any {
	named := func(o metav1.Object) map[string]any {
		return map[string]any{"name": o.GetName(), "uid": o.GetUID()}
	}
	bound := map[string]any{"namespace": account.Namespace, "serviceaccount": named(account)}
	if pod != nil {
		bound["pod"] = named(pod)
		bound["node"] = map[string]any{"name": pod.Spec.NodeName}
	}
	return bound
}

// encodeJWT returns a JSON Web Token with an invalid signature.
func encodeJWT(claims map[string]any) string {
	payload, _ := json.Marshal(claims) // strings and numbers
	enc := base64.RawURLEncoding.EncodeToString
	signed := enc([]byte(`{"alg":"RS256","kid":"testkube"}`)) + "." + enc(payload)
	sum := sha256.Sum256([]byte(signed))
	return signed + "." + enc(sum[:])
}
