// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// Request is one question to a [Keyring]. Exactly one of Image and Registry is set.
type Request struct {
	// Image is any image reference; it is normalised as the kubelet does,
	// so "nginx:1.25" is asked as "docker.io/library/nginx".
	Image string

	// Registry is a bare host with an optional port, for callers that know no
	// more. A provider whose pattern has a path cannot be asked then: its
	// Attempt says so.
	Registry string

	// Pod is for whom the image is pulled; nil if for nobody in particular.
	Pod *Pod

	// PullSecrets are the pod's image pull secrets; they serve this request alone.
	PullSecrets []PullSecret

	// Token and Annotations are a service-account identity that the caller
	// already holds; answers are then cached by the token's hash. Only a
	// provider whose serviceAccountTokenAudience is among the audiences ("aud")
	// of the token is given it. For another the attempt fails at [StageToken],
	// as it does with a token that is not a JSON Web Token, as those of
	// Kubernetes are: nothing says then who may see it.
	Token       plugin.Secret
	Annotations map[string]string
}

// Pod identifies a pod and its service account (which may be empty).
type Pod struct {
	Namespace, Name, UID string
	ServiceAccount       string
}

// name is what keyrings and plugins see of the request.
func (r *Request) name() (string, error) {
	switch {
	case r.Image != "" && r.Registry != "":
		return "", errors.New("a request must name either an image or a registry, not both")
	case r.Registry != "":
		return match.Registry(r.Registry)
	default:
		return match.Repository(r.Image)
	}
}

// question is what a lookup asks for.
type question struct {
	name     string // normalised repository, or the host of a registry lookup
	registry string // name up to the first slash, port included
	at       match.Location
}

func newQuestion(req Request) (question, error) {
	name, err := req.name()
	if err != nil {
		return question{}, err
	}
	if len(name) > math.MaxUint16 {
		return question{}, fmt.Errorf("the image name is too long for a cache key (%d bytes)", len(name))
	}
	at, err := match.ParseLocation(name)
	if err != nil {
		return question{}, err
	}
	registry, _, _ := strings.Cut(name, "/")
	return question{name: name, registry: registry, at: at}, nil
}

// bare reports whether a registry is asked for, and no image.
func (q question) bare() bool { return q.name == q.registry }

// base is as much of the question as an answer of the given scope covers.
func (q question) base(scope plugin.CacheKeyType) string {
	switch scope {
	case plugin.CacheRegistry:
		return q.registry
	case plugin.CacheGlobal:
		return ""
	default:
		return q.name
	}
}
