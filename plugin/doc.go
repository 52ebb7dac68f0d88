// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package plugin speaks the kubelet's exec protocol for image credential
// providers, at both ends: [Command] runs a plugin the way a kubelet does, and
// [Main] turns a [Provider] into a plugin.
//
// A whole plugin is one function:
//
//	func main() {
//		plugin.Main(plugin.ProviderFunc(func(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
//			return &plugin.Response{
//				CacheKeyType:  plugin.CacheRegistry,
//				CacheDuration: new(10 * time.Minute),
//				Auth:          map[string]plugin.AuthConfig{"registry.example": {Username: "ci", Password: "…"}},
//			}, nil
//		}))
//	}
//
// The package knows one struct per kind; the API version is data, and
// [Fields] says which version carries which field. It does not match images,
// cache answers or read configuration files: that is the root package.
//
// Both ends also speak [OutOfTree], the protocol that was proposed before the
// kubelet's; docs/protocol.md has the two side by side.
//
// It depends on the standard library and sigs.k8s.io/json alone, so that a
// plugin stays small.
package plugin
