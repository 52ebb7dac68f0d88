// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"
)

// region is the region of the images that bench requests.
const region = "us-west-2"

// accessKey is a temporary access key, as the metadata service and STS return it.
type accessKey struct {
	ID     string `json:"AccessKeyId" xml:"AccessKeyId"`
	Secret string `json:"SecretAccessKey" xml:"SecretAccessKey"`
	Token  string `json:"Token" xml:"SessionToken"`
}

func ecrCredentialFromInstance(request) (login, error) {
	base := os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT") + "/latest/"
	_, session, err := sendRequest(metadataClient, http.MethodPut, base+"api/token", "", "X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
	if err != nil {
		return login{}, err
	}
	header := []string{"X-Aws-Ec2-Metadata-Token", string(session)}
	roles := base + "meta-data/iam/security-credentials/"
	_, role, err := sendRequest(metadataClient, http.MethodGet, roles, "", header...)
	if err != nil {
		return login{}, err
	}
	var k accessKey
	if err := requestJSON(metadataClient, &k, http.MethodGet, roles+string(role), "", header...); err != nil {
		return login{}, err
	}
	return ecrCredential(k)
}

func ecrCredentialFromPodToken(req request) (login, error) {
	body := url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleSessionName": {"floor"},
		"RoleArn": {req.Annotations["eks.amazonaws.com/ecr-role-arn"]}, "WebIdentityToken": {req.Token},
	}
	_, data, err := sendRequest(httpsClient(), http.MethodPost, "https://sts."+region+".amazonaws.com/", body.Encode(), "Content-Type", formType)
	if err != nil {
		return login{}, err
	}
	var answer struct {
		Key accessKey `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}
	if err := xml.Unmarshal(data, &answer); err != nil {
		return login{}, err
	}
	return ecrCredential(answer.Key)
}

// ecrCredential requests the credential for all registries of the region.
func ecrCredential(k accessKey) (login, error) {
	const body = "{}"
	host := "api.ecr." + region + ".amazonaws.com"
	_, data, err := sendRequest(httpsClient(), http.MethodPost, "https://"+host+"/", body, signHeaders(k, host, body, time.Now().UTC())...)
	if err != nil {
		return login{}, err
	}
	var answer struct {
		Data []struct {
			Token string `json:"authorizationToken"`
		} `json:"authorizationData"`
	}
	if err := json.Unmarshal(data, &answer); err != nil || len(answer.Data) == 0 {
		return login{}, fmt.Errorf("%s: no authorization data: %w", host, err)
	}
	return decodeECRToken(answer.Data[0].Token)
}

// signHeaders returns the headers of a signed request to ECR (Signature Version 4).
func signHeaders(k accessKey, host, body string, now time.Time) []string {
	const kind, target = "application/x-amz-json-1.1", "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"
	const signed = "content-type;host;x-amz-date;x-amz-security-token;x-amz-target"
	date, day := now.Format("20060102T150405Z"), now.Format("20060102")
	hash := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	scope := day + "/" + region + "/ecr/aws4_request"
	canonical := "POST\n/\n\ncontent-type:" + kind + "\nhost:" + host + "\nx-amz-date:" + date +
		"\nx-amz-security-token:" + k.Token + "\nx-amz-target:" + target + "\n\n" + signed + "\n" + hash(body)
	mac := []byte("AWS4" + k.Secret)
	for _, part := range []string{day, region, "ecr", "aws4_request", "AWS4-HMAC-SHA256\n" + date + "\n" + scope + "\n" + hash(canonical)} {
		h := hmac.New(sha256.New, mac)
		h.Write([]byte(part))
		mac = h.Sum(nil)
	}
	return []string{
		"Content-Type", kind, "X-Amz-Date", date, "X-Amz-Security-Token", k.Token, "X-Amz-Target", target,
		"Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%x", k.ID, scope, signed, mac),
	}
}
