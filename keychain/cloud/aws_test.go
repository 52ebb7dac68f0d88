// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cloud_test

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/keychain/cloud"
	"github.com/regcred/regcred/provider/ecr"
)

const (
	ecrImage = "111122223333.dkr.ecr.eu-west-1.amazonaws.com/team/app:v1"
	roleARN     = "arn:aws:iam::111122223333:role/controller"
)

// newAWS starts a fake of Amazon's cloud. It sets environment variables of this process, because
// the AWS SDK reads them.
func newAWS(t *testing.T) (*testCloud, *testcloud.AWS) {
	w := newTestCloud(t)
	aws := must.Get(testcloud.NewAWS())(t)
	t.Cleanup(aws.Close)
	w.server, w.metadata, w.image = aws.Server, "/latest/", ecrImage
	w.passwordPath, w.registry = "/", func(i int) string { return fmt.Sprintf("%012d.dkr.ecr.eu-west-1.amazonaws.com", i) }
	w.provider = func(more map[string]string) cloud.Provider {
		environ := map[string]string{}
		for _, entry := range aws.Environ() {
			name, value, _ := strings.Cut(entry, "=")
			environ[name] = value
		}
		environ["AWS_CONFIG_FILE"], environ["AWS_SHARED_CREDENTIALS_FILE"] = "", "" // selects the default files below HOME, which do not exist
		maps.Copy(environ, more)
		for name, value := range environ {
			t.Setenv(name, value)
		}
		return requireProvider(ecr.InPod(ecr.Options{Timeout: 10 * time.Second, MaxPause: time.Millisecond, Logger: w.log,
			Getenv: func(name string) string { return environ[name] }}))
	}
	return w, aws
}

func irsaEnviron(file string) map[string]string {
	return map[string]string{"AWS_ROLE_ARN": roleARN, "AWS_WEB_IDENTITY_TOKEN_FILE": file}
}

func podIdentity(aws *testcloud.AWS, file string) map[string]string {
	return map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": aws.ContainerURL(), "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": file}
}

// ecrCallers returns the IDs of the access keys that signed requests to ECR.
func ecrCallers(aws *testcloud.AWS) (keys []string) {
	for _, r := range aws.Requests() {
		if sig, ok := testcloud.ParseAWSSignature(r.Header); ok && sig.Service == "ecr" {
			keys = append(keys, sig.KeyID)
		}
	}
	return keys
}

// TestAWS verifies the identity that each configuration uses, and that the node's
// metadata server is called only if there is no other identity.
func TestAWS(t *testing.T) {
	for name, tt := range map[string]struct {
		environ func(t *testing.T, aws *testcloud.AWS) map[string]string
		signer  string
		node    bool
	}{
		"nothing": {func(*testing.T, *testcloud.AWS) map[string]string { return nil }, testcloud.AWSKeyInstance, true},
		"IRSA": {func(t *testing.T, aws *testcloud.AWS) map[string]string {
			aws.Update(func(s *testcloud.AWSState) { s.WebIdentityToken, s.RoleARN = canary.TokenSecret+"-pod", roleARN })
			return irsaEnviron(writeTokenFile(t, canary.TokenSecret+"-pod"))
		}, testcloud.AWSKeyRole, false},
		"EKS Pod Identity": {func(t *testing.T, aws *testcloud.AWS) map[string]string {
			aws.Update(func(s *testcloud.AWSState) { s.ContainerToken = canary.TokenSecret + "-pod" })
			return podIdentity(aws, writeTokenFile(t, canary.TokenSecret+"-pod"))
		}, testcloud.AWSKeyContainer, false},
		"both": {func(t *testing.T, aws *testcloud.AWS) map[string]string {
			environ := podIdentity(aws, writeTokenFile(t, canary.TokenSecret+"-agent"))
			maps.Copy(environ, irsaEnviron(writeTokenFile(t, canary.TokenSecret+"-pod")))
			return environ
		}, testcloud.AWSKeyRole, false},
		"a profile": {func(t *testing.T, _ *testcloud.AWS) map[string]string {
			return map[string]string{"AWS_SHARED_CREDENTIALS_FILE": writeTokenFile(t, "[default]\naws_access_key_id = AKIAPROFILE\naws_secret_access_key = "+canary.PasswordSecret+"\n")}
		}, "AKIAPROFILE", false},
		"a configuration without credentials": {func(t *testing.T, _ *testcloud.AWS) map[string]string {
			return map[string]string{"AWS_CONFIG_FILE": writeTokenFile(t, "[default]\nregion = eu-west-1\n")}
		}, testcloud.AWSKeyInstance, true},
		"keys, and no file": {func(t *testing.T, _ *testcloud.AWS) map[string]string {
			return map[string]string{
				"AWS_ACCESS_KEY_ID": "AKIAENVIRON", "AWS_SECRET_ACCESS_KEY": canary.PasswordSecret,
				"AWS_SHARED_CREDENTIALS_FILE": filepath.Join(t.TempDir(), "none"),
			}
		}, "AKIAENVIRON", false},
	} {
		t.Run(name, func(t *testing.T) {
			w, aws := newAWS(t)
			got, err := w.lookUpPassword(w.newKeyring(tt.environ(t, aws)), w.image)
			if err != nil || got != "open-sesame" {
				t.Fatalf("got another password, or %v", err)
			}
			if keys := ecrCallers(aws); len(keys) != 1 || keys[0] != tt.signer {
				t.Errorf("ECR was called by %q, want %q once", keys, tt.signer)
			}
			if n := w.metadataRequests(); (n > 0) != tt.node {
				t.Errorf("the node's metadata server was called %d times", n)
			}
		})
	}
}

