// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/processcreds"
	"github.com/aws/smithy-go"
)

// step is a step of a request, for error messages.
type step struct {
	what   string
	quotes bool              // the endpoint's messages may be quoted
	files  bool              // a missing file may be the cause, but the SDK does not name it
	fixes  map[string]string // fixes by error code; "" is the default
}

// trail records the state that error messages describe.
type trail struct {
	wire    wire
	step    step
	before  string   // error from the endpoint tried before the fallback
	sources []any    // sources of the SDK's configuration
	secrets []string // redacted
}

// begin starts a step.
func (t *trail) begin(step step) {
	t.step, t.before = step, ""
	t.wire.last.Store(nil)
}

// fail returns an error for the current step that contains the step, the endpoint, the
// cause and a fix. It does not wrap the SDK's errors, because they contain whole
// responses.
func (t *trail) fail(ctx context.Context, err error) error {
	var b strings.Builder
	b.WriteString(t.step.what)
	if last := t.wire.last.Load(); last != nil {
		b.WriteString(": " + last.endpoint)
	}
	b.WriteString(": " + t.cause(ctx, err))
	var attempts *retry.MaxAttemptsError
	if errors.As(err, &attempts) && attempts.Attempt > 1 {
		fmt.Fprintf(&b, ", %d times", attempts.Attempt)
	}
	if t.before != "" {
		b.WriteString(", and before that " + t.before)
	}
	var answered interface{ ServiceRequestID() string }
	if errors.As(err, &answered) && harmless(answered.ServiceRequestID()) {
		fmt.Fprintf(&b, " [request id %s]", answered.ServiceRequestID())
	}
	if cure := t.fix(err); cure != "" && ctx.Err() == nil {
		b.WriteString("; " + cure)
	}
	// The SDK's error messages about files have several lines.
	return errors.New(strings.Join(strings.Fields(t.redact(b.String())), " "))
}

// redact removes secrets.
func (t *trail) redact(text string) string {
	for _, secret := range t.secrets {
		if len(secret) >= 4 {
			text = strings.ReplaceAll(text, secret, "[redacted]")
		}
	}
	return text
}

// cause describes an error. From a response, it includes only the error code and, for
// STS and ECR, the message.
func (t *trail) cause(ctx context.Context, err error) string {
	var answer responseError
	var process *processcreds.ProviderError
	var api smithy.APIError
	var address *url.Error
	var file *fs.PathError
	last := cmp.Or(t.wire.last.Load(), &exchange{})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx).Error()
	case errors.As(err, &answer):
		return answer.Error()
	case errors.As(err, &process):
		return processCause(err)
	case last.lost != nil:
		return last.lost.Error()
	case errors.As(err, &api) && harmless(api.ErrorCode()) && api.ErrorCode() != "UnknownError":
		return t.refusal(api)
	case last.status >= 300:
		return fmt.Sprintf("status %d %s", last.status, http.StatusText(last.status))
	case errors.As(err, &address): // its message contains the path of container credentials
		return "invalid address: " + address.Err.Error()
	case errors.As(err, &file):
		return file.Error()
	case last.endpoint != "":
		return responseError("cannot parse it").Error()
	case strings.Contains(err.Error(), "access disabled to EC2 IMDS"):
		return "none found in the environment, profiles or endpoints, and AWS_EC2_METADATA_DISABLED disables the instance metadata service" + t.missingFiles()
	case t.step.files && t.missingFiles() != "":
		return "none found" + t.missingFiles()
	}
	return err.Error()
}

const tokenFile = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"

// missingFiles returns the configured files that do not exist. The SDK treats
// missing profile files as empty.
func (t *trail) missingFiles() (text string) {
	for _, source := range t.sources {
		environ, ok := source.(config.EnvConfig)
		if !ok {
			continue
		}
		for _, v := range []struct{ name, file string }{
			{"AWS_CONFIG_FILE", environ.SharedConfigFile}, {"AWS_SHARED_CREDENTIALS_FILE", environ.SharedCredentialsFile},
			{"AWS_WEB_IDENTITY_TOKEN_FILE", environ.WebIdentityTokenFilePath},
			{tokenFile, os.Getenv(tokenFile)}, // the SDK reads it for each request
		} {
			if _, err := os.Stat(v.file); v.file != "" && err != nil {
				text += fmt.Sprintf("; %s points to %q, which cannot be found", v.name, v.file)
			}
		}
	}
	return text
}

// refusal describes an API error.
func (t *trail) refusal(api smithy.APIError) string {
	// Redact before truncating, because part of a secret would not be recognized.
	if message := t.redact(api.ErrorMessage()); t.step.quotes && message != "" {
		return api.ErrorCode() + ": " + strings.ToValidUTF8(message[:min(len(message), maxMessage)], "")
	}
	return api.ErrorCode()
}

// maxMessage limits an API's message in bytes. AWS messages contain the identity,
// action and policy.
const maxMessage = 600

// processCause omits the SDK's message, because it contains the output of the process.
func processCause(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "the profile's credential_process failed with " + exit.Error()
	}
	return "the profile's credential_process did not print credentials"
}

// harmless reports whether s looks like an error code or a request id.
func harmless(s string) bool {
	return s != "" && len(s) <= 80 && strings.Trim(s, codeCharacters) == ""
}

const codeCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-"

// fix returns how to fix an error, or "".
func (t *trail) fix(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		if cure, ok := t.step.fixes[strings.TrimSuffix(api.ErrorCode(), "Exception")]; ok {
			return cure
		}
	}
	return t.step.fixes[""]
}
