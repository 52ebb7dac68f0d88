// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testcloud

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const metadataToken = "metadata-session"

const (
	tokenHeader    = "X-Aws-Ec2-Metadata-Token"
	tokenTTLHeader = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"
)

// serveMetadata implements the instance metadata service.
func (s AWSState) serveMetadata(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, metadataPath)
	if path == "api/token" {
		serveMetadataToken(w, r)
		return
	}
	token, given := r.Header[tokenHeader]
	if r.Method != http.MethodGet || given && token[0] != metadataToken || !given && !s.AllowIMDSv1 {
		http.Error(w, "401 - Unauthorized", http.StatusUnauthorized)
		return
	}
	switch {
	case path == "meta-data/iam/security-credentials/":
		io.WriteString(w, AWSRole)
	case path == "meta-data/iam/security-credentials/"+AWSRole:
		encodeJSON(w, map[string]any{
			"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": time.Now().UTC(),
			"AccessKeyId": AWSKeyInstance, "SecretAccessKey": s.SecretKey, "Token": s.SessionToken,
			"Expiration": time.Now().Add(s.KeyLifetime).UTC().Truncate(time.Second),
		})
	case path == "meta-data/placement/region" && s.Region != "":
		io.WriteString(w, s.Region)
	case path == "dynamic/instance-identity/document" && s.Region != "":
		encodeJSON(w, map[string]any{"region": s.Region})
	default:
		http.Error(w, "404 - Not Found", http.StatusNotFound)
	}
}

func serveMetadataToken(w http.ResponseWriter, r *http.Request) {
	ttl := r.Header.Get(tokenTTLHeader)
	switch {
	case r.Method != http.MethodPut:
		http.Error(w, "405 - Method Not Allowed", http.StatusMethodNotAllowed)
	case ttl == "":
		http.Error(w, "400 - Bad Request", http.StatusBadRequest)
	default:
		w.Header().Set(tokenTTLHeader, ttl)
		io.WriteString(w, metadataToken)
	}
}

func (s AWSState) serveContainer(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || r.Header.Get("Authorization") != s.ContainerToken {
		w.WriteHeader(http.StatusUnauthorized)
		encodeJSON(w, map[string]string{"code": "AccessDenied", "message": "authorization"})
		return
	}
	encodeJSON(w, map[string]any{
		"AccessKeyId": AWSKeyContainer, "SecretAccessKey": s.SecretKey, "Token": s.SessionToken,
		"Expiration": time.Now().Add(s.KeyLifetime).UTC().Truncate(time.Second),
	})
}

// serveSTS implements the Security Token Service. AssumeRole requests must be signed, and
// AssumeRoleWithWebIdentity requests must not.
func (s AWSState) serveSTS(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	form, err := url.ParseQuery(string(body))
	action := form.Get("Action")
	refusal := ""
	switch {
	case err != nil, r.Header.Get("Content-Type") != "application/x-www-form-urlencoded", form.Get("Version") != "2011-06-15":
		refusal = "ValidationError"
	case form.Get("RoleArn") == "" || form.Get("RoleSessionName") == "":
		refusal = "ValidationError"
	case s.RoleARN != "" && form.Get("RoleArn") != s.RoleARN:
		refusal = "AccessDenied"
	case action == "AssumeRole":
		if s.checkSignature(r, "sts", "") != "" {
			refusal = "SignatureDoesNotMatch"
		}
	case action != "AssumeRoleWithWebIdentity":
		refusal = "InvalidAction"
	case r.Header.Get("Authorization") != "":
		refusal = "ValidationError"
	case form.Get("WebIdentityToken") == "" || s.WebIdentityToken != "" && form.Get("WebIdentityToken") != s.WebIdentityToken:
		refusal = "InvalidIdentityToken"
	}
	if refusal != "" {
		writeXMLError(w, http.StatusBadRequest, refusal, "")
		return
	}
	key := AWSKeyRole
	if s.Roles != nil {
		trust, ok := s.Roles[form.Get("RoleArn")]
		by, _ := ParseAWSSignature(r.Header)
		if !ok || trust.Principal != by.KeyID || trust.ExternalID != "" && trust.ExternalID != form.Get("ExternalId") {
			writeXMLError(w, http.StatusForbidden, "AccessDenied", "User: "+by.KeyID+" is not authorized to perform: sts:"+action+" on resource: "+form.Get("RoleArn"))
			return
		}
		key = trust.RoleKey
	}
	s.writeRoleCredentials(w, action, key, form.Get("RoleArn"), form.Get("RoleSessionName"))
}

