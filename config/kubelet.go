// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"fmt"
	"regexp"
	"strconv"
)

// NewestKubelet is the newest supported kubelet version.
const NewestKubelet = "1.37"

// Minor releases of Kubernetes 1 that added a feature. Sources: KEP-2133 (alpha in 1.20, v1 in
// 1.26), KEP-4412 (tokenAttributes), and tests with kubelets 1.33 to 1.37
// (testdata/parity/skew.json).
const (
	sinceV1Alpha1        = 20
	sinceV1Beta1         = 24
	sinceV1              = 26
	sinceTokenAttributes = 33
	sinceCacheType       = 34
	sinceDirectory       = 34
	sinceStrictColons    = 36 // the first release built with Go 1.26
	newestKubeletMinor   = 37 // the minor release of NewestKubelet
)

// Target is the kubelet that a configuration is validated for. The zero value is
// [NewestKubelet] with default feature gates.
type Target struct {
	KubeletVersion string          // "1.33" or "v1.33.4"; "" means the newest supported version
	FeatureGates   map[string]bool // gates that are set explicitly
}

type kubelet struct {
	minor int
	gates map[string]bool
}

func (t Target) resolve() (kubelet, error) {
	k := kubelet{minor: newestKubeletMinor, gates: t.FeatureGates}
	if t.KubeletVersion == "" {
		return k, nil
	}
	m := regexp.MustCompile(`^v?1\.(\d{1,3})(\.\d+)?([-+].*)?$`).FindStringSubmatch(t.KubeletVersion)
	if m == nil {
		return k, fmt.Errorf("invalid kubelet version %q: use a version such as 1.33 or v1.33.4", t.KubeletVersion)
	}
	k.minor, _ = strconv.Atoi(m[1]) // the pattern allows at most three digits
	return k, nil
}

// noProvidersReason returns why the kubelet does not support credential providers, or
// "".
func (k kubelet) noProvidersReason() string {
	return k.unsupportedReason("credential providers", sinceV1Alpha1, gateKubeletCredentialProviders)
}

// noTokensReason returns why the kubelet rejects tokenAttributes, or "".
func (k kubelet) noTokensReason() string {
	return k.unsupportedReason("tokenAttributes", sinceTokenAttributes, gateServiceAccountTokens)
}

func (k kubelet) unsupportedReason(what string, since int, gate string) string {
	switch {
	case k.minor < since:
		return k.unsupportedFeature(what, since)
	case !k.gateEnabled(gate):
		return fmt.Sprintf("kubelet 1.%d supports %s only with the feature gate %s", k.minor, what, gate)
	}
	return ""
}

// unsupportedFeature returns the error for a feature that only newer kubelets have.
func (k kubelet) unsupportedFeature(what string, since int) string {
	return fmt.Sprintf("kubelet 1.%d does not support %s (added in 1.%d)", k.minor, what, since)
}

// strictColonsError returns the error for a host with more than one colon, which only older
// kubelets accept.
func (k kubelet) strictColonsError() string {
	return fmt.Sprintf("kubelet 1.%d rejects a host with more than one colon (new in 1.%d; in kubelets up to 1.%d, the pattern is accepted but matches no image): "+
		"list each host separately, and put an IPv6 address in brackets, followed by the port", k.minor, sinceStrictColons, sinceStrictColons-1)
}

// supportedVersion returns the advice to use a version of an API group that the kubelet
// supports.
func (k kubelet) supportedVersion(group string) string {
	switch {
	case k.minor < sinceV1Alpha1:
		return ""
	case k.minor < sinceV1Beta1:
		return ": use " + group + "/v1alpha1"
	}
	return ": use " + group + "/v1beta1"
}

// apiVersionSince returns the minor release that added a version of an API group. It returns 0
// if the version is unknown.
func apiVersionSince(group, apiVersion string) int {
	switch apiVersion {
	case group + "/v1alpha1":
		return sinceV1Alpha1
	case group + "/v1beta1":
		return sinceV1Beta1
	case group + "/v1":
		return sinceV1
	}
	return 0
}
