// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/layout"
)

// maxMessageSize limits a response from the runtime, in bytes. The kubelet's cri-client has
// the same limit. gRPC's default is 4 MiB.
const maxMessageSize = 16 << 20

// runtimeError is returned if a call to the container runtime fails, possibly inside
// gRPC. CRI has no fields for a registry's response, so the response is parsed from the
// error message.
type runtimeError struct {
	code codes.Code
	text string // in one line

	status int    // HTTP status of the registry in the text, or 0
	kind   string // one of CRI's own errors, such as "RegistryUnavailable"
	cause  error  // for errors.Is
}

func (e *runtimeError) Error() string { return e.text }
func (e *runtimeError) Unwrap() error { return e.cause }

// Response implements [login.ResponseError].
func (e *runtimeError) Response() (status int, code string) { return e.status, e.kind }

func newRuntimeError(ctx context.Context, err error) *runtimeError {
	s := status.Convert(err)
	e := &runtimeError{code: s.Code(), text: strings.Join(strings.Fields(s.Message()), " ")}
	if end, ok := ctx.Deadline(); ok && e.code == codes.DeadlineExceeded && time.Until(end) < time.Second {
		<-ctx.Done() // the server has the same deadline and may reach it slightly earlier
	}
	switch {
	case ctx.Err() != nil:
		e.cause = context.Cause(ctx)
		e.text = e.cause.Error()
	case e.code == codes.ResourceExhausted && strings.HasPrefix(e.text, "grpc: received message"):
		e.text = fmt.Sprintf("the runtime's response exceeds the kubelet's limit of %d MiB: %s", maxMessageSize>>20, e.text)
	case strings.Contains(e.text, "no space left on device"):
		e.cause = &layout.LocalError{Err: syscall.ENOSPC}
		e.text += " (free up space on the runtime's file system)"
	default:
		e.status = registryStatus(e.code, e.text)
		e.kind = criErrorKind(e.text)
		e.text = containerdPrefix.ReplaceAllString(e.text, "")
	}
	return e
}

// containerdPrefix matches the start of containerd's messages, which contains the image name.
var containerdPrefix = regexp.MustCompile(`^failed to pull and unpack image "[^"]*": (failed to resolve reference "[^"]*": )?`)

// criErrorKind returns the CRI error that a message contains, or "". The kubelet also
// recognizes CRI's errors by their text.
func criErrorKind(text string) string {
	for _, known := range []error{crierrors.ErrRegistryUnavailable, crierrors.ErrSignatureValidationFailed} {
		if strings.Contains(text, known.Error()) {
			return known.Error()
		}
	}
	return ""
}

// httpStatusPattern matches a status such as "401 Unauthorized" or "404 (Not Found)".
var httpStatusPattern = regexp.MustCompile(`\b([45]\d\d) \(?([A-Z][a-z]+)`)

// statusPhrases maps phrases in runtimes' messages to a status. Each contains a space, or a
// colon and a space, so it cannot be part of an image name.
var statusPhrases = []struct {
	text   string
	status int
}{
	{"unauthorized: ", http.StatusUnauthorized}, // error code in the distribution specification
	{"authorization failed", http.StatusUnauthorized},
	{"authentication required", http.StatusUnauthorized},
	{"invalid username/password", http.StatusUnauthorized},
	{"no basic auth credentials", http.StatusUnauthorized},
	{"denied: ", http.StatusForbidden},
	{"manifest unknown", http.StatusNotFound},
	{"name unknown", http.StatusNotFound},
	{"toomanyrequests: ", http.StatusTooManyRequests},
}

// registryStatus returns the registry's status from a message, or 0.
func registryStatus(code codes.Code, text string) int {
	for _, m := range httpStatusPattern.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[1]) // three digits
		if strings.HasPrefix(http.StatusText(n), m[2]) {
			return n
		}
	}
	for _, p := range statusPhrases {
		if strings.Contains(text, p.text) {
			return p.status
		}
	}
	if code == codes.NotFound {
		return http.StatusNotFound
	}
	return 0
}

// respondingHostPattern matches the host whose response containerd reports.
var respondingHostPattern = regexp.MustCompile(`(?:pulling from host |request to https?://)([^\s/"]+)(?: failed|/v2/)`)

// markCredentialNotSent adds a note if access was denied by another host than the
// credential's registry, such as a mirror. containerd does not send the credential to such a
// host.
func (e *runtimeError) markCredentialNotSent(host string, cred *regcred.Credential) *runtimeError {
	m := respondingHostPattern.FindStringSubmatch(e.text)
	other := m != nil && m[1] != host
	if cred == nil || e.status != http.StatusUnauthorized || !other && !strings.Contains(e.text, "no basic auth credentials") {
		return e
	}
	e.status = 0
	e.text += fmt.Sprintf(" (this credential is only for %q and was not sent to the host that refused access)", host)
	return e
}

// notInitializedMessage is containerd's error message during the first moments after its
// start.
const notInitializedMessage = "server is not initialized yet"

// isUnavailable reports whether the runtime is unreachable or not ready.
func isUnavailable(err error) bool {
	var e *runtimeError
	return errors.As(err, &e) && (e.code == codes.Unavailable && e.kind == "" ||
		strings.Contains(e.text, notInitializedMessage))
}
