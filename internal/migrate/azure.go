// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package migrate

import (
	"encoding/json"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/registry"
)

// planAzure adds the changes for Azure. The upstream plugin knows Azure's hosts, and
// returns no credential for other hosts.
func (e *cloudProvider) planAzure() {
	cloud, known := e.readCloudConfig()
	for _, m := range e.cloud.MirrorArgs(e.Arguments()) {
		if m.Foreign {
			e.addArg("--mirror-origin="+string(registry.OriginTrusted),
				"images from %s are pulled from a mirror; if the runtime falls back to the original registry, it sends the password there. "+
					"Set this flag to none if the runtime cannot fall back (regcred doctor checks whether it can)", excerpt.TruncateValue(m.Host))
		}
	}
	foreign, wide := e.classifyHosts()
	if own := known && cloud.hasCustomCloudNames(); (len(foreign) > 0 || wide) && !own {
		e.addArg("--other-hosts="+string(registry.OtherHostsEmpty),
			"matchImages matches hosts that are not Azure registries; the upstream plugin returns no credential for them, but regcred's plugin fails without this flag")
	} else if own {
		e.addRemark("this cloud has its own registry names, which both plugins read from the cloud's metadata")
	}
	switch {
	case !known:
		e.addRemark("cannot read the cloud configuration; if it has a service principal, add --static-client-secret to return the principal's secret, as the upstream plugin does")
	case !cloud.ManagedIdentity && cloud.ClientID != "" && cloud.ClientSecret:
		e.addArg("--static-client-secret", "the cloud configuration has a service principal; the upstream plugin returns its secret, but regcred's plugin returns a token, "+
			"which requires access to Microsoft Entra ID. Omit this flag if the nodes can reach Entra ID")
	}
	if known && cloud.PermissionErr != nil {
		e.addRemark("regcred's plugin rejects the cloud configuration's file permissions, which the upstream plugin does not check: %v", cloud.PermissionErr)
	}
	if known && strings.HasPrefix(strings.ToLower(cloud.ResourceManager), "http:") {
		e.addRemark("resourceManagerEndpoint uses http, so an attacker on the network can redirect the secret to another host; regcred's plugin requires https")
	}
}

// readCloudConfig holds the fields of azure.json that are used.
type cloudConfig struct {
	Cloud           string
	ResourceManager string
	ManagedIdentity bool
	ClientID        string
	ClientSecret    bool  // whether it is set
	PermissionErr   error // why regcred's plugin rejects the file
}

func (c cloudConfig) hasCustomCloudNames() bool {
	return c.ResourceManager != "" || strings.EqualFold(c.Cloud, "AzureStackCloud")
}

// readCloudConfig reads the file named in the plugin's argument. Field names are
// case-insensitive, as in the upstream plugin.
func (e *cloudProvider) readCloudConfig() (c cloudConfig, ok bool) {
	path := e.positionalArg()
	if path == "" {
		return c, false
	}
	read, err := e.readFile(path)
	var data []byte
	if err == nil {
		data, err = yaml.YAMLToJSON(read.Data)
	}
	var file struct {
		Cloud           string `json:"cloud"`
		ResourceManager string `json:"resourceManagerEndpoint"`
		ManagedIdentity bool   `json:"useManagedIdentityExtension"`
		ClientID        string `json:"aadClientId"`
		ClientSecret    string `json:"aadClientSecret"`
		CertPassword    string `json:"aadClientCertPassword"`
	}
	if err != nil || json.Unmarshal(data, &file) != nil {
		return c, false
	}
	read.Path = path                                                // as in the argument
	secret := file.ClientSecret != "" && file.ClientSecret != "msi" // AKS uses msi if there is no secret
	refused := read.CheckNotWritable()
	if secret || file.CertPassword != "" {
		refused = read.CheckNotExposed()
	}
	return cloudConfig{file.Cloud, file.ResourceManager, file.ManagedIdentity, file.ClientID, secret, refused}, true
}

// positionalArg returns the argument that is neither a flag nor the value of a flag.
func (e *cloudProvider) positionalArg() string {
	args := e.Arguments()
	for i := 0; i < len(args); i++ {
		switch flag, _, valued := strings.Cut(args[i], "="); {
		case !strings.HasPrefix(flag, "-") && flag != "get-credentials":
			return args[i]
		case !valued && strings.HasPrefix(flag, "-") && !slices.Contains(booleanFlags, flag) && (len(flag) == len("-r") || strings.HasPrefix(flag, "--")):
			i++ // its value
		}
	}
	return ""
}

// booleanFlags lists both plugins' flags that take no value.
var booleanFlags = []string{"--static-client-secret", "--fallback-to-node-identity", "--version", "--help", "-h"}
