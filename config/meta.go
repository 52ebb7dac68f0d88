// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/plugin"
)

// The group, kind and versions of configuration files.
const (
	Group    = "kubelet.config.k8s.io"
	Kind     = "CredentialProviderConfig"
	V1       = Group + "/v1"
	V1Beta1  = Group + "/v1beta1"
	V1Alpha1 = Group + "/v1alpha1"
)

// typeMeta is what every Kubernetes document begins with.
type typeMeta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// The predecessor of KEP-2133, "Out-of-Tree Credential Providers", has a
// configuration of its own. Its text calls the kind RegistryCredentialConfig,
// its example credentialprovider; the version is v1alpha1 without a group.
const (
	kindPredecessor         = "RegistryCredentialConfig"
	kindPredecessorExample  = "credentialprovider"
	kindPredecessorProvider = "RegistryCredentialProvider"
	versionPredecessor      = plugin.OutOfTree
)

// predecessor reports whether a document is of the predecessor's kind.
func (m typeMeta) predecessor() bool {
	return m.Kind == kindPredecessor || m.Kind == kindPredecessorExample
}

// supported reports whether documents of this type are read, by the kubelet
// or, if they are of the predecessor, by us.
func (m typeMeta) supported() bool {
	if m.predecessor() {
		return m.APIVersion == versionPredecessor
	}
	return m.Kind == Kind && slices.Contains([]string{V1, V1Beta1, V1Alpha1}, m.APIVersion)
}

// problem says what is wrong with the type of a document, or returns nil.
func (m typeMeta) problem() *problem {
	group, version, _ := strings.Cut(m.APIVersion, "/")
	switch {
	case m.predecessor():
		return m.predecessorProblem()
	case m.Kind == kindPredecessorProvider:
		return &problem{path: FieldPath{"kind"}, value: m.Kind, msg: "the kind of a provider, not of the file: write " + kindPredecessor + " here"}
	case strings.EqualFold(m.Kind, kindPredecessor):
		return &problem{path: FieldPath{"kind"}, value: m.Kind, msg: "did you mean " + kindPredecessor + "? (case matters)"}
	case m.Kind == "KubeletConfiguration":
		return &problem{path: FieldPath{"kind"}, value: m.Kind,
			msg: "the kubelet's main configuration; --image-credential-provider-config takes a file of its own, of kind " + Kind}
	case m.Kind == "":
		return &problem{path: FieldPath{"kind"}, msg: "missing: write kind: " + Kind}
	case m.Kind != Kind:
		return &problem{path: FieldPath{"kind"}, value: m.Kind, msg: "another kind of document: it must be " + Kind}
	case m.APIVersion == "" || group == Group && version == "":
		return &problem{path: FieldPath{"apiVersion"}, msg: "missing or without a version: write apiVersion: " + V1}
	case group == "credentialprovider.kubelet.k8s.io":
		return &problem{path: FieldPath{"apiVersion"}, value: m.APIVersion,
			msg: fmt.Sprintf("the version of a provider, not of the file: write %s here", V1)}
	case !m.supported():
		return &problem{path: FieldPath{"apiVersion"}, value: m.APIVersion,
			msg: fmt.Sprintf("not supported: it must be %s, %s or %s", V1, V1Beta1, V1Alpha1)}
	}
	return nil
}

// predecessorProblem is [typeMeta.problem] for the predecessor's kinds.
func (m typeMeta) predecessorProblem() *problem {
	switch {
	case m.APIVersion == "":
		return &problem{path: FieldPath{"apiVersion"}, msg: "missing: write apiVersion: " + versionPredecessor}
	case m.APIVersion != versionPredecessor:
		return &problem{path: FieldPath{"apiVersion"}, value: m.APIVersion,
			msg: "not a version of " + m.Kind + ": it must be " + versionPredecessor + ", without a group (files of a kubelet are of kind " + Kind + ")"}
	}
	return nil
}
