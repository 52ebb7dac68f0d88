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
		return "OpenRC has no drop-ins; this kubelet's flags are set in /etc/conf.d/kubelet, your own script"
	}
	return "regcred knows no way to set this kubelet's flags"
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
		{GKE, Refusal{"GKE writes the kubelet's unit, flags and configuration at each boot and recreates nodes at upgrades and repairs; it has no setting for third-party providers", true, func(w Wish) string { return chart(w, "stateDir: /home/kubernetes/bin/regcred\n") }}},
		{AKS, Refusal{"AKS writes the kubelet's unit, flags and configuration when it creates a node, also at upgrades of the node image and of Kubernetes; it has no setting for third-party providers", true, func(w Wish) string { return chart(w, "") }}},
		{KOps, Refusal{"kOps runs nodeup at each boot, which writes the kubelet's unit, flags and configuration", true, kops}},
		{OpenShift, Refusal{"OpenShift's Machine Config Operator owns the kubelet's unit and configuration; manual changes make the node degraded", false, func(w Wish) string { return openShift(w, s) }}},
		{Talos, Refusal{"Talos has no services or files to change; providers are set in its machine configuration", false, talos}},
		{Bottlerocket, Refusal{"Bottlerocket's root file system is read-only and verified, and it writes the kubelet's files from its settings; third-party executables cannot be put where its kubelet looks", false, bottlerocket}},
		{Minikube, Refusal{"minikube writes the kubelet's flags at each start", false, minikube}},
		{MicroK8s, Refusal{"MicroK8s runs the kubelet inside one process with the control plane and reads its flags from a separate file", false, microK8s}},
		{K0s, Refusal{"k0s starts the kubelet itself, with the flags from its own --kubelet-extra-args", false, k0s}},
	}
}