func (s AWSState) writeRoleCredentials(w http.ResponseWriter, action, key, role, session string) {
	w.Header().Set("Content-Type", "text/xml")
	io.WriteString(w, `<`+action+`Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><`+action+`Result><Credentials>`+
		`<AccessKeyId>`+escapeXML(key)+`</AccessKeyId><SecretAccessKey>`+escapeXML(s.SecretKey)+`</SecretAccessKey>`+
		`<SessionToken>`+escapeXML(s.SessionToken)+`</SessionToken>`+
		`<Expiration>`+time.Now().Add(s.KeyLifetime).UTC().Format(time.RFC3339)+`</Expiration></Credentials>`+
		`<AssumedRoleUser><Arn>`+escapeXML(role+"/"+session)+`</Arn><AssumedRoleId>AROATESTCLOUD:`+escapeXML(session)+
		`</AssumedRoleId></AssumedRoleUser></`+action+`Result>`+
		`<ResponseMetadata><RequestId>`+AWSRequestID+`</RequestId></ResponseMetadata></`+action+`Response>`)
}

// AWSSignature is the credential scope of a request's signature (Signature Version 4).
type AWSSignature struct {
	KeyID, Region, Service string
}

// ParseAWSSignature parses the signature of a request. ok is false if the request is unsigned.
func ParseAWSSignature(header http.Header) (sig AWSSignature, ok bool) {
	rest, ok := strings.CutPrefix(header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=")
	if !ok {
		return sig, false
	}
	scope, rest, _ := strings.Cut(rest, ",")
	part := strings.Split(scope, "/")
	if len(part) != 5 || part[4] != "aws4_request" || header.Get("X-Amz-Date") == "" ||
		!strings.Contains(rest, "SignedHeaders=") || !strings.Contains(rest, "Signature=") {
		return sig, false
	}
	return AWSSignature{KeyID: part[0], Region: part[2], Service: part[3]}, true
}

// checkSignature returns what is wrong with a request's signature, or "". If region is "", any
// region is valid.
func (s AWSState) checkSignature(r *http.Request, service, region string) string {
	sig, ok := ParseAWSSignature(r.Header)
	handedOut := sig.KeyID == AWSKeyInstance || sig.KeyID == AWSKeyContainer || sig.KeyID == AWSKeyRole
	for _, trust := range s.Roles {
		handedOut = handedOut || sig.KeyID == trust.RoleKey
	}
	switch {
	case !ok || sig.KeyID == "" || sig.Region == "":
		return "there is no signature"
	case sig.Service != service:
		return "the signature is for " + sig.Service
	case region != "" && sig.Region != region:
		return "the signature is for " + sig.Region
	case handedOut && r.Header.Get("X-Amz-Security-Token") != s.SessionToken:
		return "the session token is another one"
	}
	return ""
}

// writeJSONError writes an error in ECR's format.
func writeJSONError(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.WriteHeader(status)
	io.WriteString(w, AWSErrorJSON(code, message))
}

// writeXMLError writes an error in STS's format.
func writeXMLError(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "text/xml")
	w.WriteHeader(status)
	io.WriteString(w, AWSErrorXML(code, message))
}

// AWSErrorJSON returns the body of an ECR error, for a [Fault].
func AWSErrorJSON(code, message string) string {
	body, _ := json.Marshal(map[string]string{"__type": code, "message": message})
	return string(body)
}

// AWSErrorXML returns the body of an STS error, for a [Fault].
func AWSErrorXML(code, message string) string {
	return `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>` + escapeXML(code) +
		`</Code><Message>` + escapeXML(message) + `</Message></Error><RequestId>` + AWSRequestID + `</RequestId></ErrorResponse>`
}

func escapeXML(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(s))
	return b.String()
}

func encodeJSON(w io.Writer, v any) { json.NewEncoder(w).Encode(v) }
