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
	"sync"
	"time"

	"github.com/regcred/regcred/internal/canary"
)

// The names under which [AWS] hands out credentials. The access key in a
// signature tells where its maker got it.
const (
	AWSKeyInstance  = "ASIAINSTANCE00000000"
	AWSKeyContainer = "ASIACONTAINER0000000"
	AWSKeyRole      = "ASIAASSUMEDROLE00000" // from STS
)

// AWSRole is the name of the instance's role.
const AWSRole = "node-role"

// AWSRequestID is the name that every answer of [AWS] has.
const AWSRequestID = "7a3c1e52-request"

// AWSState is what [AWS] answers with. Its zero value is not usable.
type AWSState struct {
	Password string // of the registry, for user "AWS"

	// Expires is when the registry password says that it ends; a zero time
	// leaves it out. Life is the same from the time of the answer on, and is
	// used if Expires is nil.
	Expires *time.Time
	Life    time.Duration

	// Data, if set, is the JSON value of "authorizationData" in place of the
	// one that the other fields make.
	Data string

	SecretKey    string        // of all credentials that are handed out
	SessionToken string        // likewise; "" hands out none
	KeyLife      time.Duration // likewise

	Region         string // where the instance is; "" is not known (404)
	TokensOptional bool   // metadata is given without a session token too (IMDSv1)
	ContainerToken string // what the container endpoint wants as Authorization; "" nothing

	// WebIdentityToken and RoleARN are what STS wants; "" takes anything.
	WebIdentityToken string
	RoleARN          string

	// Roles are those that STS knows, by ARN, and what each wants and gives; nil
	// knows any, which all give [AWSKeyRole].
	Roles map[string]AWSTrust

	// SigningRegion is the region that signatures for ECR must be for; "" any.
	SigningRegion string
}

// AWSTrust is the trust policy of a role. Access keys stand for who has them.
type AWSTrust struct {
	By         string // the access key that may take it; "" is a web identity
	ExternalID string // that has to be given; "" takes any
	Key        string // the access key of the role
}

// AWS is the part of Amazon's cloud from which registry credentials come, at
// the root of one address: the instance metadata service in both versions, the
// container credentials endpoint, STS, ECR and ECR Public. What is not asked
// as they want it, they refuse with their own error codes.
type AWS struct {
	*Server
	dir string

	mu    sync.Mutex
	state AWSState
}

// NewAWS starts the cloud. Close it.
func NewAWS() (*AWS, error) {
	dir, err := os.MkdirTemp("", "testcloud-")
	if err != nil {
		return nil, err
	}
	a := &AWS{dir: dir, state: AWSState{
		Password: "open-sesame", Life: 12 * time.Hour,
		SecretKey: canary.Password + "-key", SessionToken: canary.Token + "-session", KeyLife: 6 * time.Hour,
		Region: "eu-west-1",
	}}
	a.Server = Serve(http.HandlerFunc(a.dispatch))
	return a, nil
}

// Close ends the cloud.
func (a *AWS) Close() {
	a.Server.Close()
	os.RemoveAll(a.dir)
}

// Set changes what is answered from now on.
func (a *AWS) Set(change func(*AWSState)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.state)
}

// get returns what is answered now.
func (a *AWS) get() AWSState {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// Environ returns the variables that make an AWS SDK ask nobody but this
// cloud, whatever else is in the environment. They give it no region and no
// credentials but the instance's; append AWS_REGION and the like.
func (a *AWS) Environ() []string {
	none := filepath.Join(a.dir, "none")
	environ := []string{
		"HOME=" + a.dir, "USERPROFILE=" + a.dir,
		"AWS_CONFIG_FILE=" + none, "AWS_SHARED_CREDENTIALS_FILE=" + none,
		"AWS_ENDPOINT_URL=" + a.URL(), "AWS_EC2_METADATA_SERVICE_ENDPOINT=" + a.URL(),
		// A proxy that nobody runs, for what goes elsewhere all the same.
		"HTTP_PROXY=" + noProxy, "HTTPS_PROXY=" + noProxy, "http_proxy=" + noProxy, "https_proxy=" + noProxy,
		"NO_PROXY=", "no_proxy=",
	}
	// The SDK's chain of credentials asks STS, and takes no notice of the
	// address that is for all services.
	for _, service := range strings.Fields("ECR ECR_PUBLIC STS SSO SSO_OIDC SIGNIN") {
		environ = append(environ, "AWS_ENDPOINT_URL_"+service+"="+a.URL())
	}
	for _, name := range strings.Fields(awsUnset) {
		environ = append(environ, name+"=")
	}
	return environ
}

// awsUnset are the variables that would lead elsewhere.
const awsUnset = `
	AWS_ACCESS_KEY AWS_ACCESS_KEY_ID AWS_CA_BUNDLE AWS_CONTAINER_AUTHORIZATION_TOKEN
	AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE AWS_CONTAINER_CREDENTIALS_FULL_URI
	AWS_CONTAINER_CREDENTIALS_RELATIVE_URI AWS_DEFAULTS_MODE AWS_DEFAULT_PROFILE AWS_DEFAULT_REGION AWS_EC2_METADATA_DISABLED
	AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE AWS_EC2_METADATA_V1_DISABLED AWS_ECR_ROLE_ARN
	AWS_IGNORE_CONFIGURED_ENDPOINT_URLS AWS_LOGIN_CACHE_DIRECTORY AWS_MAX_ATTEMPTS AWS_PROFILE AWS_REGION AWS_RETRY_MODE AWS_ROLE_ARN
	AWS_ROLE_SESSION_NAME AWS_SECRET_ACCESS_KEY AWS_SECRET_KEY AWS_SESSION_TOKEN AWS_USE_DUALSTACK_ENDPOINT
	AWS_USE_FIPS_ENDPOINT AWS_WEB_IDENTITY_TOKEN_FILE`

// noProxy refuses connections: port 1 is reserved and nobody listens there.
const noProxy = "http://127.0.0.1:1"

// ContainerURL is the address of the container credentials endpoint, for
// AWS_CONTAINER_CREDENTIALS_FULL_URI.
func (a *AWS) ContainerURL() string { return a.URL() + containerPath }

const (
	containerPath = "/v2/credentials"
	metadataPath  = "/latest/"
)

func (a *AWS) dispatch(w http.ResponseWriter, r *http.Request) {
	state := a.get()
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

// serveECR answers for ECR and ECR Public.
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
		refuseJSON(w, http.StatusBadRequest, "UnknownOperationException", "")
	case r.Header.Get("Content-Type") != "application/x-amz-json-1.1":
		refuseJSON(w, http.StatusBadRequest, "SerializationException", "content type")
	case !isObject(r.Body):
		refuseJSON(w, http.StatusBadRequest, "SerializationException", "body")
	default:
		if problem := s.checkSignature(r, service, region); problem != "" {
			refuseJSON(w, http.StatusForbidden, "InvalidSignatureException", problem)
			return
		}
		s.writeAuthorization(w, service)
	}
}

// isObject reports whether a body is a JSON object.
func isObject(body io.Reader) bool {
	var members map[string]any
	return json.NewDecoder(body).Decode(&members) == nil && members != nil
}

func (s AWSState) writeAuthorization(w http.ResponseWriter, service string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	if s.Data != "" {
		w.Write([]byte(`{"authorizationData":` + s.Data + `}`))
		return
	}
	data := map[string]any{
		"authorizationToken": base64.StdEncoding.EncodeToString([]byte("AWS:" + s.Password)),
		"proxyEndpoint":      "https://registry.invalid",
	}
	expires := time.Now().Add(s.Life)
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
