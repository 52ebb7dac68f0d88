// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package clients

const (
	hubURL      = "https://index.docker.io/v1/"
	dockerFiles = "$DOCKER_CONFIG, ~/.docker"
	registryAuthFilesText   = dockerFiles + ", $REGISTRY_AUTH_FILE, $XDG_RUNTIME_DIR/containers"
)

// The traits of clients that use containers/image, docker's own config package,
// go-containerregistry and oras-go.
var (
	containersImage = clientTraits{
		Hub: "docker.io", HubKeys: "docker.io", Store: "-", HubStore: "-", Public: publicHost, PublicFailure: stopsWithReason, PrivateFailure: stopsWithReason,
		Stderr: shownText, WrongPassword: "unauthorized", Patterns: "-", Files: registryAuthFilesText + ", registries.conf",
	}
	dockerConfig = clientTraits{
		Hub: hubURL, HubKeys: hubURL, Store: privateHost + ":5000", HubStore: hubURL, Public: publicHost, PublicFailure: continuesPull, PrivateFailure: failsWithoutReason,
		Stderr: shownText, WrongPassword: "no such manifest", Patterns: "-", Files: dockerFiles,
	}
	goContainerRegistry = clientTraits{
		Hub: hubURL, HubKeys: hubURL, Store: privateHost + ":5000/team/app", HubStore: "index.docker.io/team/app", Public: publicHost, PublicFailure: stopsWithReason, PrivateFailure: stopsWithReason,
		Stderr: shownText, WrongPassword: "UNAUTHORIZED", Patterns: "credHelpers by repository, credsStore", Files: registryAuthFilesText,
	}
	orasGo = clientTraits{
		Hub: hubURL, HubKeys: hubURL, Store: privateHost + ":5000", HubStore: hubURL, Public: "-", PublicFailure: "-", PrivateFailure: stopsWithReason,
		Stderr: shownText, WrongPassword: "unauthorized", Patterns: "-", Files: dockerFiles,
	}
)

// withChange returns a copy of the traits with a change.
func (t clientTraits) withChange(change func(*clientTraits)) clientTraits {
	change(&t)
	return t
}

// clients lists all clients. Clients without a module are Debian packages; the others are built.
var clients = []*client{
	{
		name: "skopeo", program: "skopeo", pkg: "skopeo", version: "1.9.3", content: appRepository,
		pull: runCommandJob("copy docker://IMAGE dir:HOME/image"), traits: containersImage,
	},
	{
		name: "podman", program: "podman", pkg: "podman", version: "4.3.1", content: appRepository,
		pull: runCommandJob("--root HOME/root --runroot HOME/runroot --storage-driver vfs pull IMAGE"), traits: containersImage,
	},
	{
		name: "buildah", program: "buildah", pkg: "buildah", version: "1.28.2", content: appRepository,
		pull: runCommandJob("--root HOME/root --runroot HOME/runroot --storage-driver vfs pull IMAGE"), traits: containersImage,
	},
	{
		name: "docker", program: "docker", pkg: "docker.io", version: "20.10.24+dfsg1", content: appRepository,
		pull: runCommandJob("manifest inspect IMAGE"), traits: dockerConfig,
	},
	{
		name: "docker pull", program: "docker", pkg: "docker.io", version: "20.10.24+dfsg1", content: appRepository,
		pull: runDaemonJob("pull IMAGE"), daemon: true, traits: dockerConfig.withChange(func(t *clientTraits) { t.WrongPassword = "unauthorized" }),
	},
	{
		name: "buildx", program: "buildx", module: "github.com/docker/buildx", pkg: "/cmd/buildx", version: "v0.38.2", content: appRepository,
		pull: runCommandJob("imagetools inspect IMAGE"), traits: dockerConfig.withChange(func(t *clientTraits) { t.PrivateFailure, t.WrongPassword = stopsWithReason, "401 Unauthorized" }),
	},
	{
		name: "crane", program: "crane", module: "github.com/google/go-containerregistry", pkg: "/cmd/crane", version: "v0.22.1", content: appRepository,
		pull: runCommandJob("pull IMAGE HOME/image.tar"), traits: goContainerRegistry,
	},
	{
		name: "ko", program: "ko", module: "github.com/google/ko", version: "v0.19.1", content: appRepository,
		pull: koBuild, traits: goContainerRegistry,
	},
	{
		name: "cosign", program: "cosign", module: "github.com/sigstore/cosign/v3", pkg: "/cmd/cosign", version: "v3.1.3", content: appRepository,
		pull: runCommandJob("save --dir HOME/image IMAGE"), traits: goContainerRegistry,
	},
	{
		name: "oras", program: "oras", module: "oras.land/oras", pkg: "/cmd/oras", version: "v1.3.6", content: appRepository,
		pull: runCommandJob("copy --to-oci-layout IMAGE HOME/image:v1"), traits: orasGo,
	},
	{
		name: "helm", program: "helm", module: "helm.sh/helm/v4", pkg: "/cmd/helm", version: "v4.3.1", content: chartRepository,
		pull: runCommandJob("pull oci://REPOSITORY --version TAG --destination HOME"), traits: orasGo.withChange(func(t *clientTraits) { t.Files += ", $HELM_REGISTRY_CONFIG" }),
	},
	{
		name: "conftest", program: "conftest", module: "github.com/open-policy-agent/conftest", version: "v0.71.1", content: policyRepository,
		pull: runCommandJob("pull --tls oci://IMAGE --policy HOME/policy"), traits: orasGo,
	},
	{
		name: "regctl", program: "regctl", module: "github.com/regclient/regclient", pkg: "/cmd/regctl", version: "v0.11.7", content: appRepository,
		pull: runCommandJob("image copy IMAGE ocidir://HOME/image:v1"),
		traits: orasGo.withChange(func(t *clientTraits) {
			t.HubKeys, t.Store = "docker.io, registry-1.docker.io, "+hubURL, "list, "+privateHost+":5000"
			t.HubStore, t.PrivateFailure = "list, "+hubURL, failsWithoutReason
		}),
	},
	{
		name: "cue", program: "cue", module: "cuelang.org/go", pkg: "/cmd/cue", version: "v0.17.1", content: cueModule,
		pull: cueEval,
		traits: orasGo.withChange(func(t *clientTraits) {
			t.Hub, t.HubKeys, t.Public, t.PublicFailure, t.Stderr = "docker.io", "docker.io", publicHost, stopsWithReason, breaksText
			t.HubStore, t.WrongPassword, t.Files = "docker.io", "401 Unauthorized", t.Files+", $XDG_RUNTIME_DIR/containers"
		}),
	},
	{
		name: "registry", program: "registry", module: "github.com/distribution/distribution/v3", pkg: "/cmd/registry", version: "v3.1.2",
		content: appRepository, pull: pullThrough, ownConfig: true,
		traits: clientTraits{
			Hub: "registry-1.docker.io", HubKeys: "-", Store: "-", HubStore: "-", Public: "-", PublicFailure: "-", PrivateFailure: stopsWithReason, Stderr: shownText, WrongPassword: "manifest unknown",
			Patterns: "-", Files: "proxy.exec",
		},
	},
}
