// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testkube

import (
	"cmp"
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// ConfigMap returns the data of a ConfigMap, or nil if it does not exist.
func (st *store) ConfigMap(namespace, name string) map[string]string {
	if m, ok := st.getObject(objectKey{"configmaps", namespace, name}).(*corev1.ConfigMap); ok {
		return m.Data
	}
	return nil
}

// SetLog sets the log of a pod.
func (s *Server) SetLog(namespace, pod, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.podLogs == nil {
		s.podLogs = map[objectKey]string{}
	}
	s.podLogs[objectKey{"pods", namespace, pod}] = text
}

// serveList sends one page of a list.
func (s *Server) serveList(w http.ResponseWriter, query url.Values, req Request) {
	selector, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		writeError(w, apierrors.NewBadRequest("unable to parse requirement"))
		return
	}
	all, version := s.listObjects(req.Resource, req.Namespace, selector)
	page := struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
		Items           []metav1.Object `json:"items"`
	}{TypeMeta: listKinds[req.Resource], ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(version)}}
	data, _ := base64.RawURLEncoding.DecodeString(query.Get("continue"))
	from, _ := strconv.Atoi(string(data))
	to := len(all)
	if limit, _ := strconv.Atoi(query.Get("limit")); limit > 0 && from+limit < to {
		to = from + limit
		page.Continue = base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(to)))
	}
	page.Items = append([]metav1.Object{}, all[min(from, to):to]...)
	writeJSON(w, http.StatusOK, page)
}

// listObjects returns the matching objects, sorted by namespace and name, and the resource
// version of the list.
func (st *store) listObjects(resource, namespace string, selector labels.Selector) (all []metav1.Object, version int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(st.objects), func(a, b objectKey) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	for _, k := range keys {
		o := st.objects[k]
		if k.resource == resource && (namespace == "" || k.namespace == namespace) && selector.Matches(labels.Set(o.GetLabels())) {
			all = append(all, o)
		}
	}
	return all, st.version
}

// serveLog sends the last tailLines lines of a pod's log. As in the kubelet, limitBytes
// keeps only the first bytes of these lines.
func (s *Server) serveLog(w http.ResponseWriter, query url.Values, req Request) {
	s.mu.Lock()
	text := s.podLogs[objectKey{"pods", req.Namespace, req.Name}]
	s.mu.Unlock()
	if s.getPod(req.Namespace, req.Name) == nil {
		writeError(w, notFound("pods", req.Name))
		return
	}
	lines := slices.Collect(strings.Lines(text))
	if n, err := strconv.Atoi(query.Get("tailLines")); err == nil {
		lines = lines[max(0, len(lines)-n):]
	}
	text = strings.Join(lines, "")
	if n, err := strconv.Atoi(query.Get("limitBytes")); err == nil {
		text = text[:min(n, len(text))]
	}
	w.Header().Set("Content-Type", "text/plain")
	_, _ = w.Write([]byte(text)) // fails only if the client has disconnected
}

// servePatch merges a patch of the data field into a ConfigMap.
func (s *Server) servePatch(w http.ResponseWriter, r *http.Request, req Request) {
	if r.Header.Get("Content-Type") != "application/merge-patch+json" {
		writeError(w, apierrors.NewBadRequest("the body of the request was in an unknown format"))
		return
	}
	var patch struct{ Data map[string]string }
	if !readJSON(w, r, &patch) {
		return
	}
	old, ok := s.getObject(objectKey{"configmaps", req.Namespace, req.Name}).(*corev1.ConfigMap)
	if !ok {
		writeError(w, notFound("configmaps", req.Name))
		return
	}
	changed := old.DeepCopy()
	changed.TypeMeta = typeMeta("v1", "ConfigMap")
	if changed.Data == nil {
		changed.Data = map[string]string{}
	}
	maps.Copy(changed.Data, patch.Data)
	s.Put("configmaps", changed)
	writeJSON(w, http.StatusOK, changed)
}
