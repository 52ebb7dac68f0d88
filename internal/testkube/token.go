// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testkube

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/regcred/regcred/plugin"
)

// refusal is an error response to a token request.
type refusal struct {
	code    int
	reason  metav1.StatusReason
	message string
	details *metav1.StatusDetails
}

// serveToken implements the TokenRequest API.
func (s *Server) serveToken(w http.ResponseWriter, r *http.Request, req Request) {
	var tr authenticationv1.TokenRequest
	if !readJSON(w, r, &tr) {
		return
	}
	s.mu.Lock()
	s.noteToken(req, &tr)
	refused := s.mint(req, &tr)
	s.mu.Unlock()
	if refused != nil {
		writeStatus(w, refused.code, refused.reason, refused.message, refused.details)
		return
	}
	writeJSON(w, http.StatusCreated, tr)
}

// noteToken adds the request's body to the log.
func (s *Server) noteToken(req Request, tr *authenticationv1.TokenRequest) {
	entry := &s.log[req.index]
	entry.AccountUID, entry.Audiences = string(tr.UID), tr.Spec.Audiences
	entry.ExpirationSeconds = tr.Spec.ExpirationSeconds
	if ref := tr.Spec.BoundObjectRef; ref != nil {
		entry.BoundKind, entry.BoundName, entry.BoundUID = ref.APIVersion+"/"+ref.Kind, ref.Name, string(ref.UID)
	}
}

// mint issues the token. It performs checks in the same order as the real server.
func (s *Server) mint(req Request, tr *authenticationv1.TokenRequest) *refusal {
	account := s.account(req.Namespace, req.Name)
	if account == nil {
		return missing("serviceaccounts", req.Name)
	}
	if tr.UID != "" && tr.UID != account.UID {
		return conflict("TokenRequest", "authentication.k8s.io", req.Name,
			fmt.Sprintf("the UID in the token request (%s) does not match the UID of the service account (%s)", tr.UID, account.UID))
	}
	if why := s.nodeRestriction(req, tr); why != "" {
		return &refusal{http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf("serviceaccounts %q is forbidden: %s", req.Name, why),
			&metav1.StatusDetails{Name: req.Name, Kind: "serviceaccounts"}}
	}
	var pod *corev1.Pod
	if ref := tr.Spec.BoundObjectRef; ref != nil {
		if pod = s.pod(req.Namespace, ref.Name); pod == nil {
			return missing("pods", ref.Name)
		}
		if refused := binds(account, pod, ref.UID); refused != nil {
			return refused
		}
	}
	s.sign(tr, account, pod)
	s.log[req.index].Token = plugin.NewSecret(tr.Status.Token)
	return nil
}

func missing(resource, name string) *refusal {
	return &refusal{http.StatusNotFound, metav1.StatusReasonNotFound, resource + " " + strconv.Quote(name) + " not found",
		&metav1.StatusDetails{Name: name, Kind: resource}}
}

func conflict(kind, group, name, why string) *refusal {
	qualified := kind
	if group != "" {
		qualified += "." + group
	}
	return &refusal{http.StatusConflict, metav1.StatusReasonConflict,
		fmt.Sprintf("Operation cannot be fulfilled on %s %q: %s", qualified, name, why),
		&metav1.StatusDetails{Name: name, Group: group, Kind: kind}}
}

// binds returns why a token cannot be bound to a pod, or "" if it can.
func binds(account *corev1.ServiceAccount, pod *corev1.Pod, uid types.UID) *refusal {
	switch {
	case pod.Spec.ServiceAccountName != account.Name:
		return &refusal{http.StatusBadRequest, metav1.StatusReasonBadRequest,
			fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", account.Name), nil}
	case uid != "" && uid != pod.UID:
		return conflict("Pod", "", pod.Name,
			fmt.Sprintf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", uid))
	}
	return nil
}

// nodeRestriction returns the error of the NodeRestriction admission plugin. Unlike the
// real plugin, it does not check which node a pod runs on. s.mu must be held.
func (s *Server) nodeRestriction(req Request, tr *authenticationv1.TokenRequest) string {
	audience := ""
	if len(tr.Spec.Audiences) > 0 {
		audience = tr.Spec.Audiences[0]
	}
	asked := Request{User: req.User, Verb: AudienceVerb, Resource: audience}
	if _, isNode := nodeName(req.User); !isNode {
		return ""
	}
	if tr.Spec.BoundObjectRef == nil {
		return "node requested token not bound to a pod"
	}
	if ok, _ := s.allowed(asked); !ok {
		return fmt.Sprintf("audience %q not found in pod spec volume, %s is not authorized to request tokens for this audience", audience, req.User)
	}
	return ""
}

// sign sets metadata and status. Each token is unique.
func (s *Server) sign(tr *authenticationv1.TokenRequest, account *corev1.ServiceAccount, pod *corev1.Pod) {
	now := time.Now()
	seconds := int64(s.opts.TokenLife / time.Second)
	if tr.Spec.ExpirationSeconds != nil {
		seconds = *tr.Spec.ExpirationSeconds
	}
	expires := now.Add(time.Duration(seconds) * time.Second)
	s.minted++
	claims := map[string]any{
		"iss": "https://testkube", "sub": "system:serviceaccount:" + account.Namespace + ":" + account.Name,
		"aud": tr.Spec.Audiences, "iat": now.Unix(), "nbf": now.Unix(), "exp": expires.Unix(),
		"jti":           fmt.Sprint(s.opts.Secret, "-", s.minted),
		"kubernetes.io": boundTo(account, pod),
	}
	tr.TypeMeta = typeMeta("authentication.k8s.io/v1", "TokenRequest")
	tr.ObjectMeta = metav1.ObjectMeta{Name: account.Name, Namespace: account.Namespace, UID: account.UID, CreationTimestamp: metav1.NewTime(now)}
	tr.Spec.ExpirationSeconds = &seconds
	tr.Status = authenticationv1.TokenRequestStatus{Token: encode(claims), ExpirationTimestamp: metav1.NewTime(expires)}
}

func boundTo(account *corev1.ServiceAccount, pod *corev1.Pod) map[string]any {
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

// encode returns a JSON Web Token with an invalid signature.
func encode(claims map[string]any) string {
	payload, _ := json.Marshal(claims) // strings and numbers
	enc := base64.RawURLEncoding.EncodeToString
	signed := enc([]byte(`{"alg":"RS256","kid":"testkube"}`)) + "." + enc(payload)
	sum := sha256.Sum256([]byte(signed))
	return signed + "." + enc(sum[:])
}
