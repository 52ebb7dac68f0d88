// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"

	"github.com/regcred/regcred/internal/remote"
)

// RoleAnnotation is the annotation of a service account with the IAM role that
// pulls its images. If the annotation is present but empty, the node's identity is
// used.
const RoleAnnotation = "eks.amazonaws.com/ecr-role-arn"

// Options configure a [Provider]. The zero value serves only ECR's own hosts.
type Options struct {
	// AllowHosts are additional hosts that front ECR, as HOST[=REGION]. HOST is
	// matched as in matchImages: * matches within one label, and the port must
	// be the same. Without REGION, the region of the SDK's configuration is
	// used, or the instance's.
	AllowHosts []string

	// DefaultRoleARN is the role for service accounts without a
	// [RoleAnnotation]; "" means the node's identity.
	DefaultRoleARN string

	// Roles are the roles to assume for the registries of an account, as
	// ACCOUNT=ARN[,ARN…]. The first is assumed with the node's identity or the
	// service account's role, and each of the others with the one before it.
	Roles []string

	// ExternalIDs are sent to STS with the roles of an account, as ACCOUNT=ID.
	ExternalIDs []string

	// SessionName is the name of all STS sessions; "" means NAMESPACE_NAME of
	// the service account, or "ecr-credential-provider".
	SessionName string

	// Mirrors are images that the runtime pulls from an ECR registry, as
	// SOURCE=TARGET[/PATH], such as docker.io=REGISTRY/hub.
	Mirrors []string

	// MirrorOrigin states whether the original host of mirrored images may
	// receive the credential, because containerd falls back to it: "none" if
	// the runtime never does, "trusted" if the host may. With "", New rejects
	// mirrors of hosts outside ECR.
	MirrorOrigin string

	// AnyHost serves every host, in the region of the SDK's configuration or
	// the instance's.
	AnyHost bool

	// OtherHosts is the response for hosts that are not served: "fail", which
	// is the default, or "empty" for a response without credentials.
	OtherHosts string

	// PlainEndpoints uses the standard endpoints of the API and STS, even for
	// FIPS and dual-stack hosts.
	PlainEndpoints bool

	Timeout  time.Duration // of one request; 0 means 14 s
	MaxPause time.Duration // between two attempts of a request; 0 means 5 s
	Budget   time.Duration // for one call of GetCredentials; 0 means 45 s

	Getenv func(string) string // used by [InPod], but not by the AWS SDK; nil means [os.Getenv]
	Logger *slog.Logger        // steps (Info); nil discards

	base func() *http.Transport // nil means remote.Base
	pod  bool                   // set by InPod
}

// withDefaults sets the defaults of fields that are zero.
func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Timeout = cmp.Or(o.Timeout, 14*time.Second)
	o.MaxPause = cmp.Or(o.MaxPause, 5*time.Second)
	o.Budget = cmp.Or(o.Budget, remote.Budget)
	if o.base == nil {
		o.base = remote.Base
	}
	return o
}

// identityHint returns whose identity is used, for errors, and how to configure
// it.
func (o Options) identityHint() (owner, fix string) {
	if o.pod {
		return "pod", "assign a role to the pod's service account (IRSA or EKS Pod Identity), or to the instance"
	}
	return "node", "assign a role to the instance, or configure another AWS SDK credential source"
}
