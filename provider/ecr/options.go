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

// RoleAnnotation is the service account annotation that sets the IAM role used to pull
// images. If the annotation is present but empty, the node's identity is used.
const RoleAnnotation = "eks.amazonaws.com/ecr-role-arn"

// Options configures a [Provider]. The zero value serves only ECR's own hosts.
type Options struct {
	// AllowHosts lists additional hosts in front of ECR as HOST[=REGION]. HOST is a pattern as in
	// matchImages. A * matches within one label, and the port must be equal. Without REGION, the
	// region comes from the SDK's configuration or from the instance metadata service.
	AllowHosts []string

	// DefaultRoleARN is the role for service accounts without a [RoleAnnotation]. If it is "", the
	// node's identity is used.
	DefaultRoleARN string

	// Roles lists the roles to assume for an account's registries, as
	// ACCOUNT=ARN[,ARN…]. The first role is assumed with the node's identity or the
	// service account's role, and each further role with the previous one.
	Roles []string

	// ExternalIDs lists external IDs to send to STS with an account's roles, as
	// ACCOUNT=ID.
	ExternalIDs []string

	// SessionName is the name of all STS sessions. "" means NAMESPACE_NAME of the
	// service account, or "ecr-credential-provider".
	SessionName string

	// Mirrors lists images that the runtime pulls from an ECR registry, as
	// SOURCE=TARGET[/PATH], such as docker.io=REGISTRY/hub.
	Mirrors []string

	// MirrorOrigin specifies whether the original host of mirrored images may receive the
	// credential. containerd sends it there if it falls back to the original host. Set "none" if
	// the runtime never falls back, or "trusted" if the host may receive the credential. If it is
	// "", New rejects mirrors of hosts outside ECR.
	MirrorOrigin string

	// AnyHost serves every host. The region comes from the SDK's configuration or from the instance
	// metadata service.
	AnyHost bool

	// OtherHosts is the behavior for hosts that are not served: "fail" (default), or
	// "empty" for a response without credentials.
	OtherHosts string

	// PlainEndpoints uses the standard API and STS endpoints, even for FIPS and
	// dual-stack hosts.
	PlainEndpoints bool

	Timeout  time.Duration // per request; 0 means 14 s
	MaxPause time.Duration // maximum pause between two attempts of a request; 0 means 5 s
	Budget   time.Duration // per call of GetCredentials; 0 means 45 s

	Getenv func(string) string // used by [InPod], but not by the AWS SDK; nil means [os.Getenv]
	Logger *slog.Logger        // receives progress messages (Info); nil discards them

	newTransport func() *http.Transport // nil means remote.NewBaseTransport
	inPod        bool                   // set by InPod
}

// withDefaults replaces zero fields with their defaults.
func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Timeout = cmp.Or(o.Timeout, 14*time.Second)
	o.MaxPause = cmp.Or(o.MaxPause, 5*time.Second)
	o.Budget = cmp.Or(o.Budget, remote.RequestTimeout)
	if o.newTransport == nil {
		o.newTransport = remote.NewBaseTransport
	}
	return o
}

// identityHint returns whose identity is used and how to configure it, for error messages.
func (o Options) identityHint() (owner, fix string) {
	if o.inPod {
		return "pod", "assign a role to the pod's service account (IRSA or EKS Pod Identity), or to the instance"
	}
	return "node", "assign a role to the instance, or configure another AWS SDK credential source"
}
