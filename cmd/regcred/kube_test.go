// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/internal/testkube"
)

// testCluster holds the objects of a script's API server.
type testCluster struct {
	ServiceAccounts []testkube.ServiceAccount
	Pods            []testkube.Pod
	Secrets         []testkube.Secret
	Grants          []struct{ User, Verb, Resource string }

	// Objects for the fleet commands, as in the Kubernetes API.
	Agents     []corev1.Pod
	Nodes      []corev1.Node
	DaemonSets []appsv1.DaemonSet
	ConfigMaps []corev1.ConfigMap
	Logs       map[string]string // by NAMESPACE/POD
}

// scriptKube is the script command kube:
//
//	kube start FILE                       an API server with the objects of FILE
//	kube config FILE USER                 write a kubeconfig
//	kube calls VERB RESOURCE N            check the number of requests
//	kube grant|revoke USER VERB RESOURCE
//	kube delete RESOURCE NAMESPACE NAME
//	kube refuse VERB RESOURCE CODE        until the end
//	kube replace VERB RESOURCE OLD NEW    in responses, until the end
//	kube log NAMESPACE POD FILE           set the log of a pod
//	kube stop
func scriptKube(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: kube COMMAND ...")
	}
	if args[0] == "start" {
		startKube(ts, args[1])
		return
	}
	slot := ts.Value(kubeKey{}).(*kubeSlot)
	if slot.server == nil {
		ts.Fatalf("kube %s: it not started", args[0])
	}
	commandKube(ts, slot.server, args)
}

// kubeKey is the key of the script's API server in the script environment's values.
type kubeKey struct{}

type kubeSlot struct{ server *testkube.Server }

func startKube(ts *testscript.TestScript, file string) {
	var c testCluster
	ts.Check(yaml.UnmarshalStrict([]byte(ts.ReadFile(file)), &c))
	server, err := testkube.New(testkube.Options{})
	ts.Check(err)
	ts.Defer(server.Close)
	c.addObjects(server)
	ts.Value(kubeKey{}).(*kubeSlot).server = server
	ts.Setenv("APISERVER", server.URL())
}

// addObjects adds all objects to an API server.
func (c *testCluster) addObjects(server *testkube.Server) {
	for _, x := range c.ServiceAccounts {
		server.AddServiceAccount(x)
	}
	for _, x := range c.Pods {
		server.AddPod(x)
	}
	for _, x := range c.Secrets {
		server.AddSecret(x)
	}
	for i := range c.Agents {
		server.Put("pods", &c.Agents[i])
	}
	for i := range c.Nodes {
		server.Put("nodes", &c.Nodes[i])
	}
	for i := range c.DaemonSets {
		server.Put("daemonsets", &c.DaemonSets[i])
	}
	for i := range c.ConfigMaps {
		server.Put("configmaps", &c.ConfigMaps[i])
	}
	for pod, text := range c.Logs {
		namespace, name, _ := strings.Cut(pod, "/")
		server.SetLog(namespace, name, text)
	}
	for _, g := range c.Grants {
		server.Grant(g.User, g.Verb, g.Resource)
	}
}

func commandKube(ts *testscript.TestScript, server *testkube.Server, args []string) {
	switch verb, rest := args[0], args[1:]; verb {
	case "config":
		ts.Check(server.Kubeconfig(ts.MkAbs(rest[0]), rest[1]))
	case "calls":
		want, err := strconv.Atoi(rest[2])
		ts.Check(err)
		if got := server.CountRequests(rest[0], rest[1]); got != want {
			ts.Fatalf("%d requests to %s %s, want %d", got, rest[0], rest[1], want)
		}
	case "grant":
		server.Grant(rest[0], rest[1], rest[2])
	case "revoke":
		server.Revoke(rest[0], rest[1], rest[2])
	case "delete":
		server.Delete(rest[0], rest[1], rest[2])
	case "refuse":
		kind := map[string]testkube.FaultKind{"401": testkube.FaultUnauthorized, "403": testkube.FaultForbidden, "500": testkube.FaultServerError}[rest[2]]
		server.Inject(testkube.Fault{Kind: kind, Verb: rest[0], Resource: rest[1], Times: testkube.Forever})
	case "replace":
		server.Inject(testkube.Fault{Kind: testkube.FaultReplaceText, Verb: rest[0], Resource: rest[1], Old: rest[2], New: rest[3], Times: testkube.Forever})
	case "log":
		server.SetLog(rest[0], rest[1], ts.ReadFile(rest[2]))
	case "stop":
		server.Stop()
	default:
		ts.Fatalf("kube: unknown command %q", strings.Join(args, " "))
	}
}
