// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cmd_test

import (
	"encoding/base64"
	"encoding/pem"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
)

var update = flag.Bool("update", false, "write the wire samples anew")

// wireDir has a file for each kind of exchange with a cloud.
var wireDir = filepath.Join("..", "internal", "testcloud", "testdata", "wire")

// node is a machine in a cloud whose requests are recorded.
type node struct {
	t   *testing.T
	net *testcloud.FakeNetwork
	tap *exchangeRecorder

	dir     string
	environ []string
	args    []string
	req     plugin.Request
}

// recordedConversations lists the exchanges of each plugin with its cloud, in order. The request for ACR's
// challenge is sent concurrently with the token request. It is listed after the token request.
var recordedConversations = []struct {
	name, plugin, image string
	prepare             func(*node)
	want                []string
}{
	{"the instance's role", "ecr-credential-provider", privateImage, setUpAWS,
		[]string{"aws-imds-token", "aws-imds-role", "aws-imds-credentials", "aws-ecr-authorization"}},
	{"the container's role, for ECR Public", "ecr-credential-provider", "public.ecr.aws/team/app", setUpContainerCredentials,
		[]string{"aws-container-credentials", "aws-ecr-public-authorization"}},
	{"the instance's region", "ecr-credential-provider", "registry.example/team/app", setUpRegion,
		[]string{"aws-imds-token", "aws-imds-region", "aws-imds-role", "aws-imds-credentials", "aws-ecr-authorization"}},
	{"a pod's role", "ecr-credential-provider", privateImage, withAssumedRole,
		[]string{"aws-sts-web-identity", "aws-ecr-authorization-as-role"}},
	{"a role of the registry's account", "ecr-credential-provider", privateImage, withRole,
		[]string{"aws-imds-token", "aws-imds-role", "aws-imds-credentials", "aws-sts-role", "aws-ecr-authorization-as-role"}},

	{"the node's token", "auth-provider-gcp", "gcr.io/project/app", setUpGoogle("get-credentials"),
		[]string{"google-metadata-token"}},
	{"a docker config", "auth-provider-gcp", "gcr.io/project/app", setUpGoogle("--authFlow=dockercfg"),
		[]string{"google-metadata-dockercfg"}},
	{"a pod of GKE", "auth-provider-gcp", "gcr.io/project/app", setUpGoogle("--project-id=project",
		"--identity-provider=https://container.googleapis.com/v1/projects/project/locations/l/clusters/c"),
		[]string{"google-sts"}},
	{"a pod that impersonates", "auth-provider-gcp", "gcr.io/project/app", setUpGoogle("--impersonate",
		"--sts-audience=//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/cluster"),
		[]string{"google-sts-audience", "google-impersonation"}},

	{"the node's identity", "acr-credential-provider", "team.azurecr.io/app", setUpAzure(`"useManagedIdentityExtension": true`),
		[]string{"azure-imds-token", "azure-acr-challenge", "azure-acr-exchange"}},
	{"the node's identity on App Service", "acr-credential-provider", "team.azurecr.io/app", setUpAppService,
		[]string{"azure-app-service-token", "azure-acr-challenge", "azure-acr-exchange"}},
	{"the node's secret", "acr-credential-provider", "team.azurecr.io/app", setUpAzure(`"aadClientId": "node-client", "aadClientSecret": "` + canary.PasswordSecret + `"`),
		[]string{"azure-entra-client-secret", "azure-acr-challenge", "azure-acr-exchange"}},
	{"a pod's identity", "acr-credential-provider", "team.azurecr.io/app", withServiceAccountIdentity,
		[]string{"azure-entra-client-assertion", "azure-acr-challenge", "azure-acr-exchange-of-pod"}},
	{"a pod's bound identity", "acr-credential-provider", "team.azurecr.io/app", withIdentityBinding,
		[]string{"azure-identity-binding", "azure-acr-challenge", "azure-acr-exchange"}},
	{"a cloud of one's own, another's image", "acr-credential-provider", "team.azurecr.other.example/app", setUpCustomCloud,
		[]string{"azure-resource-manager"}},
}

