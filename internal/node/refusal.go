// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

// refusal says why a node keeps no change; nil if it does.
func refusal(s *Setup) *Refusal {
	for _, r := range refusals(s) {
		if r.kind == s.Kind {
			return &r.Refusal
		}
	}
	if s.Way != ByHand {
		return nil
	}
	if s.Init == OpenRC && s.Kind == OpenRCUnit {
		return &Refusal{Why: byHand(s), Instead: openRC}
	}
	return &Refusal{Why: byHand(s), Instead: flagLines}
}

// byHand says why nothing that regcred does would bring the flags there.
func byHand(s *Setup) string {
	switch {
	case s.Kind == NoKubelet:
		return "found no kubelet.service, k3s, rke2 or OpenRC service that starts a kubelet"
	case s.Unit != nil && s.Unit.Problem != "":
		return "a drop-in cannot set this kubelet's flags: " + s.Unit.Problem
	case s.Rancher != nil && s.Config.Fixed != "":
		return s.Config.Fixed
	case s.Rancher != nil:
		return s.BinDir.Fixed
	case s.Init == OpenRC:
		return "OpenRC does not support drop-ins; set this kubelet's flags manually in /etc/conf.d/kubelet"
	}
	return "regcred cannot set this kubelet's flags"
}

// kindRefusal is the refusal of a kind of nodes.
type kindRefusal struct {
	kind Kind
	Refusal
}

// refusals has those of the kinds that keep no change, or whose own way is not
// that of a node.
func refusals(s *Setup) []kindRefusal {
	return []kindRefusal{
		{GKE, Refusal{"GKE writes the kubelet's unit, flags and configuration on each boot and recreates nodes during upgrades and repairs; it has no setting for third-party providers", true, func(w Wish) string { return chart(w, "stateDir: /home/kubernetes/bin/regcred\n") }}},
		{AKS, Refusal{"AKS writes the kubelet's unit, flags and configuration when it creates a node, including during node image and Kubernetes upgrades; it has no setting for third-party providers", true, func(w Wish) string { return chart(w, "") }}},
		{KOps, Refusal{"on each boot, kOps runs nodeup, which writes the kubelet's unit, flags and configuration", true, kops}},
		{OpenShift, Refusal{"OpenShift's Machine Config Operator owns the kubelet's unit and configuration; manual changes put the node in a degraded state", false, func(w Wish) string { return openShift(w, s) }}},
		{Talos, Refusal{"Talos does not allow changes to services or files on the node; configure providers in its machine configuration", false, talos}},
		{Bottlerocket, Refusal{"Bottlerocket's root file system is read-only and verified, so third-party executables cannot be added to the plugin directory; Bottlerocket generates the kubelet's files from its settings", false, bottlerocket}},
		{Minikube, Refusal{"minikube writes the kubelet's flags on each start", false, minikube}},
		{MicroK8s, Refusal{"MicroK8s runs the kubelet and the control plane in one process and reads the kubelet's flags from a separate file", false, microK8s}},
		{K0s, Refusal{"k0s starts the kubelet itself, with the flags from k0s's own --kubelet-extra-args", false, k0s}},
	}
}
