// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"cmp"
	"fmt"
	"os"

	"github.com/aws/aws-sdk-go-v2/config"
)

// checkProfile returns an error if the environment names a profile file that cannot be
// read, or a credentials file that contains no credentials. The SDK would treat both as
// empty and use the node's identity.
func (s *session) checkProfile() error {
	var environ config.EnvConfig
	var profile config.SharedConfig
	for _, source := range s.sources {
		switch c := source.(type) {
		case config.EnvConfig:
			environ = c
		case config.SharedConfig:
			profile = c
		}
	}
	if environ.Credentials.HasKeys() || environ.WebIdentityTokenFilePath != "" || hasIdentity(profile) {
		return nil
	}
	for _, v := range []struct{ name, file string }{
		{"AWS_CONFIG_FILE", environ.SharedConfigFile}, {"AWS_SHARED_CREDENTIALS_FILE", environ.SharedCredentialsFile},
	} {
		if v.file == "" {
			continue
		}
		f, err := os.Open(v.file)
		if err != nil {
			return fmt.Errorf("%s: %v", v.name, err) // not wrapped, so that the variable's name is printed
		}
		f.Close()
	}
	if environ.SharedCredentialsFile != "" {
		return fmt.Errorf("AWS_SHARED_CREDENTIALS_FILE is %q, which has no credentials for the profile %q",
			environ.SharedCredentialsFile, cmp.Or(profile.Profile, environ.SharedConfigProfile, config.DefaultSharedConfigProfile))
	}
	return nil
}

// hasIdentity reports whether a profile configures a source of credentials.
func hasIdentity(p config.SharedConfig) bool {
	return p.Credentials.HasKeys() || p.CredentialSource != "" || p.CredentialProcess != "" || p.WebIdentityTokenFile != "" ||
		p.RoleARN != "" || p.SourceProfileName != "" || p.SSOSessionName != "" || p.SSOStartURL != ""
}
