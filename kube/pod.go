// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/regcred/regcred"
)

// maxConcurrentSecrets bounds the concurrent requests of a PullSecrets call.
const maxConcurrentSecrets = 4

// Pod contains the parts of a pod that are needed to pull its images.
type Pod struct {
	regcred.Pod
	Node        string
	PullSecrets []string // names in spec.imagePullSecrets, in order
	Images      []string // images of init, regular and ephemeral containers, without duplicates
}

// Pod reads a pod. Errors are of type [*Error].
func (c *Client) Pod(ctx context.Context, namespace, name string) (*Pod, error) {
	var pod corev1.Pod
	if err := c.sendCall(ctx, newGetCall("Pod", "pods", namespace, name), &pod); err != nil {
		return nil, err
	}
	return &Pod{
		Pod: regcred.Pod{
			Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID),
			ServiceAccount: pod.Spec.ServiceAccountName,
		},
		Node:        pod.Spec.NodeName,
		PullSecrets: secretNames(pod.Spec.ImagePullSecrets),
		Images:      podImages(&pod.Spec),
	}, nil
}

func podImages(spec *corev1.PodSpec) []string {
	var all []string
	add := func(image string) {
		if image != "" && !slices.Contains(all, image) {
			all = append(all, image)
		}
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		add(c.Image)
	}
	for _, c := range spec.EphemeralContainers {
		add(c.Image)
	}
	return all
}

// PullSecrets reads secrets of any type and returns them in the order of names. If some
// secrets cannot be read, it returns the readable secrets and the joined errors. The
// kubelet also continues without unreadable secrets, and records the event
// FailedToRetrieveImagePullSecret.
func (c *Client) PullSecrets(ctx context.Context, namespace string, names []string) ([]regcred.PullSecret, error) {
	secrets := make([]*regcred.PullSecret, len(names))
	errs := make([]error, len(names))
	var g errgroup.Group
	g.SetLimit(maxConcurrentSecrets)
	for i, name := range names {
		g.Go(func() error {
			secrets[i], errs[i] = c.pullSecret(ctx, namespace, name)
			return nil
		})
	}
	_ = g.Wait() // errors are collected in errs
	var found []regcred.PullSecret
	for _, s := range secrets {
		if s != nil {
			found = append(found, *s)
		}
	}
	return found, errors.Join(errs...)
}

func (c *Client) pullSecret(ctx context.Context, namespace, name string) (*regcred.PullSecret, error) {
	var s corev1.Secret
	if err := c.sendCall(ctx, newGetCall("Secret", "secrets", namespace, name), &s); err != nil {
		return nil, err
	}
	return &regcred.PullSecret{
		Namespace: s.Namespace, Name: s.Name, UID: string(s.UID),
		Type: string(s.Type), Data: s.Data,
	}, nil
}
