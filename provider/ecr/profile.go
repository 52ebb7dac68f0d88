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
	environ, profile := s.environ, s.profile
	if environ.Credentials.HasKeys() || environ.WebIdentityTokenFilePath != "" || hasIdentity(profile) {
		return nil
	}
	for _, v := range s.profileFiles() {
		if v.file == "" {
			continue
		}
		f, err := os.Open(v.file)
		if err != nil {
			return fmt.Errorf("%s: %v", v.name, err) // not wrapped, so that the error message contains the variable's name
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
