// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/provider/ecr"
)

const (
	hubRole    = "arn:aws:iam::444455556666:role/hub"
	targetRole = "arn:aws:iam::111122223333:role/ops/pull"
)

// stsForms returns the forms of the requests to STS, with the signer's key ID as "by".
func stsForms(cloud *testcloud.AWS) (forms []url.Values) {
	for _, r := range cloud.Requests() {
		form := r.Form()
		if form.Get("Action") == "" {
			continue
		}
		form.Del("Version")
		form.Del("WebIdentityToken")
		if sig, ok := testcloud.ParseAWSSignature(r.Header); ok {
			form.Set("by", sig.KeyID)
			form.Set("region", sig.Region)
		}
		forms = append(forms, form)
	}
	return forms
}

// TestRolesOfAccount verifies that the registry's account selects the roles to assume. The first
// role is assumed with the identity that is used without roles.
func TestRolesOfAccount(t *testing.T) {
	const hubKey, targetKey, podKey = "ASIAHUB", "ASIATARGET", "ASIAPOD"
	chain := ecr.Options{Roles: []string{"111122223333=" + hubRole + "," + targetRole, "777788889999=" + hubRole}}
	taken := func(action, role, name, by string) url.Values {
		form := url.Values{"Action": {action}, "RoleArn": {role}, "RoleSessionName": {name}}
		if by != "" {
			form.Set("by", by)
			form.Set("region", "eu-west-1")
		}
		return form
	}
	with := func(form url.Values, key, value string) url.Values {
		form.Set(key, value)
		return form
	}
	for name, tt := range map[string]struct {
		opts   ecr.Options
		env    []string
		req    *plugin.Request
		trusts map[string]testcloud.AWSTrust
		want   []url.Values
		signer string // ID of the access key that signs the request to ECR
	}{
		"node": {chain, nil, imageRequest(privateHost), map[string]testcloud.AWSTrust{hubRole: {Principal: testcloud.AWSKeyInstance, RoleKey: hubKey}, targetRole: {Principal: hubKey, RoleKey: targetKey}},
			[]url.Values{taken("AssumeRole", hubRole, "ecr-credential-provider", testcloud.AWSKeyInstance), taken("AssumeRole", targetRole, "ecr-credential-provider", hubKey)}, targetKey},
		"node with keys": {chain, staticKeysEnv(), imageRequest(privateHost), map[string]testcloud.AWSTrust{hubRole: {Principal: "AKIAENV", RoleKey: hubKey}, targetRole: {Principal: hubKey, RoleKey: targetKey}},
			[]url.Values{taken("AssumeRole", hubRole, "ecr-credential-provider", "AKIAENV"), taken("AssumeRole", targetRole, "ecr-credential-provider", hubKey)}, targetKey},
		"pod": {chain, nil, withServiceAccountToken(t, imageRequest(privateHost), roleAnnotation(pullRole)), map[string]testcloud.AWSTrust{pullRole: {RoleKey: podKey}, hubRole: {Principal: podKey, RoleKey: hubKey}, targetRole: {Principal: hubKey, RoleKey: targetKey}},
			[]url.Values{taken("AssumeRoleWithWebIdentity", pullRole, "team-a_builder", ""), taken("AssumeRole", hubRole, "team-a_builder", podKey), taken("AssumeRole", targetRole, "team-a_builder", hubKey)}, targetKey},
		"pod that has the first role": {chain, nil, withServiceAccountToken(t, imageRequest(privateHost), roleAnnotation(hubRole)), map[string]testcloud.AWSTrust{hubRole: {RoleKey: hubKey}, targetRole: {Principal: hubKey, RoleKey: targetKey}},
			[]url.Values{taken("AssumeRoleWithWebIdentity", hubRole, "team-a_builder", ""), taken("AssumeRole", targetRole, "team-a_builder", hubKey)}, targetKey},
		"pod that has the last role": {chain, nil, withServiceAccountToken(t, imageRequest(privateHost), roleAnnotation(targetRole)), map[string]testcloud.AWSTrust{targetRole: {RoleKey: targetKey}},
			[]url.Values{taken("AssumeRoleWithWebIdentity", targetRole, "team-a_builder", "")}, targetKey},
		"pod without a role": {chain, nil, withServiceAccountToken(t, imageRequest(privateHost), nil), map[string]testcloud.AWSTrust{hubRole: {Principal: testcloud.AWSKeyInstance, RoleKey: hubKey}, targetRole: {Principal: hubKey, RoleKey: targetKey}},
			[]url.Values{taken("AssumeRole", hubRole, "team-a_builder", testcloud.AWSKeyInstance), taken("AssumeRole", targetRole, "team-a_builder", hubKey)}, targetKey},
		"external ID": {ecr.Options{Roles: chain.Roles, ExternalIDs: []string{"111122223333=customer/7"}, SessionName: "pulls@corp"}, nil, imageRequest(privateHost),
			map[string]testcloud.AWSTrust{hubRole: {Principal: testcloud.AWSKeyInstance, RoleKey: hubKey}, targetRole: {Principal: hubKey, ExternalID: "customer/7", RoleKey: targetKey}},
			[]url.Values{with(taken("AssumeRole", hubRole, "pulls@corp", testcloud.AWSKeyInstance), "ExternalId", "customer/7"),
				with(taken("AssumeRole", targetRole, "pulls@corp", hubKey), "ExternalId", "customer/7")}, targetKey},
		"another account": {chain, nil, imageRequest("222233334444.dkr.ecr.eu-west-1.amazonaws.com"), map[string]testcloud.AWSTrust{}, nil, testcloud.AWSKeyInstance},
		"mirror": {ecr.Options{Roles: chain.Roles, Mirrors: []string{"docker.io=" + privateHost + "/hub"}, MirrorOrigin: "none"}, nil, imageRequest("docker.io"),
			map[string]testcloud.AWSTrust{hubRole: {Principal: testcloud.AWSKeyInstance, RoleKey: hubKey}, targetRole: {Principal: hubKey, RoleKey: targetKey}},
			[]url.Values{taken("AssumeRole", hubRole, "ecr-credential-provider", testcloud.AWSKeyInstance), taken("AssumeRole", targetRole, "ecr-credential-provider", hubKey)}, targetKey},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newCloud(t, tt.env...)
			cloud.Update(func(s *testcloud.AWSState) { s.Roles = tt.trusts })
			checkCredential(t, mustGetCredentials(t, tt.opts, tt.req), tt.req.Registry())
			if diff := cmp.Diff(tt.want, stsForms(cloud)); diff != "" {
				t.Error(diff)
			}
			checkSigner(t, cloud, tt.signer)
		})
	}
}

