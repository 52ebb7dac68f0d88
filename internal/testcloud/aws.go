// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testcloud

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/canary"
)

// Access keys that [AWS] issues. The key in a signature shows which endpoint issued the
// credentials.
const (
	AWSKeyInstance  = "ASIAINSTANCE00000000"
	AWSKeyContainer = "ASIACONTAINER0000000"
	AWSKeyRole      = "ASIAASSUMEDROLE00000" // from STS
)

// AWSRole is the name of the role attached to the instance.
const AWSRole = "node-role"

// AWSRequestID is the request ID of every response of [AWS].
const AWSRequestID = "7a3c1e52-request"

// AWSState determines the responses of [AWS]. The zero value is not valid.
type AWSState struct {
	Password string // registry password of the user "AWS"

	// Expires is the expiry of the registry password. If it is nil, the password expires after
	// Lifetime. If it is the zero time, the response has no expiry.
	Expires  *time.Time
	Lifetime time.Duration

	// AuthorizationData replaces the JSON value of "authorizationData" if it is not "".
	AuthorizationData string

	SecretKey    string        // secret key of all issued credentials
	SessionToken string        // session token of all issued credentials; "" omits it
	KeyLifetime  time.Duration // lifetime of all issued credentials

	Region         string // region of the instance; "" means unknown (404)
	AllowIMDSv1    bool   // allow metadata requests without a session token (IMDSv1)
	ContainerToken string // the Authorization header that the container endpoint requires; "" means none

	// STS requires these values. "" accepts any value.
	WebIdentityToken string
	RoleARN          string

	// Roles maps role ARNs to trust policies. If it is nil, STS accepts every role and issues
	// [AWSKeyRole].
	Roles map[string]AWSTrust

	// SigningRegion is the region that signatures of requests to ECR must have. "" accepts any
	// region.
	SigningRegion string
}

// AWSTrust is the trust policy of a role. Principals are identified by their access keys.
type AWSTrust struct {
	Principal  string // access key that may assume the role; "" means a web identity
	ExternalID string // required external ID; "" accepts any
	RoleKey    string // access key issued for the role
}

// AWS simulates Amazon's endpoints for registry credentials at one address. These are the instance
// metadata service (IMDSv1 and IMDSv2), the container credentials endpoint, STS, ECR and ECR
// Public. Invalid requests are rejected with the real error codes.
type AWS struct {
	*Server
	dir string
	guardedState[AWSState]
}

// NewAWS starts the server. The caller must close it.
func NewAWS() (*AWS, error) {
	dir, err := os.MkdirTemp("", "testcloud-")
	if err != nil {
		return nil, err
	}
	a := &AWS{dir: dir}
	a.state = AWSState{
		Password: "open-sesame", Lifetime: 12 * time.Hour,
		SecretKey: canary.PasswordSecret + "-key", SessionToken: canary.TokenSecret + "-session", KeyLifetime: 6 * time.Hour,
		Region: "eu-west-1",
	}
	a.Server = NewServer(http.HandlerFunc(a.dispatch))
	return a, nil
}

// Close stops the server.
func (a *AWS) Close() {
	a.Server.Close()
	os.RemoveAll(a.dir)
}

// Environ returns variables that make an AWS SDK use only this server. They set no region, and the
// only credentials are the instance's. Append AWS_REGION and other variables as needed.
func (a *AWS) Environ() []string {
	none := filepath.Join(a.dir, "none")
	environ := []string{
		"HOME=" + a.dir, "USERPROFILE=" + a.dir,
		"AWS_CONFIG_FILE=" + none, "AWS_SHARED_CREDENTIALS_FILE=" + none,
		"AWS_ENDPOINT_URL=" + a.URL(), "AWS_EC2_METADATA_SERVICE_ENDPOINT=" + a.URL(),
		// This proxy is unreachable, so that requests to other hosts fail.
		"HTTP_PROXY=" + refusingProxy, "HTTPS_PROXY=" + refusingProxy, "http_proxy=" + refusingProxy, "https_proxy=" + refusingProxy,
		"NO_PROXY=", "no_proxy=",
	}
	// For STS, the SDK's credential chain ignores AWS_ENDPOINT_URL.
	for _, service := range strings.Fields("ECR ECR_PUBLIC STS SSO SSO_OIDC SIGNIN") {
		environ = append(environ, "AWS_ENDPOINT_URL_"+service+"="+a.URL())
	}
	for _, name := range strings.Fields(awsUnsetVars) {
		environ = append(environ, name+"=")
	}
	return environ
}

