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

// step describes what the session is doing, for error messages.
type step struct {
	description       string
	quotesMessages    bool              // errors may quote the endpoint's messages
	listsMissingFiles bool              // a missing file may be the cause, but the SDK does not name it
	fixes             map[string]string // fixes by error code; "" is the default
}

// errorContext collects the information for error messages.
type errorContext struct {
	httpClient    httpClient
	step          step
	fallbackError string // error from the endpoint tried before the fallback
	environ       config.EnvConfig
	profile       config.SharedConfig
	secrets       []string // removed from error messages
}

// beginStep starts a step and forgets the previous step's requests.
func (t *errorContext) beginStep(step step) {
	t.step, t.fallbackError = step, ""
	t.httpClient.lastExchange.Store(nil)
}

// stepError returns an error for the current step that contains the step, the endpoint, the
// cause and a fix. It does not wrap the SDK's errors, because they contain whole
// responses.
func (t *errorContext) stepError(ctx context.Context, err error) error {
	var b strings.Builder
	b.WriteString(t.step.description)
	if last := t.httpClient.lastExchange.Load(); last != nil {
		b.WriteString(": " + last.endpoint)
	}
	b.WriteString(": " + t.describeCause(ctx, err))
	var attempts *retry.MaxAttemptsError
	if errors.As(err, &attempts) && attempts.Attempt > 1 {
		fmt.Fprintf(&b, ", %d times", attempts.Attempt)
	}
	if t.fallbackError != "" {
		b.WriteString(", and before that " + t.fallbackError)
	}
	var answered interface{ ServiceRequestID() string }
	if errors.As(err, &answered) && isCodeOrRequestID(answered.ServiceRequestID()) {
		fmt.Fprintf(&b, " [request id %s]", answered.ServiceRequestID())
	}
	if cure := t.errorFix(err); cure != "" && ctx.Err() == nil {
		b.WriteString("; " + cure)
	}
	// The SDK's error messages about files have several lines.
	return errors.New(strings.Join(strings.Fields(t.redactText(b.String())), " "))
}

// redactText removes secrets from text.
func (t *errorContext) redactText(text string) string {
	for _, secret := range t.secrets {
		if len(secret) >= 4 {
			text = strings.ReplaceAll(text, secret, "[redacted]")
		}
	}
	return text
}

// describeCause describes an error. From a response, it includes only the error code and, for
// STS and ECR, the message.
func (t *errorContext) describeCause(ctx context.Context, err error) string {
	var answer responseError
	var process *processcreds.ProviderError
	var api smithy.APIError
	var address *url.Error
	var file *fs.PathError
	last := cmp.Or(t.httpClient.lastExchange.Load(), &exchange{})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx).Error()
	case errors.As(err, &answer):
		return answer.Error()
	case errors.As(err, &process):
		return processCause(err)
	case last.noResponseErr != nil:
		return last.noResponseErr.Error()
	case errors.As(err, &api) && isCodeOrRequestID(api.ErrorCode()) && api.ErrorCode() != "UnknownError":
		return t.describeAPIError(api)
	case last.status >= 300:
		return fmt.Sprintf("status %d %s", last.status, http.StatusText(last.status))
	case errors.As(err, &address): // its message contains the path of container credentials
		return "invalid address: " + address.Err.Error()
	case errors.As(err, &file):
		return file.Error()
	case last.endpoint != "":
		return responseError("cannot parse it").Error()
	case strings.Contains(err.Error(), "access disabled to EC2 IMDS"):
		return "none found in the environment, profiles or endpoints, and AWS_EC2_METADATA_DISABLED disables the instance metadata service" + t.describeMissingFiles()
	case t.step.listsMissingFiles && t.describeMissingFiles() != "":
		return "none found" + t.describeMissingFiles()
	}
	return err.Error()
}

// fileVariable is an environment variable that names a file.
type fileVariable struct{ name, file string }

func (t *errorContext) profileFiles() []fileVariable {
	return []fileVariable{{"AWS_CONFIG_FILE", t.environ.SharedConfigFile}, {"AWS_SHARED_CREDENTIALS_FILE", t.environ.SharedCredentialsFile}}
}

const tokenFileEnv = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"

// describeMissingFiles returns the configured files that do not exist. The SDK treats
// missing profile files as empty.
func (t *errorContext) describeMissingFiles() (text string) {
	for _, v := range append(t.profileFiles(),
		fileVariable{"AWS_WEB_IDENTITY_TOKEN_FILE", t.environ.WebIdentityTokenFilePath},
		fileVariable{tokenFileEnv, os.Getenv(tokenFileEnv)}, // the SDK reads it for each request
	) {
		if _, err := os.Stat(v.file); v.file != "" && err != nil {
			text += fmt.Sprintf("; %s points to %q, which cannot be found", v.name, v.file)
		}
	}
	return text
}

// describeAPIError returns the error code and, if the step allows it, the API's message.
func (t *errorContext) describeAPIError(api smithy.APIError) string {
	// Redact before truncating, because part of a secret would not be recognized.
	if message := t.redactText(api.ErrorMessage()); t.step.quotesMessages && message != "" {
		return api.ErrorCode() + ": " + strings.ToValidUTF8(message[:min(len(message), maxMessageSize)], "")
	}
	return api.ErrorCode()
}

// maxMessageSize limits an API's message in bytes. AWS messages contain the identity,
// action and policy.
const maxMessageSize = 600

// processCause describes the failure of a profile's credential_process. It omits the SDK's message,
// because that contains the output of the process.
func processCause(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "the profile's credential_process failed with " + exit.Error()
	}
	return "the profile's credential_process did not print credentials"
}

// isCodeOrRequestID reports whether s looks like an error code or a request id.
func isCodeOrRequestID(s string) bool {
	return s != "" && len(s) <= 80 && strings.Trim(s, codeCharacters) == ""
}

const codeCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-"

// errorFix returns how to fix an error, or "".
func (t *errorContext) errorFix(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		if cure, ok := t.step.fixes[strings.TrimSuffix(api.ErrorCode(), "Exception")]; ok {
			return cure
		}
	}
	return t.step.fixes[""]
}
