// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugins

import (
	"net/http"
	"strings"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/testcloud"
)

func removeRegion(s *testcloud.AWSState) { s.Region = "" }

// useProfile returns a function that writes an AWS config file. In the content, TOKEN is replaced with
// the path of a token file, and KEYS with static keys.
func useProfile(content string) func(*scenarioCloud) {
	return func(c *scenarioCloud) {
		keys := "aws_access_key_id = AKIAPROFILE000000000\naws_secret_access_key = " + canary.PasswordSecret
		content := strings.NewReplacer("TOKEN", c.writeFile("token", canary.TokenSecret), "KEYS", keys).Replace(content)
		c.setenv("AWS_CONFIG_FILE=" + c.writeFile("config", content))
	}
}

// useCredentialProcess configures a credential_process that prints static keys.
func useCredentialProcess(c *scenarioCloud) {
	path := c.writeFile("process.json", `{"Version":1,"AccessKeyId":"AKIAPROCESS000000000","SecretAccessKey":"`+canary.PasswordSecret+`"}`)
	useProfile("[default]\ncredential_process = /bin/cat " + path + "\n")(c)
}

// sourceScenarios lists scenarios with different sources of the plugin's own credentials.
func sourceScenarios() []scenario {
	webIdentity := func(c *scenarioCloud) {
		c.setenv("AWS_REGION=us-west-2", "AWS_ROLE_ARN="+roleARN, "AWS_ROLE_SESSION_NAME=node", "AWS_WEB_IDENTITY_TOKEN_FILE="+c.writeFile("token", canary.TokenSecret))
	}
	container := func(token string) func(*scenarioCloud) {
		return func(c *scenarioCloud) {
			c.Update(func(s *testcloud.AWSState) { s.ContainerToken = token })
			c.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI=" + c.ContainerURL())
		}
	}
	return groupScenarios("source", append([]scenario{
		{name: "session token in the environment", env: []string{"AWS_SESSION_TOKEN=" + canary.EnvSecret}},
		{name: "environment before all others", arrange: webIdentity},
		{name: "web identity", noKeys: true, arrange: webIdentity},
		{name: "web identity without its file", noKeys: true, env: []string{"AWS_REGION=us-west-2", "AWS_ROLE_ARN=" + roleARN, "AWS_WEB_IDENTITY_TOKEN_FILE=/nonexistent"}},
		{name: "profile", noKeys: true, arrange: useProfile("[default]\nKEYS\n")},
		{name: "named profile", noKeys: true, arrange: useProfile("[profile other]\nKEYS\n"), env: []string{"AWS_PROFILE=other"}},
		{name: "profile that does not exist", noKeys: true, arrange: useProfile("[default]\nKEYS\n"), env: []string{"AWS_PROFILE=other"}},
		{name: "profile with a source profile", noKeys: true, arrange: useProfile("[default]\nrole_arn = " + roleARN + "\nrole_session_name = node\nsource_profile = base\nregion = us-west-2\n[profile base]\nKEYS\n")},
		{name: "profile with a web identity", noKeys: true, arrange: useProfile("[default]\nrole_arn = " + roleARN + "\nrole_session_name = node\nweb_identity_token_file = TOKEN\nregion = us-west-2\n")},
		{name: "profile with a process", noKeys: true, arrange: useCredentialProcess},
		{name: "container", noKeys: true, arrange: container("")},
		{name: "container with a token", noKeys: true, arrange: container(canary.TokenSecret), env: []string{"AWS_CONTAINER_AUTHORIZATION_TOKEN=" + canary.TokenSecret}},
		{name: "container with a wrong token", noKeys: true, arrange: container(canary.TokenSecret), env: []string{"AWS_CONTAINER_AUTHORIZATION_TOKEN=" + canary.EnvSecret}},
		{name: "container that redirects (302)", noKeys: true, arrange: container(canary.TokenSecret), env: []string{"AWS_CONTAINER_AUTHORIZATION_TOKEN=" + canary.TokenSecret}, faults: redirectFaults(302)},
		{name: "container that redirects (307)", noKeys: true, arrange: container(canary.TokenSecret), env: []string{"AWS_CONTAINER_AUTHORIZATION_TOKEN=" + canary.TokenSecret}, faults: redirectFaults(307)},
	}, metadataScenarios()...)...)
}

// redirectFaults returns faults with which the container endpoint redirects to another host.
func redirectFaults(status int) []testcloud.Fault {
	elsewhere := http.Header{"Location": {"https://credentials.amazonaws.com/v2/credentials"}}
	match := func(r testcloud.Request) bool { return r.Host != "credentials.amazonaws.com" }
	return []testcloud.Fault{{Path: "/v2/credentials", Match: match, Status: status, Header: elsewhere, Times: -1}}
}

