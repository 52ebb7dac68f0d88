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

// step is one thing that is attempted.
type step struct {
	what   string
	quotes bool              // the endpoint's messages may be shown
	files  bool              // it may fail for want of files, which the SDK does not name
	cures  map[string]string // what to do, by error code; "" is for everything else
}

// trail is what errors say of what was done.
type trail struct {
	wire    wire
	step    step
	before  string   // of the endpoint that could not be reached before this one
	sources []any    // of the SDK's configuration
	secrets []string // never shown
}

// begin names what is attempted from here on.
func (t *trail) begin(step step) {
	t.step, t.before = step, ""
	t.wire.last.Store(nil)
}

// fail is the error of a step: what was attempted, at which endpoint, what
// came of it, and what to do. It is text alone: the SDK's errors hold whole
// answers.
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
	if cure := t.cure(err); cure != "" && ctx.Err() == nil {
		b.WriteString("; " + cure)
	}
	// The SDK's texts about files have several lines.
	return errors.New(strings.Join(strings.Fields(t.redact(b.String())), " "))
}

// redact takes out what is never shown.
func (t *trail) redact(text string) string {
	for _, secret := range t.secrets {
		if len(secret) >= 4 {
			text = strings.ReplaceAll(text, secret, "[redacted]")
		}
	}
	return text
}

// cause says what came of a step, in words that hold nothing of an answer but
// an error's code and, from STS and ECR, its message.
func (t *trail) cause(ctx context.Context, err error) string {
	var answer answerError
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
	case errors.As(err, &address): // whose text holds the address, with the path of container credentials
		return "invalid address: " + address.Err.Error()
	case errors.As(err, &file):
		return file.Error()
	case last.endpoint != "":
		return answerError("cannot parse it").Error()
	case strings.Contains(err.Error(), "access disabled to EC2 IMDS"):
		return "none found in the environment, profiles or endpoints, and AWS_EC2_METADATA_DISABLED disables the instance metadata service" + t.missingFiles()
	case t.step.files && t.missingFiles() != "":
		return "none found" + t.missingFiles()
	}
	return err.Error()
}

const tokenFile = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"

// missingFiles names the files that the environment says are there and are
// not. The SDK takes those of profiles for empty.
func (t *trail) missingFiles() (text string) {
	for _, source := range t.sources {
		environ, ok := source.(config.EnvConfig)
		if !ok {
			continue
		}
		for _, v := range []struct{ name, file string }{
			{"AWS_CONFIG_FILE", environ.SharedConfigFile}, {"AWS_SHARED_CREDENTIALS_FILE", environ.SharedCredentialsFile},
			{"AWS_WEB_IDENTITY_TOKEN_FILE", environ.WebIdentityTokenFilePath},
			{tokenFile, os.Getenv(tokenFile)}, // which the SDK looks up when it asks
		} {
			if _, err := os.Stat(v.file); v.file != "" && err != nil {
				text += fmt.Sprintf("; %s points to %q, which cannot be found", v.name, v.file)
			}
		}
	}
	return text
}

// refusal is what an API says.
func (t *trail) refusal(api smithy.APIError) string {
	// Redacted before it is cut, since half of a secret is not recognised.
	if message := t.redact(api.ErrorMessage()); t.step.quotes && message != "" {
		return api.ErrorCode() + ": " + strings.ToValidUTF8(message[:min(len(message), maxMessage)], "")
	}
	return api.ErrorCode()
}

// maxMessage bounds an API's message in bytes. Those of AWS name identity,
// action and policy.
const maxMessage = 600

// processCause does without the SDK's text, which holds what the process printed.
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

// cure says what to do about an error.
func (t *trail) cure(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		if cure, ok := t.step.cures[strings.TrimSuffix(api.ErrorCode(), "Exception")]; ok {
			return cure
		}
	}
	return t.step.cures[""]
}
