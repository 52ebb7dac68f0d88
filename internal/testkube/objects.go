// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testkube

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ServiceAccount is a service account in a [Server].
type ServiceAccount struct {
	Namespace, Name string
	UID             string // "" keeps the current UID or generates one
	Annotations     map[string]string
	PullSecrets     []string
}

// Pod is a pod in a [Server].
type Pod struct {
	Namespace, Name string
	UID             string // "" keeps the current UID or generates one
	ServiceAccount  string
	Node            string
	PullSecrets     []string
	InitImages      []string
	Images          []string
}

// Secret is a secret in a [Server].
type Secret struct {
	Namespace, Name string
	UID             string // "" keeps the current UID or generates one
	Type            string
	Data            map[string][]byte
}

// objectKey identifies an object. The resource is plural, as in paths.
type objectKey struct{ resource, namespace, name string }

// store contains the objects. [Server] embeds it.
type store struct {
	mu      sync.Mutex // guards the fields below
	objects map[objectKey]metav1.Object
	version int // the last resourceVersion
}

func newStore() *store {
	return &store{objects: map[objectKey]metav1.Object{}, version: 100}
}

// AddServiceAccount adds or replaces a service account and returns its UID. A different
// UID means that it was deleted and recreated.
func (st *store) AddServiceAccount(a ServiceAccount) string {
	return st.Put("serviceaccounts", &corev1.ServiceAccount{
		TypeMeta:         typeMeta("v1", "ServiceAccount"),
		ObjectMeta:       objectMeta(a.Namespace, a.Name, a.UID, a.Annotations),
		ImagePullSecrets: secretReferences(a.PullSecrets),
	})
}

// AddPod adds or replaces a pod and returns its UID.
func (st *store) AddPod(p Pod) string {
	return st.Put("pods", &corev1.Pod{
		TypeMeta:   typeMeta("v1", "Pod"),
		ObjectMeta: objectMeta(p.Namespace, p.Name, p.UID, nil),
		Spec: corev1.PodSpec{
			ServiceAccountName: p.ServiceAccount,
			NodeName:           p.Node,
			ImagePullSecrets:   secretReferences(p.PullSecrets),
			InitContainers:     newContainers("init", p.InitImages),
			Containers:         newContainers("main", p.Images),
		},
	})
}

// AddSecret adds or replaces a secret and returns its UID.
func (st *store) AddSecret(x Secret) string {
	return st.Put("secrets", &corev1.Secret{
		TypeMeta:   typeMeta("v1", "Secret"),
		ObjectMeta: objectMeta(x.Namespace, x.Name, x.UID, nil),
		Type:       corev1.SecretType(x.Type),
		Data:       x.Data,
	})
}

// Delete removes an object of a resource such as "serviceaccounts".
func (st *store) Delete(resource, namespace, name string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.objects, objectKey{resource, namespace, name})
}

// Put adds or replaces an object of a resource such as "pods" and returns its UID. The
// caller must not modify the object afterwards.
func (st *store) Put(resource string, o metav1.Object) string {
	st.mu.Lock()
	defer st.mu.Unlock()
	k := objectKey{resource, o.GetNamespace(), o.GetName()}
	old, known := st.objects[k]
	switch {
	case o.GetUID() != "":
	case known:
		o.SetUID(old.GetUID())
	default:
		o.SetUID(newUID())
	}
	st.version++
	o.SetResourceVersion(strconv.Itoa(st.version))
	st.objects[k] = o
	return string(o.GetUID())
}

// getObject returns an object, or nil.
func (st *store) getObject(k objectKey) metav1.Object {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.objects[k]
}

func (st *store) getPod(namespace, name string) *corev1.Pod {
	pod, _ := st.getObject(objectKey{"pods", namespace, name}).(*corev1.Pod)
	return pod
}

func (st *store) getServiceAccount(namespace, name string) *corev1.ServiceAccount {
	account, _ := st.getObject(objectKey{"serviceaccounts", namespace, name}).(*corev1.ServiceAccount)
	return account
}

func typeMeta(apiVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
}

func objectMeta(namespace, name, uid string, annotations map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid), Annotations: annotations, CreationTimestamp: metav1.Now()}
}

func secretReferences(names []string) []corev1.LocalObjectReference {
	var refs []corev1.LocalObjectReference
	for _, name := range names {
		refs = append(refs, corev1.LocalObjectReference{Name: name})
	}
	return refs
}

func newContainers(prefix string, images []string) []corev1.Container {
	var all []corev1.Container
	for i, image := range images {
		all = append(all, corev1.Container{Name: fmt.Sprint(prefix, "-", i), Image: image})
	}
	return all
}

// newUID returns a random UID (RFC 9562, version 4).
func newUID() types.UID {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
}