// TestAWSFails verifies that a lookup fails if the pod's own identity fails, instead of using the
// node's identity.
func TestAWSFails(t *testing.T) {
	refusal := testcloud.Fault{
		Match: func(r testcloud.Request) bool { return r.Form().Get("Action") != "" }, Times: -1,
		Status: http.StatusForbidden, Body: testcloud.AWSErrorXML("AccessDenied", canary.TokenSecret),
	}
	down := testcloud.Fault{Path: "/v2/credentials", Times: -1, Status: http.StatusInternalServerError, Body: canary.TokenSecret}
	for name, tt := range map[string]struct {
		environ func(t *testing.T, aws *testcloud.AWS) map[string]string
		want    []string
	}{
		"no token file": {func(t *testing.T, _ *testcloud.AWS) map[string]string {
			return irsaEnviron(filepath.Join(t.TempDir(), "none"))
		}, []string{"find the pod's AWS credentials", "AWS_WEB_IDENTITY_TOKEN_FILE points to", "which cannot be found"}},
		"a directory for a token": {func(t *testing.T, _ *testcloud.AWS) map[string]string {
			return irsaEnviron(t.TempDir())
		}, []string{"find the pod's AWS credentials", "is a directory"}},
		"empty token file": {func(t *testing.T, _ *testcloud.AWS) map[string]string {
			return irsaEnviron(writeTokenFile(t, ""))
		}, []string{"find the pod's AWS credentials", "InvalidIdentityToken", "in the role's account, add the cluster's issuer as an OIDC provider with the audience"}},
		"STS refuses": {func(t *testing.T, aws *testcloud.AWS) map[string]string {
			aws.Inject(refusal)
			return irsaEnviron(writeTokenFile(t, canary.TokenSecret))
		}, []string{"find the pod's AWS credentials", "AccessDenied", "allow sts:AssumeRoleWithWebIdentity for the service account in the role's trust policy"}},
		"STS refuses, an agent at hand": {func(t *testing.T, aws *testcloud.AWS) map[string]string {
			aws.Inject(refusal)
			environ := podIdentity(aws, writeTokenFile(t, canary.TokenSecret))
			maps.Copy(environ, irsaEnviron(writeTokenFile(t, canary.TokenSecret)))
			return environ
		}, []string{"AccessDenied"}},
		"the agent is down": {func(t *testing.T, aws *testcloud.AWS) map[string]string {
			aws.Inject(down)
			return podIdentity(aws, writeTokenFile(t, canary.TokenSecret))
		}, []string{"find the pod's AWS credentials", "status 500 Internal Server Error, 3 times", "assign a role to the pod's service account (IRSA or EKS Pod Identity), or to the instance"}},
		"the agent knows another token": {func(t *testing.T, aws *testcloud.AWS) map[string]string {
			aws.Update(func(s *testcloud.AWSState) { s.ContainerToken = canary.TokenSecret + "-pod" })
			return podIdentity(aws, writeTokenFile(t, canary.TokenSecret))
		}, []string{"status 401 Unauthorized"}},
		"no token file for the agent": {func(t *testing.T, aws *testcloud.AWS) map[string]string {
			return podIdentity(aws, filepath.Join(t.TempDir(), "none"))
		}, []string{"find the pod's AWS credentials", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE points to", "which cannot be found"}},
		"no file of credentials": {func(t *testing.T, _ *testcloud.AWS) map[string]string {
			return map[string]string{"AWS_SHARED_CREDENTIALS_FILE": filepath.Join(t.TempDir(), "none")}
		}, []string{"find the pod's AWS credentials", "AWS_SHARED_CREDENTIALS_FILE points to", "which cannot be found"}},
		"no configuration": {func(t *testing.T, _ *testcloud.AWS) map[string]string {
			return map[string]string{"AWS_CONFIG_FILE": filepath.Join(t.TempDir(), "none")}
		}, []string{"find the pod's AWS credentials", "AWS_CONFIG_FILE points to", "which cannot be found"}},
		"no file of credentials, an agent at hand": {func(t *testing.T, aws *testcloud.AWS) map[string]string {
			environ := podIdentity(aws, writeTokenFile(t, canary.TokenSecret))
			environ["AWS_SHARED_CREDENTIALS_FILE"] = filepath.Join(t.TempDir(), "none")
			return environ
		}, []string{"AWS_SHARED_CREDENTIALS_FILE points to", "which cannot be found"}},
		"an empty file of credentials": {func(t *testing.T, _ *testcloud.AWS) map[string]string {
			return map[string]string{"AWS_SHARED_CREDENTIALS_FILE": writeTokenFile(t, "")}
		}, []string{"find the pod's AWS credentials", "AWS_SHARED_CREDENTIALS_FILE is", `which has no credentials for the profile "default"`}},
		"credentials of another profile": {func(t *testing.T, _ *testcloud.AWS) map[string]string {
			return map[string]string{"AWS_SHARED_CREDENTIALS_FILE": writeTokenFile(t, "[other]\naws_access_key_id = AKIAOTHER\naws_secret_access_key = "+canary.PasswordSecret+"\n")}
		}, []string{`which has no credentials for the profile "default"`}},
		"an empty secret key": {func(t *testing.T, _ *testcloud.AWS) map[string]string {
			return map[string]string{"AWS_SHARED_CREDENTIALS_FILE": writeTokenFile(t, "[default]\naws_access_key_id = AKIAEMPTY\naws_secret_access_key =\n")}
		}, []string{`which has no credentials for the profile "default"`}},
	} {
		t.Run(name, func(t *testing.T) {
			w, aws := newAWS(t)
			w.checkError(tt.environ(t, aws), tt.want...)
			if keys := ecrCallers(aws); len(keys) != 0 {
				t.Errorf("ECR was called by %q", keys)
			}
		})
	}
}

// TestAWSRotates verifies that the token file is read again for each token exchange.
func TestAWSRotates(t *testing.T) {
	w, aws := newAWS(t)
	token := writeTokenFile(t, canary.TokenSecret+"-1")
	k := w.newKeyring(irsaEnviron(token))
	for i, text := range []string{canary.TokenSecret + "-1", canary.TokenSecret + "-2"} {
		writeFile(t, token, text)
		aws.Update(func(s *testcloud.AWSState) { s.WebIdentityToken = text })
		image := []string{ecrImage, strings.Replace(ecrImage, "1111", "4444", 1)}[i]
		if _, err := w.lookUpPassword(k, image); err != nil {
			t.Error(err)
		}
	}
}