const privateImage = "111122223333.dkr.ecr.eu-west-1.amazonaws.com/team/app"

// TestWire compares the messages of the cloud plugins and of the fake clouds with the
// samples in wireDir. With -update it rewrites the samples.
func TestWire(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux does a Go program take its authorities from SSL_CERT_FILE")
	}
	bin, seen := buildProgramsDir(t), map[string]bool{}
	for _, c := range recordedConversations {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t)
			n.req.Image = c.image
			c.prepare(n)
			samples := n.run(programPath(bin, c.plugin))
			if len(samples) != len(c.want) {
				t.Fatalf("got %d exchanges, want %d:\n%s", len(samples), len(c.want), strings.Join(samples, "\n"))
			}
			for i, name := range c.want {
				compareSample(t, name, samples[i], seen[name])
				seen[name] = true
			}
		})
	}
	checkListed(t, seen)
}

// compareSample compares an exchange with the sample of that name. With -update, the
// first exchange with the name writes the sample.
func compareSample(t *testing.T, name, sample string, written bool) {
	t.Helper()
	path := filepath.Join(wireDir, name+".txt")
	if *update && !written {
		must.Do(t, os.WriteFile(path, []byte(sample), 0o644))
	}
	want := must.Get(os.ReadFile(path))(t)
	if diff := cmp.Diff(string(want), sample); diff != "" {
		t.Errorf("%s: another exchange; if that is meant, run the test with -update (-sample +got)\n%s", name, diff)
	}
}

// checkListed checks that every sample is used by a conversation and listed in the
// README.
func checkListed(t *testing.T, seen map[string]bool) {
	t.Helper()
	readme := must.Get(os.ReadFile(filepath.Join(wireDir, "README.md")))(t)
	files := must.Get(filepath.Glob(filepath.Join(wireDir, "*.txt")))(t)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		if !t.Failed() && !seen[name] {
			t.Errorf("%s: nobody sends it", file)
		}
		if !strings.Contains(string(readme), "`"+name+"`") {
			t.Errorf("%s: it is not in the README", file)
		}
	}
}

func newNode(t *testing.T) *node {
	t.Helper()
	net := must.Get(testcloud.NewFakeNetwork())(t)
	t.Cleanup(net.Close)
	token := testcloud.AzureJWT(map[string]any{"sub": "system:serviceaccount:team:app", "jti": canary.TokenSecret})
	n := &node{t: t, net: net, tap: &exchangeRecorder{}, dir: t.TempDir()}
	n.tap.maskSecret(token, "SERVICE-ACCOUNT-TOKEN")
	n.req.ServiceAccountToken = plugin.NewSecret(token)
	return n
}

// run runs the plugin once and returns its exchanges.
func (n *node) run(path string) []string {
	n.t.Helper()
	cmd := plugin.Command{
		Path: path, Args: plugin.NewSecrets(n.args...), Dir: n.dir, APIVersion: plugin.V1, Timeout: time.Minute,
		Environ: append(n.environ, "HOME="+n.dir),
	}
	x, err := cmd.Run(n.t.Context(), &n.req)
	canary.AssertAbsent(n.t, "standard error", x.Stderr)
	if err != nil {
		n.t.Fatalf("%v\n%s", err, x.Stderr)
	}
	if strays := n.net.UnknownHosts(); len(strays) > 0 {
		n.t.Errorf("another host was called: %q", strays)
	}
	samples := n.tap.recordedSamples()
	if len(samples) > 1 && strings.HasPrefix(samples[0], "GET https://team.azurecr.io/v2/") {
		samples[0], samples[1] = samples[1], samples[0]
	}
	if canary.FindMarker(strings.Join(samples, "")) != "" {
		n.t.Fatal("a secret has no placeholder")
	}
	return samples
}

// localAddress returns the address of a handler on the node or on its link-local network. The samples
// contain name instead of the address.
func (n *node) localAddress(name string, h http.Handler) string {
	server := httptest.NewServer(n.tap.recordHandler(name, h))
	n.t.Cleanup(server.Close)
	return server.URL
}