// TestChainFails verifies that the error names the role, its caller and a fix, and that ECR is not called with an
// intermediate role.
func TestChainFails(t *testing.T) {
	isFor := func(arn string) func(testcloud.Request) bool {
		return func(r testcloud.Request) bool { return r.Form().Get("RoleArn") == arn }
	}
	opts := shortTimeouts()
	opts.Roles = []string{"111122223333=" + hubRole + "," + targetRole}
	for name, tt := range map[string]struct {
		req   *plugin.Request
		fault testcloud.Fault
		want  []string
	}{
		"first, as the node": {imageRequest(privateHost), testcloud.Fault{Match: isFor(hubRole), Status: 403, Body: testcloud.AWSErrorXML("AccessDenied", "User: node is not authorized")},
			[]string{`assume the role "` + hubRole + `" as the node at STS in eu-west-1: POST http`, ": AccessDenied: User: node is not authorized [request id " + testcloud.AWSRequestID + "]; ",
				"allow sts:AssumeRole in the role's trust policy and in the permissions of the node", "--external-id"}},
		"second": {imageRequest(privateHost), testcloud.Fault{Match: isFor(targetRole), Status: 403, Body: testcloud.AWSErrorXML("AccessDenied", "no "+canary.PasswordSecret+"-key")},
			[]string{`assume the role "` + targetRole + `" as ` + hubRole + ` at STS in eu-west-1: POST http`, ": AccessDenied: no [redacted] [request id", "the permissions of " + hubRole + ","}},
		"first, as a pod": {withServiceAccountToken(t, imageRequest(privateHost), roleAnnotation(pullRole)), testcloud.Fault{Match: isFor(hubRole), Status: 403, Body: "{}"},
			[]string{`assume the role "` + hubRole + `" as ` + pullRole + ` at STS in eu-west-1: POST http`, ": status 403 Forbidden"}},
		"a region that is not active": {imageRequest(privateHost), testcloud.Fault{Match: isFor(hubRole), Status: 403, Body: testcloud.AWSErrorXML("RegionDisabledException", "")},
			[]string{"RegionDisabledException", "activate STS in this region"}},
		"no credentials": {imageRequest(privateHost), testcloud.Fault{Match: isFor(hubRole), Status: 200, Body: "<AssumeRoleResponse/>"},
			[]string{`assume the role "` + hubRole + `" as the node`, "invalid response"}},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newCloud(t)
			tt.fault.Times = -1
			cloud.Inject(tt.fault)
			_, err := getCredentials(t, opts, tt.req)
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
			if slices.ContainsFunc(requestSignatures(cloud), func(s testcloud.AWSSignature) bool { return s.Service == "ecr" }) {
				t.Error("ECR was called")
			}
		})
	}
}

