// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package static implements a [plugin.Provider] that returns one credential for all configured
// registries. The user name and password are read from files for each request.
// docs/plugins/static.md describes the plugin.
package static

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/internal/secretfile"
	"github.com/regcred/regcred/plugin"
)

// DefaultCacheDuration is the interval at which the kubelet re-reads its own docker
// config files. It limits how long an old password is used after it is replaced.
const DefaultCacheDuration = 5 * time.Minute

// Options configures a [Provider]. A user name, a password and at least one host are
// required.
type Options struct {
	Username     string // or UsernameFile
	UsernameFile string

	PasswordFile       string // or PasswordCredential
	PasswordCredential string // name of a systemd credential

	// CredentialsDir is the value of CREDENTIALS_DIRECTORY, the directory in which systemd puts a
	// unit's credentials.
	CredentialsDir string

	// Hosts lists the registries that receive the password, as host[:port]. A * matches within one
	// label. It is not allowed in the last two labels.
	Hosts []string

	// CacheDuration is the cache duration of responses; 0 disables caching.
	CacheDuration time.Duration

	// OtherHosts is the behavior for other hosts: "fail" (default) or "empty".
	OtherHosts string
}

// Provider is a [plugin.Provider]. It is safe for concurrent use.
type Provider struct{ opts Options }

// New returns a provider. It validates only the options, because the files are read for
// each request.
func New(opts Options) (*Provider, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if opts.PasswordCredential != "" {
		opts.PasswordFile = filepath.Join(opts.CredentialsDir, opts.PasswordCredential)
	}
	opts.Hosts = slices.Clone(opts.Hosts)
	return &Provider{opts}, nil
}

func (o Options) validate() error {
	switch {
	case (o.Username == "") == (o.UsernameFile == ""):
		return errors.New("set either --username or --username-file")
	case o.Username != "" && checkUsername(o.Username) != nil:
		return fmt.Errorf("--username: %w", checkUsername(o.Username))
	case (o.PasswordFile == "") == (o.PasswordCredential == ""):
		return errors.New("set either --password-file or --password-credential")
	case strings.Trim(o.PasswordCredential, ".") == "" && o.PasswordCredential != "" || strings.ContainsAny(o.PasswordCredential, `/\`):
		return fmt.Errorf("--password-credential %q is not the name of a systemd credential; use --password-file for a path", o.PasswordCredential)
	case o.PasswordCredential != "" && o.CredentialsDir == "":
		return errors.New("--password-credential: CREDENTIALS_DIRECTORY is not set; add LoadCredential= or LoadCredentialEncrypted= to the kubelet's unit, and restart it")
	case len(o.Hosts) == 0:
		return errors.New("--host is required for each registry that may receive the password, for example --host registry.example:5000")
	case o.CacheDuration < 0:
		return fmt.Errorf("--cache-duration %v must not be negative; to disable caching, use 0s", o.CacheDuration)
	}
	for _, host := range o.Hosts {
		if err := hostpattern.Validate(host); err != nil {
			return fmt.Errorf("--host %q: %w", excerpt.RedactAddress(host), err)
		}
	}
	return registry.OtherHosts(o.OtherHosts).Validate()
}

// GetCredentials implements [plugin.Provider]. It reads the files only for configured hosts.
func (p *Provider) GetCredentials(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
	host := req.Registry()
	if host == "" {
		return nil, fmt.Errorf("image %q does not begin with a registry host", req.Image)
	}
	if !hostpattern.MatchAny(p.opts.Hosts, host) {
		return registry.OtherHosts(p.opts.OtherHosts).Response(host, "not matched by any --host", "add --host="+host)
	}
	auth, err := p.readCredential()
	if err != nil {
		return nil, fmt.Errorf("registry %q: %w", host, err)
	}
	return &plugin.Response{
		CacheKeyType: plugin.CacheRegistry, CacheDuration: &p.opts.CacheDuration,
		Auth: map[string]plugin.AuthConfig{host: auth},
	}, nil
}

// readCredential reads the user name and password. If both are in files, it reads them together, so
// that they are from the same version.
func (p *Provider) readCredential() (plugin.AuthConfig, error) {
	paths := []string{p.opts.PasswordFile}
	if p.opts.UsernameFile != "" {
		paths = append(paths, p.opts.UsernameFile)
	}
	files, err := secretfile.Read(paths...)
	if err == nil {
		err = files[0].CheckNotExposed() // the password file
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return plugin.AuthConfig{}, fmt.Errorf("read %w; create the file or fix the flag", err)
	case err != nil:
		return plugin.AuthConfig{}, fmt.Errorf("read %w", err)
	}
	auth := plugin.AuthConfig{Username: p.opts.Username, Password: plugin.NewSecret(trimLineEnding(files[0].Data))}
	if auth.Password.IsZero() {
		return plugin.AuthConfig{}, fmt.Errorf("read %q: file is empty; write the password to the file", files[0].Path)
	}
	if len(files) == 1 {
		return auth, nil
	}
	auth.Username = trimLineEnding(files[1].Data)
	if err := checkUsername(auth.Username); err != nil {
		return plugin.AuthConfig{}, fmt.Errorf("read %q: %w", files[1].Path, err)
	}
	return auth, nil
}

// checkUsername validates a user name. The files may have been swapped, so errors do not contain
// the name.
func checkUsername(name string) error {
	switch {
	case name == "":
		return errors.New("file is empty; write the user name to the file")
	case strings.ContainsFunc(name, unicode.IsControl):
		return errors.New("the user name contains a control character; write the user name on one line")
	case strings.Contains(name, ":"):
		return errors.New("the user name contains a colon, which HTTP Basic authentication does not allow")
	}
	return nil
}

// trimLineEnding returns data without the line ending that editors and echo append. It removes only
// one.
func trimLineEnding(data []byte) string {
	if rest, ok := bytes.CutSuffix(data, []byte("\n")); ok {
		data = bytes.TrimSuffix(rest, []byte("\r"))
	}
	return string(data)
}
