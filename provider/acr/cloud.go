// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/regcred/regcred/internal/remote"
)

// cloudEnvironment holds the settings that differ between clouds.
type cloudEnvironment struct {
	authority        string // URL of Microsoft Entra ID, without a trailing slash
	authoritySetting string // name of the setting that contains authority; "" if built in
	suffix           string // domain suffix of registries; "" if built in
}

// azureStackCloud is the only cloud whose environment file is read.
const azureStackCloud = "AzureStackCloud"

// cloudAuthorities maps the names of built-in clouds, in lower case, to the URLs of their authorities.
// All other clouds use the public cloud's authority by default.
var cloudAuthorities = map[string]string{
	"azurechinacloud":        "https://login.chinacloudapi.cn",
	"azureusgovernment":      "https://login.microsoftonline.us",
	"azureusgovernmentcloud": "https://login.microsoftonline.us",
}

const publicAuthority = "https://login.microsoftonline.com"

// loadEnvironment returns the settings of the configured cloud. The resource manager's settings
// override the built-in settings, and the environment file overrides both.
func (s *session) loadEnvironment(ctx context.Context) (cloudEnvironment, error) {
	if s.env != nil {
		return *s.env, nil
	}
	cfg, err := s.loadConfig()
	if err != nil {
		return cloudEnvironment{}, err
	}
	env := cloudEnvironment{authority: publicAuthority}
	if known, ok := cloudAuthorities[strings.ToLower(cfg.Cloud)]; ok {
		env.authority = known
	}
	if pod := s.opts.pod; pod != nil {
		env.overrideSettings(pod.authority, "", envAuthority)
	}
	if cfg.ResourceManagerEndpoint != "" {
		if err := s.queryResourceManager(ctx, cfg, &env); err != nil {
			return cloudEnvironment{}, err
		}
	}
	if file := s.opts.Getenv("AZURE_ENVIRONMENT_FILEPATH"); file != "" && strings.EqualFold(cfg.Cloud, azureStackCloud) {
		own, err := readEnvironmentFile(file)
		if err != nil {
			return cloudEnvironment{}, err
		}
		env.overrideSettings(own.ActiveDirectoryEndpoint, own.RegistrySuffix, fmt.Sprintf("activeDirectoryEndpoint in the environment file %q", file))
	}
	s.env = &env
	return env, nil
}

// findRegistry returns the registry for a host. It reads the configuration only for hosts outside
// the public clouds. In a custom cloud it also queries the resource manager, without a credential.
func (s *session) findRegistry(ctx context.Context, host string) (acrHost, bool, error) {
	if reg, ok := s.rules.findRegistry(host); ok || host == "" {
		return reg, ok, nil
	}
	env, err := s.loadEnvironment(ctx)
	if err != nil {
		return acrHost{}, false, err
	}
	s.rules = s.rules.withSuffix(env.suffix)
	reg, ok := s.rules.findRegistry(host)
	return reg, ok, nil
}

// overrideSettings replaces settings with the arguments that are not empty. from names the source of
// authority.
func (e *cloudEnvironment) overrideSettings(authority, suffix, from string) {
	if authority != "" {
		e.authority, e.authoritySetting = strings.TrimRight(authority, "/"), from
	}
	if suffix != "" {
		e.suffix = suffix
	}
}

// queryResourceManager gets the endpoints of a custom cloud. It requires TLS, because secrets will
// be sent to these endpoints.
func (s *session) queryResourceManager(ctx context.Context, cfg *config, env *cloudEnvironment) error {
	if !isHTTPS(cfg.ResourceManagerEndpoint) {
		return fmt.Errorf("cloud configuration %q: resourceManagerEndpoint must be an https URL, because its response determines where secrets are sent", s.opts.ConfigFile)
	}
	answer, err := s.client.Do(ctx, remote.Call{
		Step: "query the resource manager for the cloud's endpoints",
		URL:  strings.TrimRight(cfg.ResourceManagerEndpoint, "/") + "/metadata/endpoints?api-version=2019-05-01",
	})
	if err != nil {
		return addHint(err, "check resourceManagerEndpoint in the cloud configuration")
	}
	found, err := parseCloudMetadata(answer.Body, cfg.Cloud)
	if err != nil {
		return fmt.Errorf("query the resource manager %s for the cloud's endpoints: %w", answer.URL.Host, err)
	}
	env.overrideSettings(found.authority, found.suffix, "loginEndpoint in the response from the resource manager "+answer.URL.Host)
	return nil
}

// isHTTPS reports whether s is an https URL.
func isHTTPS(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil
}

// parseCloudMetadata returns the settings of the named cloud, or of the first cloud if the name is
// empty. For an unknown name it returns no settings, as the upstream plugin does.
func parseCloudMetadata(body []byte, cloud string) (cloudEnvironment, error) {
	var list []struct {
		Name           string `json:"name"`
		Authentication struct {
			LoginEndpoint string `json:"loginEndpoint"`
		} `json:"authentication"`
		Suffixes struct {
			LoginServer string `json:"acrLoginServer"`
		} `json:"suffixes"`
	}
	if json.Unmarshal(body, &list) != nil {
		return cloudEnvironment{}, errors.New("the response is not a JSON list of clouds")
	}
	for _, c := range list {
		if cloud == "" || strings.EqualFold(c.Name, cloud) {
			return cloudEnvironment{authority: c.Authentication.LoginEndpoint, suffix: c.Suffixes.LoginServer}, nil
		}
	}
	return cloudEnvironment{}, nil
}

// tokenURL returns the tenant's token endpoint. In the public cloud, it returns the region's own
// endpoint if a region is set, as Microsoft's libraries do. The value TryAutoDetect is ignored,
// because it needs another request.
func (e cloudEnvironment) tokenURL(tenant, region string) (string, error) {
	if !consistsOf(tenant, ".-") || tenant[0] == '.' {
		return "", fmt.Errorf("invalid tenant ID %.100q: use letters, digits, \".\" and \"-\"", tenant)
	}
	if !isHTTPS(e.authority) {
		return "", fmt.Errorf("%s is not an https URL; refusing to send a secret to it", e.authoritySetting)
	}
	region = strings.ToLower(region)
	if e.authority == publicAuthority && isAlphanumeric(region) && region != "tryautodetect" {
		return "https://" + region + ".login.microsoft.com/" + tenant + "/oauth2/v2.0/token", nil
	}
	return url.JoinPath(e.authority, tenant, "oauth2/v2.0/token")
}
