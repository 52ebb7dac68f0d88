// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/kube"
	"github.com/regcred/regcred/upstream/node"
)

// testRefusals verifies that messages of the Node authorizer and NodeRestriction contain the texts
// for which regcred's errors give advice. The two nodes do not exist. To the API server, a pod runs
// on the node that is named in its spec.
func (s *serviceAccountTest) testRefusals(t *testing.T) {
	s.control.AddServiceAccount(t, "team", "placed", nil)
	s.control.AddServiceAccount(t, "team", "unplaced", nil)
	request := func(on string) regcred.TokenRequest {
		pod := node.NewPod("team", "placed-"+on, "registry.example/app")
		pod.Spec.ServiceAccountName, pod.Spec.NodeName = "placed", on
		pod = must.Get(s.control.Client.CoreV1().Pods("team").Create(t.Context(), pod, metav1.CreateOptions{}))(t)
		return regcred.TokenRequest{
			Namespace: "team", ServiceAccount: "placed", PodName: pod.Name, PodUID: string(pod.UID), Audience: "pass.example",
		}
	}
	here, there := request("here"), request("there")
	unbound, withoutUID, unplaced := here, here, here
	unbound.PodName, unbound.PodUID, withoutUID.PodUID, unplaced.ServiceAccount = "", "", "", "unplaced"
	client := must.Get(kube.New(s.control.ClientConfig(t, "system:node:here", "system:nodes"), kube.Options{}))(t)
	token := func(req regcred.TokenRequest) func(context.Context) error {
		return func(ctx context.Context) error { return client.TryToken(ctx, req) }
	}
	const (
		unrelated = "no relationship found between node 'here' and this object: a node can read only objects used by its pods, and the API server found no pod"
		unnamed   = "a node can request only tokens that are bound to one of its pods, by name and UID"
	)
	// The API server notices the pods with a delay. After that, it must grant the first request.
	for _, tt := range []struct {
		name string
		ask  func(context.Context) error
		want string // text in the error
	}{
		{"token for a pod of the node", token(here), ""},
		{"token for a pod of another node", token(there), "node requested token bound to a pod scheduled on a different node: the pod is not on this node"},
		{"token for no pod", token(unbound), "node requested token not bound to a pod: " + unnamed},
		{"token for a pod without its UID", token(withoutUID), "node requested token with a pod binding without a uid: " + unnamed},
		{"token of an account of no pod", token(unplaced), unrelated},
		{"account of no pod", func(ctx context.Context) error {
			_, err := client.GetServiceAccount(ctx, "team", "unplaced")
			return err
		}, unrelated},
		{"secret of no pod", func(ctx context.Context) error {
			_, err := client.PullSecrets(ctx, "team", []string{"host"})
			return err
		}, unrelated},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node.Eventually(t, 30*time.Second, func(ctx context.Context) error {
				err := tt.ask(ctx)
				var failed *kube.Error
				if tt.want == "" {
					return err
				}
				if errors.As(err, &failed) && failed.Code == 403 && containsAll(failed.Error(), tt.want) {
					return nil
				}
				return fmt.Errorf("got %v, want %q in it", err, tt.want)
			})
		})
	}
}
