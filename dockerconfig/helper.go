// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerconfig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/dockerjson"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/process"
	"github.com/regcred/regcred/plugin"
)

// DefaultHelperTimeout is the default timeout of one run of a helper. It is less than the 50
// seconds of [plugin.Serve], so that a plugin can report which helper timed out.
const DefaultHelperTimeout = 45 * time.Second

// maxHelperOutput limits a helper's standard output, in bytes.
const maxHelperOutput = 1 << 20

const helperPrefix = "docker-credential-"

// tokenUser is the user name in a response whose secret is an identity token.
const tokenUser = "<token>"

// Helper is a docker-credential-* program. It runs without a shell. At the
// deadline, or after 1 MiB of output, its process group is killed. It is safe for
// concurrent use.
//
// The zero value is not usable: Name is required.
type Helper struct {
	Name string // name without "docker-credential-", as in credHelpers and credsStore

	// Dir is the directory of the program. If it is "", the absolute directories in the
	// PATH of Environ are searched.
	Dir string

	// Environ is the environment of the program, as "key=value". If it is nil,
	// os.Environ is used.
	Environ []string

	Timeout time.Duration // limits one run; 0 means [DefaultHelperTimeout]
}

// Get returns the helper's credential for a server. It returns the zero Auth if the helper has no
// credential for the server.
//
// Errors do not contain the helper's output. Helpers print both errors and secrets to standard
// output.
func (h Helper) Get(ctx context.Context, server string) (Auth, error) {
	auth, err := h.get(ctx, server)
	if err != nil {
		return Auth{}, fmt.Errorf("%s get %q: %w", h.programName(), excerpt.RedactAddress(server), err)
	}
	return auth, nil
}

func (h Helper) get(ctx context.Context, server string) (Auth, error) {
	if h.lookupEnv(dockerjson.CallerEnvName) == h.programName() {
		return Auth{}, fmt.Errorf("the helper would call itself (%s is set): remove this helper from the docker config file", dockerjson.CallerEnvName)
	}
	path, err := h.findProgram()
	if err != nil {
		return Auth{}, err
	}
	timeout := h.Timeout
	if timeout <= 0 {
		timeout = DefaultHelperTimeout
	}
	cmd := process.Command{Path: path, Args: []string{"get"}, Environ: h.environ(), Timeout: timeout, MaxOutput: maxHelperOutput}
	res, err := cmd.Run(ctx, strings.NewReader(server))
	if err != nil {
		return Auth{}, helperError(res, err)
	}
	return decodeResponse(res.Stdout)
}

// helperError returns the error of a failed run. It returns nil if the helper has no
// credential.
func helperError(res *process.Result, err error) error {
	failed, ok := errors.AsType[*process.Error](err)
	if !ok {
		return err
	}
	if failed.Reason != process.ReasonExited {
		return failed.Err
	}
	// The messages are from credentials/error.go of docker-credential-helpers.
	switch output := strings.TrimSpace(string(res.Stdout)); output {
	case "credentials not found in native keychain":
		return nil
	case "no credentials server URL", "no credentials username":
		return fmt.Errorf("%w: %q", failed.Err, output)
	}
	return fmt.Errorf("%w; the helper's output is hidden because it might contain secrets: to see it, run the helper manually as the same user and in the same environment", failed.Err)
}

// decodeResponse decodes a helper's output. Field names are case-insensitive, and
// unknown fields are ignored.
func decodeResponse(data []byte) (Auth, error) {
	var resp struct{ Username, Secret *string }
	if len(bytes.TrimSpace(data)) == 0 {
		return Auth{}, errors.New("the response is empty")
	}
	if err := json.Unmarshal(data, &resp); err != nil {
		return Auth{}, fmt.Errorf("invalid credential helper response: %w", dockerjson.FirstProblem(data, err, dockerjson.LayoutFlat))
	}
	if resp.Username == nil || resp.Secret == nil {
		return Auth{}, errors.New("invalid credential helper response: Username or Secret is missing")
	}
	if *resp.Username == tokenUser {
		return Auth{IdentityToken: plugin.NewSecret(*resp.Secret)}, nil
	}
	return Auth{Username: *resp.Username, Password: plugin.NewSecret(*resp.Secret)}, nil
}

// findProgram returns the path of the program. Relative directories in PATH are
// ignored, because they depend on the working directory.
func (h Helper) findProgram() (string, error) {
	if !isHelperName(h.Name) {
		return "", errors.New("invalid helper name: omit the docker-credential- prefix and use only letters, digits, dots, hyphens and underscores")
	}
	file := helperPrefix + h.Name
	if h.Dir != "" {
		return filepath.Join(h.Dir, file), nil
	}
	for _, dir := range filepath.SplitList(h.lookupEnv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		// If the name has a directory, LookPath does not search PATH, but adds the
		// extension on Windows.
		if path, err := exec.LookPath(filepath.Join(dir, file)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("not found in PATH %q", h.lookupEnv("PATH"))
}

// programName returns the program's name for use in errors. It hides an invalid name.
func (h Helper) programName() string {
	if !isHelperName(h.Name) {
		return helperPrefix + "(hidden name)"
	}
	return helperPrefix + h.Name
}

func isHelperName(s string) bool {
	return s != "" && len(s) <= dockerjson.MaxDisplaySize &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == ""
}

func (h Helper) environ() []string {
	if h.Environ == nil {
		return os.Environ()
	}
	return h.Environ
}

// lookupEnv returns a variable of the helper's environment. If the variable is set several times, the
// last value is used.
func (h Helper) lookupEnv(key string) string {
	value := ""
	for _, entry := range h.environ() {
		k, v, _ := strings.Cut(entry, "=")
		if k == key || runtime.GOOS == "windows" && strings.EqualFold(k, key) {
			value = v
		}
	}
	return value
}
