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

	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/plugin"
)

// DefaultHelperTimeout bounds one run of a helper. It is below
// [plugin.DefaultServeTimeout], so that a plugin can still name the helper
// that did not answer.
const DefaultHelperTimeout = 45 * time.Second

// AskedBy is the variable in which a helper that runs plugins names itself to
// them: none of them is to ask it again.
const AskedBy = "REGCRED_ASKED_BY"

// helperPrefix begins the file name of every helper.
const helperPrefix = "docker-credential-"

// What helpers say instead of an answer (docker-credential-helpers,
// credentials/error.go).
const (
	notFound    = "credentials not found in native keychain"
	noServerURL = "no credentials server URL"
	noUsername  = "no credentials username"
)

// tokenUser is the user name of an answer whose secret is an identity token.
const tokenUser = "<token>"

// Helper is a docker-credential-* program. It is run as a plugin is by
// [plugin.Command]: without a shell, within its deadline and a bounded output
// whatever it does, and killed with its process group. It is safe for
// concurrent use.
//
// The zero value is not usable: Name is required.
type Helper struct {
	Name string // without "docker-credential-", as in credHelpers and credsStore

	// Dir is where the program is; "" means the absolute directories of PATH
	// in Environ, in their order.
	Dir string

	// Environ is the environment of the program, as "key=value"; nil means
	// that of this process.
	Environ []string

	Timeout time.Duration // bounds one run; 0 means [DefaultHelperTimeout]
}

// Get asks the helper for a server's credential. The zero Auth means that it
// has none; that is not an error.
//
// The helper gets the server URL on its standard input, and answers with JSON
// on its standard output. It writes its errors there too, with whatever they
// hold, so that nothing of them is passed on.
func (h Helper) Get(ctx context.Context, server string) (Auth, error) {
	auth, err := h.get(ctx, server)
	if err != nil {
		return Auth{}, fmt.Errorf("%s get %q: %w", h.program(), excerpt.Address(server), err)
	}
	return auth, nil
}

func (h Helper) get(ctx context.Context, server string) (Auth, error) {
	if h.getenv(AskedBy) == h.program() {
		return Auth{}, fmt.Errorf("the helper would call itself (%s is set): remove this helper from the docker config file", AskedBy)
	}
	path, err := h.find()
	if err != nil {
		return Auth{}, err
	}
	timeout := h.Timeout
	if timeout <= 0 {
		timeout = DefaultHelperTimeout
	}
	cmd := plugin.Command{Path: path, Args: []string{"get"}, Environ: h.Environ, Timeout: timeout}
	x, err := cmd.RunRaw(ctx, strings.NewReader(server))
	if err != nil {
		return Auth{}, judge(x, err)
	}
	return decodeAnswer([]byte(x.Stdout.Reveal()))
}

// judge says why a run gave no answer. It returns nil if the helper has said
// that it has none.
func judge(x *plugin.Exchange, err error) error {
	failed, ok := errors.AsType[*plugin.ExecError](err)
	if !ok {
		return err
	}
	if failed.Stage != plugin.StageExec {
		return failed.Err
	}
	switch said := strings.TrimSpace(x.Stdout.Reveal()); said {
	case notFound:
		return nil
	case noServerURL, noUsername:
		return fmt.Errorf("%w: %q", failed.Err, said)
	}
	return fmt.Errorf("%w; the helper's output is hidden because it might contain secrets: to see it, run the helper manually as the same user and in the same environment", failed.Err)
}

// decodeAnswer reads what a helper wrote. Case and unknown fields do not count.
func decodeAnswer(data []byte) (Auth, error) {
	var answer struct{ Username, Secret *string }
	if len(bytes.TrimSpace(data)) == 0 {
		return Auth{}, errors.New("the response is empty")
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return Auth{}, fmt.Errorf("invalid credential helper response: %w", describe(data, err, flatFile))
	}
	if answer.Username == nil || answer.Secret == nil {
		return Auth{}, errors.New("invalid credential helper response: Username or Secret is missing")
	}
	if *answer.Username == tokenUser {
		return Auth{IdentityToken: plugin.NewSecret(*answer.Secret)}, nil
	}
	return Auth{Username: *answer.Username, Password: plugin.NewSecret(*answer.Secret)}, nil
}

// find returns the path of the program. Relative directories in PATH are left
// out: what they mean depends on who runs us.
func (h Helper) find() (string, error) {
	if !isHelperName(h.Name) {
		return "", errors.New("invalid helper name: omit the docker-credential- prefix and use only letters, digits, dots, hyphens and underscores")
	}
	file := helperPrefix + h.Name
	if h.Dir != "" {
		return filepath.Join(h.Dir, file), nil
	}
	for _, dir := range filepath.SplitList(h.getenv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		// With a directory in front, LookPath looks at that file alone; on
		// Windows it finds the extension.
		if path, err := exec.LookPath(filepath.Join(dir, file)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("not found in PATH %q", h.getenv("PATH"))
}

// program is how errors name the helper.
func (h Helper) program() string {
	if !isHelperName(h.Name) {
		return helperPrefix + "(hidden name)"
	}
	return helperPrefix + h.Name
}

func isHelperName(s string) bool {
	return s != "" && len(s) <= maxShown &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == ""
}

// getenv looks a variable up in the helper's environment; the last one counts.
func (h Helper) getenv(key string) string {
	environ := h.Environ
	if environ == nil {
		environ = os.Environ()
	}
	value := ""
	for _, entry := range environ {
		k, v, _ := strings.Cut(entry, "=")
		if k == key || runtime.GOOS == "windows" && strings.EqualFold(k, key) {
			value = v
		}
	}
	return value
}
