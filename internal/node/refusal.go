// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import "path"

// KubeletLog returns the path of the kubelet's log; "" if the service manager has
// the log.
func (s *Setup) KubeletLog() string {
	log := s.Kind.info().log
	if log == "" || s.Rancher == nil {
		return ""
	}
	return path.Join(s.Rancher.DataDir, log)
}

// refusalOf returns why changes on a node do not last; nil if they do.
func refusalOf(s *Setup) *Refusal {
	k := s.Kind.info()
	switch {
	case k.refusal != "":
		return &Refusal{Why: k.refusal, Reapplied: k.reapplied}
	case s.Way == ByHand:
		return &Refusal{Why: unsupported(s)}
	}
	return nil
}

// unsupported returns why regcred cannot set the kubelet's flags.
func unsupported(s *Setup) string {
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
