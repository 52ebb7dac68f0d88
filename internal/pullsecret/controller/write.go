// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package controller

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/regcred/regcred/internal/pullsecret"
)

// createManager is the field manager of the empty Secret. It differs from [pullsecret.ManagedBy], so
// that a controller with an old cache cannot empty a Secret that another one has filled: that is a
// conflict of two managers.
const createManager = pullsecret.ManagedBy + "-create"

// create creates the Secret without credentials. If a Secret of that name exists, the request is
// rejected.
func (s *target) create(ctx context.Context) error {
	return s.patch(ctx, "", nil, []byte(pullsecret.EmptyConfig), metav1.PatchOptions{FieldManager: createManager})
}

// apply updates the Secret in place. The UID makes the request fail if the Secret was deleted or
// replaced since it was read.
func (s *target) apply(ctx context.Context, c *pullsecret.Content) error {
	force := true
	err := s.patch(ctx, s.object.UID, c.Status.Annotations(), c.Data, metav1.PatchOptions{FieldManager: pullsecret.ManagedBy, Force: &force})
	countWrite(err)
	return err
}

// patch sends a server-side apply. The response is metadata only, so that no password of another
// manager's key enters this process.
func (s *target) patch(ctx context.Context, uid types.UID, annotations map[string]string, data []byte, o metav1.PatchOptions) error {
	type metaFields struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		UID         types.UID         `json:"uid,omitempty"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": corev1.SecretTypeDockerConfigJson,
		"metadata": metaFields{s.plan.Name, s.namespace, uid, map[string]string{pullsecret.LabelManagedBy: pullsecret.ManagedBy}, annotations},
		"data":     map[string][]byte{corev1.DockerConfigJsonKey: data},
	})
	if err != nil {
		return err
	}
	_, err = s.writer.Namespace(s.namespace).Patch(ctx, s.plan.Name, types.ApplyPatchType, body, o)
	return err
}

// ownsData reports whether the controller was the last one to write the docker config. Another
// manager's update takes the ownership of the field.
func (s *target) ownsData() bool {
	return slices.ContainsFunc(s.object.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == pullsecret.ManagedBy && m.FieldsV1 != nil && strings.Contains(m.FieldsV1.GetRawString(), `"f:`+corev1.DockerConfigJsonKey+`"`)
	})
}

// readData reads the Secret's docker config. It is a list with the name as field selector, because the
// role has no get.
func (s *target) readData(ctx context.Context) ([]byte, error) {
	var list corev1.SecretList
	if err := s.direct.List(ctx, &list, client.InNamespace(s.namespace), client.MatchingFields{"metadata.name": s.plan.Name}); err != nil {
		return nil, err
	}
	for _, secret := range list.Items {
		if secret.UID == s.object.UID {
			return secret.Data[corev1.DockerConfigJsonKey], nil
		}
	}
	return nil, errors.New("the Secret was replaced")
}