// TestOptionsRefused verifies that invalid options are rejected at start with the flag's name.
func TestOptionsRefused(t *testing.T) {
	const arn = "arn:aws:iam::111122223333:role/pull"
	roles := func(list ...string) ecr.Options { return ecr.Options{Roles: list} }
	ids := func(list ...string) ecr.Options {
		return ecr.Options{Roles: []string{"111122223333=" + arn}, ExternalIDs: list}
	}
	for want, list := range map[string][]ecr.Options{
		`--role "": must be ACCOUNT=ARN[,ARN…]`: {roles("")},
		"must be ACCOUNT=ARN[,ARN…], with a 12-digit account ID": {
			roles(arn), roles("=" + arn), roles("11112222333=" + arn), roles("11112222333x=" + arn), roles("*=" + arn)},
		"is not a role ARN (arn:aws:iam::ACCOUNT:role/NAME)": {
			roles("111122223333"), roles("111122223333="), roles("111122223333=" + arn + ",pull" + hubRole), roles("111122223333=pull"),
			roles("111122223333=arn:aws:iam::11112222333:role/pull"), roles("111122223333=arn:aws:iam::111122223333:user/pull"),
			roles("111122223333=arn:aws:sts::111122223333:assumed-role/pull/x"), roles("111122223333=" + arn + " "),
			roles("111122223333=arn:aws:iam:eu-west-1:111122223333:role/pull"), roles("111122223333=arn::iam::111122223333:role/pull"),
			roles("111122223333=arn:aws:iam::111122223333:role/"), roles("111122223333=arn:aws:iam::111122223333:role/a/"),
			roles("111122223333=arn:aws:iam::111122223333:role/a:b"), roles("111122223333=" + arn + strings.Repeat("x", 2048))},
		"duplicate role": {roles("111122223333=" + arn + "," + hubRole + "," + arn)},
		"a --role flag is already set for this account; list all of its roles, in order, in one --role flag": {roles("111122223333="+arn, "111122223333="+hubRole)},
		"must be ACCOUNT=ID":                                    {ids("customer"), ids("1111=customer")},
		"no --role flag is set for this account":                {ids("222233334444=customer"), {ExternalIDs: []string{"111122223333=customer"}}},
		"an --external-id flag is already set for this account": {ids("111122223333=customer", "111122223333=other")},
		"must be 2 to 1224 characters long, with only letters, digits and _+=,.@:/-": {
			ids("111122223333="), ids("111122223333=a"), ids("111122223333=a b"), ids("111122223333=" + strings.Repeat("x", 1225))},
		"--session-name": {{SessionName: "a"}, {SessionName: "a b"}, {SessionName: strings.Repeat("x", 65)}, {SessionName: "a/b"}, {SessionName: "\u00e9\u00e9"}},
		`mirror "docker.io=registry.example": the target registry.example is not part of Amazon ECR`: {{Mirrors: []string{"docker.io=registry.example"}, MirrorOrigin: "none"}},
		"sends this credential there; set --mirror-origin=none":                                      {{Mirrors: []string{"docker.io=" + privateHost}}},
	} {
		for _, opts := range list {
			if _, err := ecr.New(opts); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: got %v, want %q", opts, err, want)
			}
		}
	}
	if _, err := ecr.New(ids("111122223333=" + canary.PasswordSecret + " ")); err == nil || strings.Contains(err.Error(), canary.PasswordSecret) {
		t.Errorf("got %v, want it without the ID", err)
	}
	for _, opts := range []ecr.Options{
		roles("111122223333=arn:aws-us-gov:iam::222233334444:role/a/b/c+=,.@_-"),
		ids("111122223333=a:b/c"), {SessionName: "ab"}, {SessionName: strings.Repeat("x", 64)},
		{Mirrors: []string{"docker.io=registry.example"}, MirrorOrigin: "trusted", AllowHosts: []string{"registry.example=eu-west-1"}},
		{Mirrors: []string{"public.ecr.aws=" + privateHost}},
	} {
		if _, err := ecr.New(opts); err != nil {
			t.Errorf("%+v: %v", opts, err)
		}
	}
}