// metadataScenarios lists scenarios in which the instance metadata service is the source.
func metadataScenarios() []scenario {
	refusing := func(status int, path string) []testcloud.Fault {
		return []testcloud.Fault{{Path: path, Status: status, Times: -1}}
	}
	version1 := func(c *scenarioCloud) { c.Update(func(s *testcloud.AWSState) { s.AllowIMDSv1 = true }) }
	return []scenario{
		{name: "instance", noKeys: true},
		{name: "instance, public registry", noKeys: true, image: "public.ecr.aws/team/app"},
		{name: "instance without session tokens (403)", noKeys: true, arrange: version1, faults: refusing(http.StatusForbidden, "/api/token")},
		{name: "instance without session tokens (404)", noKeys: true, arrange: version1, faults: refusing(http.StatusNotFound, "/api/token")},
		{name: "instance without session tokens, version 1 disabled", noKeys: true, arrange: version1, faults: refusing(http.StatusForbidden, "/api/token"), env: []string{"AWS_EC2_METADATA_V1_DISABLED=true"}},
		{name: "instance that redirects (302)", noKeys: true, faults: []testcloud.Fault{{Path: "security-credentials/node-role", Status: 302, Header: http.Header{"Location": {"https://metadata.amazonaws.com/latest/"}}, Times: -1}}},
		{name: "instance that refuses the token (400)", noKeys: true, faults: refusing(http.StatusBadRequest, "/api/token")},
		{name: "instance without a role (404)", noKeys: true, faults: refusing(http.StatusNotFound, "security-credentials")},
		{name: "instance with garbage for a credential", noKeys: true, faults: []testcloud.Fault{{Path: "security-credentials/node-role", Status: 200, Body: "garbage", Times: -1}}},
		{name: "instance with a credential that failed", noKeys: true, faults: []testcloud.Fault{{Path: "security-credentials/node-role", Status: 200, Body: `{"Code":"AssumeRoleUnauthorizedAccess"}`, Times: -1}}},
		{name: "instance, one failure (500)", noKeys: true, faults: []testcloud.Fault{{Path: "security-credentials/node-role", Status: 500}}},
		{name: "metadata disabled", noKeys: true, env: []string{"AWS_EC2_METADATA_DISABLED=true"}},
		{name: "metadata refused", noKeys: true, env: []string{"AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:1"}},
	}
}

// endpointScenarios lists scenarios with different addresses of the endpoint.
func endpointScenarios() []scenario {
	own := func(name string) func(*scenarioCloud) {
		return func(c *scenarioCloud) { c.setenv(name + "=" + c.URL()) }
	}
	fips, dual := "AWS_USE_FIPS_ENDPOINT=true", "AWS_USE_DUALSTACK_ENDPOINT=true"
	const public = "public.ecr.aws/team/app"
	return groupScenarios("endpoint", []scenario{
		{name: "FIPS", env: []string{fips}},
		{name: "dual-stack", env: []string{dual}},
		{name: "FIPS and dual-stack", env: []string{fips, dual}},
		{name: "dual-stack, China", env: []string{dual}, image: "111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn/app"},
		{name: "FIPS of a profile", arrange: useProfile("[default]\nuse_fips_endpoint = true\n")},
		{name: "FIPS host and FIPS", env: []string{fips}, image: "111122223333.dkr.ecr-fips.us-west-2.amazonaws.com/app"},
		{name: "FIPS host, FIPS off", env: []string{"AWS_USE_FIPS_ENDPOINT=false"}, image: "111122223333.dkr.ecr-fips.us-west-2.amazonaws.com/app"},
		{name: "dual-stack host, dual-stack off", env: []string{"AWS_USE_DUALSTACK_ENDPOINT=false"}, image: "111122223333.dkr-ecr.us-west-2.on.aws/app"},
		{name: "dual-stack host and dual-stack", env: []string{dual}, image: "111122223333.dkr-ecr.us-west-2.on.aws/app"},
		{name: "dual-stack FIPS host and both", env: []string{fips, dual}, image: "111122223333.dkr-ecr-fips.us-west-2.on.aws/app"},
		{name: "public, FIPS", env: []string{fips}, image: public},
		{name: "public, dual-stack", env: []string{dual}, image: public},
		{name: "own", arrange: own("AWS_ENDPOINT_URL")},
		{name: "own, for ECR", arrange: own("AWS_ENDPOINT_URL_ECR")},
		{name: "own, for ECR Public", arrange: own("AWS_ENDPOINT_URL_ECR_PUBLIC"), image: public},
		{name: "own, for ECR Public, private image", arrange: own("AWS_ENDPOINT_URL_ECR_PUBLIC")},
		{name: "own, for STS", arrange: own("AWS_ENDPOINT_URL_STS"), token: canary.TokenSecret, annotations: map[string]string{roleAnnotation: roleARN}},
		{name: "own, ignored", arrange: own("AWS_ENDPOINT_URL"), env: []string{"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true"}},
		{name: "own, and FIPS", arrange: own("AWS_ENDPOINT_URL"), env: []string{fips}},
		{name: "own, FIPS host", arrange: own("AWS_ENDPOINT_URL"), image: "111122223333.dkr.ecr-fips.us-west-2.amazonaws.com/app"},
		{name: "own, with a path", arrange: func(c *scenarioCloud) { c.setenv("AWS_ENDPOINT_URL=" + c.URL() + "/base") }},
		{name: "region of the environment differs", env: regionEnv},
	}...)
}
