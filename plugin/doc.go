// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package plugin implements both sides of the kubelet's exec protocol for image credential
// providers: [Command] runs a plugin as a kubelet does, and [Main] turns a [Provider] into a
// plugin.
//
// A plugin is one function:
//
//	func main() {
//		plugin.Main(plugin.ProviderFunc(func(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
//			return &plugin.Response{
//				CacheKeyType:  plugin.CacheRegistry,
//				CacheDuration: new(10 * time.Minute),
//				Auth:          map[string]plugin.AuthConfig{"registry.example": {Username: "ci", Password: plugin.NewSecret("…")}},
//			}, nil
//		}))
//	}
//
// A host runs it:
//
//	command := plugin.Command{Path: "/usr/libexec/credential-providers/ecr", APIVersion: plugin.V1}
//	response, err := command.GetCredentials(ctx, &plugin.Request{Image: "registry.example/team/app"})
//
// [Request] and [Response] are the same for all API versions. Both sides also implement
// [OutOfTree], an earlier proposal. docs/protocol.md describes both protocols.
//
// The package does not match images, cache responses or read configuration files. The root
// package does. The only dependency of this package is sigs.k8s.io/json, so that plugins are
// small.
package plugin
