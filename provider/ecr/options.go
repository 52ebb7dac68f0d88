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

// RoleAnnotation is the annotation of a service account that names the role
// with which its images are pulled. Present and empty, it means the node's.
const RoleAnnotation = "eks.amazonaws.com/ecr-role-arn"

// Options says how a [Provider] works. The zero value serves ECR alone.
type Options struct {
	// AllowHosts are hosts in front of ECR that have names of their own, as
	// HOST[=REGION]. HOST is matched as matchImages are: globs stand for
	// one label, and the port must be the same. Without REGION it is that of
	// the SDK's configuration, or else that of the instance.
	AllowHosts []string

	// DefaultRoleARN is the role of service accounts without a
	// [RoleAnnotation]; "" means the identity of the node.
	DefaultRoleARN string

	// Roles are the roles to take for the registries of an account, as
	// ACCOUNT=ARN[,ARN…]: the first as the node, or with the service account's
	// role, and each that follows with the one before it.
	Roles []string

	// ExternalIDs are given to STS with the roles of an account, as ACCOUNT=ID.
	ExternalIDs []string

	// SessionName is the name of all sessions at STS; "" means that of the
	// service account, NAMESPACE_NAME, or else [DefaultSessionName].
	SessionName string

	// Mirrors are names whose images a runtime pulls from a registry of ECR, as
	// SOURCE=TARGET[/PATH], and MirrorOrigin what their own hosts may see.
	Mirrors      []string
	MirrorOrigin string

	// AnyHost serves every host, in the region of the SDK's configuration or
	// else the instance's. OtherHosts is for those that are not served.
	AnyHost    bool
	OtherHosts string

	// PlainEndpoints asks the API and STS at their ordinary endpoints, whatever
	// the form of the host.
	PlainEndpoints bool

	// Logger is told the steps (Info); nil discards.
	Logger *slog.Logger

	Timeout  time.Duration // of one attempt to reach an endpoint; 0 means 14 s
	MaxPause time.Duration // between two attempts; 0 means 5 s
	Budget   time.Duration // of one call of GetCredentials; 0 means 45 s

	base func() *http.Transport // how connections are made; nil means remote.Base
	pod  bool                   // see InPod
}

// withDefaults fills in what is not set.
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

// whose says as whom is asked, in errors, and what gives it an identity.
func (o Options) whose() (who, cure string) {
	if o.pod {
		return "pod", "assign a role to the pod's service account (IRSA or EKS Pod Identity), or to the instance"
	}
	return "node", "assign a role to the instance, or configure another AWS SDK credential source"
}