// awsUnsetVars lists variables to unset, because they could select other endpoints.
const awsUnsetVars = `
	AWS_ACCESS_KEY AWS_ACCESS_KEY_ID AWS_CA_BUNDLE AWS_CONTAINER_AUTHORIZATION_TOKEN
	AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE AWS_CONTAINER_CREDENTIALS_FULL_URI
	AWS_CONTAINER_CREDENTIALS_RELATIVE_URI AWS_DEFAULTS_MODE AWS_DEFAULT_PROFILE AWS_DEFAULT_REGION AWS_EC2_METADATA_DISABLED
	AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE AWS_EC2_METADATA_V1_DISABLED AWS_ECR_ROLE_ARN
	AWS_IGNORE_CONFIGURED_ENDPOINT_URLS AWS_LOGIN_CACHE_DIRECTORY AWS_MAX_ATTEMPTS AWS_PROFILE AWS_REGION AWS_RETRY_MODE AWS_ROLE_ARN
	AWS_ROLE_SESSION_NAME AWS_SECRET_ACCESS_KEY AWS_SECRET_KEY AWS_SESSION_TOKEN AWS_USE_DUALSTACK_ENDPOINT
	AWS_USE_FIPS_ENDPOINT AWS_WEB_IDENTITY_TOKEN_FILE`

// refusingProxy refuses connections, because no server listens on port 1.
const refusingProxy = "http://127.0.0.1:1"

// ContainerURL returns the URL of the container credentials endpoint, for
// AWS_CONTAINER_CREDENTIALS_FULL_URI.
func (a *AWS) ContainerURL() string { return a.URL() + containerPath }

const (
	containerPath = "/v2/credentials"
	metadataPath  = "/latest/"
)

func (a *AWS) dispatch(w http.ResponseWriter, r *http.Request) {
	state := a.currentState()
	w.Header().Set("X-Amzn-Requestid", AWSRequestID)
	switch {
	case strings.HasPrefix(r.URL.Path, metadataPath):
		state.serveMetadata(w, r)
	case r.URL.Path == containerPath:
		state.serveContainer(w, r)
	case r.Method != http.MethodPost || r.URL.Path != "/":
		http.Error(w, "there is no "+r.Method+" "+r.URL.Path, http.StatusNotFound)
	case r.Header.Get("X-Amz-Target") != "":
		state.serveECR(w, r)
	default:
		state.serveSTS(w, r)
	}
}

// serveECR implements ECR and ECR Public.
func (s AWSState) serveECR(w http.ResponseWriter, r *http.Request) {
	target, _, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	service := map[string]string{
		"AmazonEC2ContainerRegistry_V20150921": "ecr",
		"SpencerFrontendService":               "ecr-public",
	}[target]
	region := s.SigningRegion
	if service == "ecr-public" {
		region = "us-east-1"
	}
	switch {
	case service == "" || r.Header.Get("X-Amz-Target") != target+".GetAuthorizationToken":
		writeJSONError(w, http.StatusBadRequest, "UnknownOperationException", "")
	case r.Header.Get("Content-Type") != "application/x-amz-json-1.1":
		writeJSONError(w, http.StatusBadRequest, "SerializationException", "content type")
	case !isObject(r.Body):
		writeJSONError(w, http.StatusBadRequest, "SerializationException", "body")
	default:
		if problem := s.checkSignature(r, service, region); problem != "" {
			writeJSONError(w, http.StatusForbidden, "InvalidSignatureException", problem)
			return
		}
		s.writeAuthorization(w, service)
	}
}

func isObject(body io.Reader) bool {
	var members map[string]any
	return json.NewDecoder(body).Decode(&members) == nil && members != nil
}

func (s AWSState) writeAuthorization(w http.ResponseWriter, service string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	if s.AuthorizationData != "" {
		w.Write([]byte(`{"authorizationData":` + s.AuthorizationData + `}`))
		return
	}
	data := map[string]any{
		"authorizationToken": base64.StdEncoding.EncodeToString([]byte("AWS:" + s.Password)),
		"proxyEndpoint":      "https://registry.invalid",
	}
	expires := time.Now().Add(s.Lifetime)
	if s.Expires != nil {
		expires = *s.Expires
	}
	if !expires.IsZero() {
		data["expiresAt"] = float64(expires.UnixMilli()) / 1000
	}
	var answer any = []any{data}
	if service == "ecr-public" {
		answer = data
	}
	encodeJSON(w, map[string]any{"authorizationData": answer})
}
