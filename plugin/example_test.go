// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/regcred/regcred/plugin"
)

// A complete plugin. A kubelet runs it with a request on standard input.
func Example() {
	plugin.Main(plugin.ProviderFunc(func(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
		token, err := os.ReadFile("/etc/registry.example/token")
		if err != nil {
			return nil, err
		}
		return &plugin.Response{
			CacheKeyType:  plugin.CacheRegistry,
			CacheDuration: new(10 * time.Minute),
			Auth:          map[string]plugin.AuthConfig{"registry.example": {Username: "node", Password: plugin.NewSecret(string(token))}},
		}, nil
	}))
}

// This example calls Serve with its own streams and exit code, as a test of a plugin does.
func ExampleServe() {
	request := `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"registry.example/app"}`
	nothing := plugin.ProviderFunc(func(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
		return &plugin.Response{CacheKeyType: plugin.CacheImage}, nil
	})
	code := plugin.Serve(context.Background(), nothing, plugin.ServeOptions{
		Stdin:   strings.NewReader(request),
		Args:    []string{},
		Version: "v1.2.3",
	})
	fmt.Println("exit code", code)
	// Output:
	// {"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image"}
	// exit code 0
}

// A Command runs any plugin, and reports the stage at which a run failed.
func ExampleCommand() {
	cmd := plugin.Command{
		Path:       "/usr/libexec/no-such-plugin",
		APIVersion: plugin.V1,
		Timeout:    10 * time.Second,
	}
	_, err := cmd.GetCredentials(context.Background(), &plugin.Request{Image: "registry.example/team/app"})
	var failed *plugin.ExecError
	if errors.As(err, &failed) {
		fmt.Println(failed.Stage)
		fmt.Println(failed)
	}
	// Output:
	// start
	// plugin "no-such-plugin": start: start "/usr/libexec/no-such-plugin": no such file or directory
}

// A Secret is masked wherever it is printed.
func ExampleSecret() {
	auth := plugin.AuthConfig{Username: "ci", Password: plugin.NewSecret("open-sesame")}
	fmt.Printf("%+v\n", auth)
	fmt.Println(auth.Password.Reveal())
	// Output:
	// {Username:ci Password:[redacted]}
	// open-sesame
}
