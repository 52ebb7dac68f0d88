// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/diagnose"
	"github.com/regcred/regcred/plugin"
)

// Kind is the kind of configuration files (KEP-2133). The other constants are its versions.
// Kubelets read V1Alpha1 since 1.20, V1Beta1 since 1.24 and V1 since 1.26.
// Kubelet 1.37 reads all three.
const (
	Kind     = "CredentialProviderConfig"
	V1       = configFileGroup + "/v1"
	V1Beta1  = configFileGroup + "/v1beta1"
	V1Alpha1 = configFileGroup + "/v1alpha1"
)

// The API groups of configuration files and of the plugin protocol.
const (
	configFileGroup   = "kubelet.config.k8s.io"
	execProtocolGroup = "credentialprovider.kubelet.k8s.io"
)

type typeMeta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// Kinds and version of the configuration format in the out-of-tree proposal ("Out-of-Tree
// Credential Providers"), which preceded KEP-2133. The text of the proposal uses the kind
// RegistryCredentialConfig, and its example uses credentialprovider. The version is v1alpha1
// without a group.
const (
	kindOutOfTree         = "RegistryCredentialConfig"
	kindOutOfTreeExample  = "credentialprovider"
	kindOutOfTreeProvider = "RegistryCredentialProvider"
	versionOutOfTree      = plugin.OutOfTree
)

func (m typeMeta) isOutOfTree() bool {
	return m.Kind == kindOutOfTree || m.Kind == kindOutOfTreeExample
}

type typeMetaError struct{ field, value, msg string }

// firstError returns the first reason why a kind and version are not supported, or nil.
func (m typeMeta) firstError() *typeMetaError {
	group, version, _ := strings.Cut(m.APIVersion, "/")
	switch {
	case m.isOutOfTree() && m.APIVersion == "":
		return &typeMetaError{"apiVersion", "", "missing: set it to " + versionOutOfTree}
	case m.isOutOfTree() && m.APIVersion != versionOutOfTree:
		return &typeMetaError{"apiVersion", m.APIVersion,
			"not a version of " + m.Kind + ": must be " + versionOutOfTree + " (the kubelet needs kind " + Kind + ")"}
	case m.isOutOfTree():
		return nil
	case m.Kind == kindOutOfTreeProvider:
		return &typeMetaError{"kind", m.Kind, "this kind is for a provider, not for the file: use " + kindOutOfTree + " here"}
	case strings.EqualFold(m.Kind, kindOutOfTree):
		return &typeMetaError{"kind", m.Kind, "did you mean " + kindOutOfTree + "? (case matters)"}
	case m.Kind == "":
		return &typeMetaError{"kind", "", "missing: set it to " + Kind}
	case m.Kind != Kind:
		return &typeMetaError{"kind", m.Kind, diagnose.ExplainKind(m.Kind)}
	case m.APIVersion == "" || group == configFileGroup && version == "":
		return &typeMetaError{"apiVersion", "", "missing or without a version: set it to " + V1}
	case group == execProtocolGroup:
		return &typeMetaError{"apiVersion", m.APIVersion, "this version is for a provider, not for the file: use " + V1 + " here"}
	case m.APIVersion != V1 && m.APIVersion != V1Beta1 && m.APIVersion != V1Alpha1:
		return &typeMetaError{"apiVersion", m.APIVersion, "not supported: must be " + V1 + ", " + V1Beta1 + " or " + V1Alpha1}
	}
	return nil
}

// allErrors returns all errors in the kind and version. If the kind is missing, the version
// must be a version of [Kind].
func (m typeMeta) allErrors() []*typeMetaError {
	errs := []*typeMetaError{m.firstError()}
	if m.Kind == "" {
		errs = append(errs, typeMeta{m.APIVersion, Kind}.firstError())
	}
	return slices.DeleteFunc(errs, func(e *typeMetaError) bool { return e == nil })
}