func (n *node) writeFile(name, text string) string {
	n.t.Helper()
	path := filepath.Join(n.dir, name)
	must.Do(n.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// removeToken removes the service account token from the request, as for a provider without
// tokenAttributes.
func (n *node) removeToken() { n.req.ServiceAccountToken = plugin.Secret{} }

func setUpAWS(n *node) {
	cloud := must.Get(testcloud.NewAWS())(n.t)
	n.t.Cleanup(cloud.Close)
	cloud.Update(func(s *testcloud.AWSState) {
		s.Password = canary.PasswordSecret
		n.tap.maskSecret(s.SecretKey, "SECRET-KEY")
		n.tap.maskSecret(s.SessionToken, "SESSION-TOKEN")
		n.tap.maskSecret(base64.StdEncoding.EncodeToString([]byte("AWS:"+canary.PasswordSecret)), "BASE64-OF-AWS:PASSWORD")
		n.tap.maskSecret("metadata-session", "METADATA-TOKEN")
	})
	n.net.Handle("*.amazonaws.com", n.tap.recordHandler("", cloud))
	n.environ = append(append(cloud.Environ(), n.net.Environ()...),
		"AWS_EC2_METADATA_SERVICE_ENDPOINT="+n.localAddress("169.254.169.254", cloud))
	for _, service := range []string{"", "_ECR", "_ECR_PUBLIC", "_STS"} {
		n.environ = append(n.environ, "AWS_ENDPOINT_URL"+service+"=")
	}
	n.removeToken()
}

// setUpContainerCredentials sets up a pod on EKS or a task on ECS.
func setUpContainerCredentials(n *node) {
	setUpAWS(n)
	cloud := must.Get(testcloud.NewAWS())(n.t)
	n.t.Cleanup(cloud.Close)
	cloud.Update(func(s *testcloud.AWSState) { s.ContainerToken = canary.TokenSecret })
	n.tap.maskSecret(canary.TokenSecret, "CONTAINER-TOKEN")
	n.environ = append(n.environ, "AWS_CONTAINER_AUTHORIZATION_TOKEN="+canary.TokenSecret,
		"AWS_CONTAINER_CREDENTIALS_FULL_URI="+n.localAddress("169.254.170.2", cloud)+"/v2/credentials")
}

func setUpRegion(n *node) {
	setUpAWS(n)
	n.args = []string{"--allow-host=registry.example"}
}

// withRole sets up a node that assumes a role in the registry's account.
func withRole(n *node) {
	setUpAWS(n)
	n.args = []string{"--role=111122223333=arn:aws:iam::111122223333:role/pull", "--external-id=111122223333=customer-7"}
}

// withAssumedRole sets up a pod that assumes a role, on a node in a different region than the registry.
func withAssumedRole(n *node) {
	token := n.req.ServiceAccountToken
	setUpAWS(n)
	n.req.ServiceAccountToken = token
	n.req.ServiceAccountAnnotations = map[string]string{"eks.amazonaws.com/ecr-role-arn": "arn:aws:iam::111122223333:role/pull"}
	n.environ = append(n.environ, "AWS_REGION=us-west-2")
}

// setUpGoogle returns a function that sets up a node in a fake Google cloud. args are the plugin's
// arguments.
func setUpGoogle(args ...string) func(*node) {
	return func(n *node) {
		cloud := must.Get(testcloud.NewGoogle(n.net))(n.t)
		n.t.Cleanup(cloud.Close)
		cloud.Update(func(s *testcloud.GoogleState) {
			s.Token, s.FederatedToken, s.ImpersonatedToken = canary.TokenSecret+"-node", canary.TokenSecret+"-federated", canary.TokenSecret+"-account"
			s.Dockercfg = `{"gcr.io":{"username":"user","password":"` + canary.PasswordSecret + `"}}`
		})
		n.tap.maskSecret(canary.TokenSecret+"-node", "NODE-TOKEN")
		n.tap.maskSecret(canary.TokenSecret+"-federated", "FEDERATED-TOKEN")
		n.tap.maskSecret(canary.TokenSecret+"-account", "ACCESS-TOKEN")
		n.tap.maskSecret(canary.PasswordSecret, "PASSWORD")
		for _, host := range []string{"sts.googleapis.com", "iamcredentials.googleapis.com"} {
			n.net.Handle(host, n.tap.recordHandler("", cloud))
		}
		metadata := n.localAddress("169.254.169.254", cloud)
		n.environ = append(cloud.Environ(), "GCE_METADATA_HOST="+strings.TrimPrefix(metadata, "http://"))
		n.args = args
		n.req.ServiceAccountAnnotations = map[string]string{
			"iam.gke.io/enable-wi-image-pull": "true", "iam.gke.io/gcp-service-account": "puller@project.iam.gserviceaccount.com",
		}
	}
}

// setUpAzure returns a function that sets up a node with this azure.json.
func setUpAzure(config string) func(*node) {
	return func(n *node) {
		n.startAzure(config)
		n.removeToken()
	}
}

// startAzure sets up a fake Azure and a node in it.
func (n *node) startAzure(config string) *testcloud.Azure {
	cloud := testcloud.NewAzure()
	n.t.Cleanup(cloud.Close)
	cloud.Update(func(s *testcloud.AzureState) {
		s.RefreshToken = canary.TokenSecret + "-refresh"
		s.Metadata = `[{"name":"Own","resourceManager":"https://management.own.example","authentication":{"loginEndpoint":"https://login.own.example/",` +
			`"audiences":["https://management.own.example"]},"suffixes":{"acrLoginServer":"azurecr.own.example"}}]`
		n.tap.maskSecret(s.AccessToken, "ACCESS-TOKEN")
		n.tap.maskSecret(s.RefreshToken, "REFRESH-TOKEN")
		n.tap.maskSecret(s.IdentityHeader, "IDENTITY-HEADER")
	})
	n.tap.maskSecret(canary.PasswordSecret, "CLIENT-SECRET")
	n.tap.maskSecret(canary.TokenSecret, "MESSAGE") // a message for users, which the plugin does not print
	for _, host := range []string{"*.azurecr.io", "login.microsoftonline.com", "management.own.example"} {
		n.net.Handle(host, n.tap.recordHandler("", cloud))
	}
	n.environ = append(append(cloud.Environ(), n.net.Environ()...), "AZURE_POD_IDENTITY_AUTHORITY_HOST="+n.localAddress("169.254.169.254", cloud))
	n.args = []string{n.writeFile("azure.json", `{"tenantId": "node-tenant", `+config+`}`)}
	return cloud
}

func setUpAppService(n *node) {
	cloud := n.startAzure(`"useManagedIdentityExtension": true, "userAssignedIdentityID": "node-client"`)
	n.removeToken()
	n.environ = append(n.environ, cloud.AppServiceEnviron()...)
	n.environ = append(n.environ, "IDENTITY_ENDPOINT="+n.localAddress("127.0.0.1", cloud)+"/appservice/token")
}

func withServiceAccountIdentity(n *node) {
	n.startAzure(`"useManagedIdentityExtension": true`)
	n.req.ServiceAccountAnnotations = map[string]string{
		"kubernetes.azure.com/acr-client-id": "pod-client", "kubernetes.azure.com/acr-tenant-id": "pod-tenant",
	}
}

// withIdentityBinding sets up a pod on AKS with an identity binding.
func withIdentityBinding(n *node) {
	cloud := n.startAzure(`"useManagedIdentityExtension": true`)
	server := httptest.NewTLSServer(n.tap.recordHandler("example.com", cloud))
	n.t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	n.args = append(n.args, "--ib-sni-name=example.com", "--ib-apiserver-ip="+server.Listener.Addr().String(),
		"--ib-ca-file="+n.writeFile("ca.crt", string(ca)), "--ib-default-client-id=pod-client")
}

func setUpCustomCloud(n *node) {
	n.startAzure(`"useManagedIdentityExtension": true, "resourceManagerEndpoint": "https://management.own.example/"`)
	n.args = append(n.args, "--other-hosts=empty")
	n.removeToken()
}
