// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/regcred/regcred/internal/secretfile"
	"github.com/regcred/regcred/plugin"
)

// federationConfig is a workload identity federation configuration as written by "gcloud iam
// workload-identity-pools create-cred-config" (google.aip.dev/auth/4117).
type federationConfig struct {
	Type             string `json:"type"`
	Audience         string `json:"audience"`
	SubjectTokenType string `json:"subject_token_type"`
	TokenURL         string `json:"token_url"`
	AccountURL       string `json:"service_account_impersonation_url"`
	Source           struct {
		File   string `json:"file"`
		Format struct {
			Type  string `json:"type"`
			Field string `json:"subject_token_field_name"`
		} `json:"format"`
	} `json:"credential_source"`
}

// credentialsFileToken returns a token for Options.CredentialsFile. It reads the configuration and
// the token file for each request, because the token is replaced before it expires.
func (p *Provider) credentialsFileToken(ctx context.Context) (accessToken, error) {
	f, err := p.readFederation()
	if err != nil {
		return accessToken{}, fmt.Errorf("credential configuration %w", err)
	}
	subject, err := f.subjectToken()
	if err != nil {
		return accessToken{}, fmt.Errorf("credential configuration %q: credential_source: %w", p.opts.CredentialsFile, err)
	}
	if f.AccountURL != "" && p.opts.Transport == nil {
		p.externalTransport.Preconnect(ctx, f.AccountURL)
	}
	token, err := p.exchangeToken(ctx, f.TokenURL, f.Audience, f.SubjectTokenType, subject)
	if err != nil {
		return accessToken{}, addTokenClaims(err, subject)
	}
	if f.AccountURL == "" {
		return token, nil
	}
	return p.impersonateAccount(ctx, token, f.AccountURL)
}

// readFederation reads the configuration file. It rejects a file that other users can write,
// because the file determines where a token is sent. Errors contain only names and hosts.
func (p *Provider) readFederation() (federationConfig, error) {
	data, err := secretfile.ReadTrusted(p.opts.CredentialsFile)
	if err != nil {
		return federationConfig{}, err
	}
	f, err := parseFederation(data, p.opts.UniverseDomain)
	if err != nil {
		return f, fmt.Errorf("%q: %w", p.opts.CredentialsFile, err)
	}
	return f, nil
}

func parseFederation(data []byte, universe string) (f federationConfig, err error) {
	if json.Unmarshal(data, &f) != nil {
		return f, errors.New("not valid JSON")
	}
	return f, f.validate(universe)
}

func (f *federationConfig) validate(universe string) error {
	const federated = `workload identity federation ("external_account")`
	switch {
	case f.Type != "external_account":
		return fmt.Errorf("unsupported type %q: use %s, or use a key file as the password for user _json_key", truncateText(f.Type), federated)
	case f.Audience == "":
		return errors.New("audience is missing")
	case f.Source.File == "":
		return errors.New("credential_source has no file; tokens from executables, URLs and cloud providers are not supported")
	case f.Source.Format.Type == "json" && f.Source.Format.Field == "":
		return errors.New("credential_source has no subject_token_field_name")
	case f.Source.Format.Type != "json" && f.Source.Format.Type != "text" && f.Source.Format.Type != "":
		return fmt.Errorf("the credential_source format is %q; use text or json", truncateText(f.Source.Format.Type))
	}
	f.SubjectTokenType = cmp.Or(f.SubjectTokenType, jwtType)
	if err := checkServiceAddress("token_url", f.TokenURL, "sts", universe); err != nil {
		return err
	}
	if f.AccountURL == "" {
		return nil
	}
	return checkServiceAddress("service_account_impersonation_url", f.AccountURL, "iamcredentials", universe)
}

// checkServiceAddress rejects URLs outside the given Google service. Other Google services might
// store the token where another user, such as the owner of a bucket, could read it.
func checkServiceAddress(name, address, service, universe string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return fmt.Errorf("%s is not an https URL; refusing to send a token to it", name)
	}
	host, ok := strings.CutSuffix(strings.ToLower(u.Hostname()), "."+strings.ToLower(universe))
	if !ok {
		return fmt.Errorf("refusing to send a token to %s, because its host %q is not in %s", name, truncateText(u.Host), universe)
	}
	if !isServiceHost(host, service) {
		return fmt.Errorf("refusing to send a token to %s, because its host %q does not belong to Google's service %q", name, truncateText(u.Host), service)
	}
	return nil
}

var regionName = regexp.MustCompile(`^[a-z]+(-[a-z]+)+[0-9]+$`)

// isServiceHost reports whether a host, without its universe domain, is a global, regional, private
// or mTLS host of a Google service. The forms are those of Google's client libraries, except that
// SERVICE.LABEL must name a region, because SERVICE.storage is a bucket.
func isServiceHost(host, service string) bool {
	labels := strings.Split(strings.TrimSuffix(host, ".mtls"), ".")
	switch first, last := labels[0], labels[len(labels)-1]; len(labels) {
	case 1: // sts, us-east4-sts
		return last == service || strings.HasSuffix(last, "-"+service)
	case 2: // us-east4.sts, sts.us-east4, sts-endpoint.p
		return last == service || first == service && regionName.MatchString(last) || last == "p" && strings.HasPrefix(first+"-", service+"-")
	case 3: // sts.us-east4.rep
		return first == service && last == "rep"
	}
	return false
}

// subjectToken returns the token to exchange.
func (f *federationConfig) subjectToken() (plugin.Secret, error) {
	// The kubelet writes a token with mode 0644 unless the pod sets a user or group. Therefore
	// other users may be able to read the file.
	data, err := secretfile.ReadTrusted(f.Source.File)
	if err != nil {
		return plugin.Secret{}, err
	}
	text := string(data)
	if f.Source.Format.Type == "json" {
		var members map[string]any
		if json.Unmarshal(data, &members) != nil {
			return plugin.Secret{}, fmt.Errorf("%q: not a JSON object", f.Source.File)
		}
		text, _ = members[f.Source.Format.Field].(string)
	}
	text = strings.TrimSpace(text)
	if !isPrintableASCII(text) {
		return plugin.Secret{}, fmt.Errorf("%q: empty or not a token", f.Source.File)
	}
	return plugin.NewSecret(text), nil
}
