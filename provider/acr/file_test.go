// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/secretfile"
	"github.com/regcred/regcred/internal/testcloud"
)

// selfSigned returns a certificate and its key, both in PEM.
func selfSigned(t testing.TB) (cert, key []byte, private *rsa.PrivateKey) {
	t.Helper()
	private = must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, private.Public(), private))(t)
	pkcs8 := must.Get(x509.MarshalPKCS8PrivateKey(private))(t)
	return toPEM("CERTIFICATE", der), toPEM("PRIVATE KEY", pkcs8), private
}

func toPEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// withCertificate returns the path of an azure.json that uses the client certificate at path.
func (w *testCloud) withCertificate(path string) string {
	return w.writeFile("azure.json", `{"cloud":"AzureUSGovernment","tenantId":"node-tenant","aadClientId":"node-client","aadClientCertPath":"`+path+`"}`)
}

// TestCertificate verifies the claims of a signed assertion, as documented by Microsoft, and its
// signature.
func TestCertificate(t *testing.T) {
	cert, key, private := selfSigned(t)
	otherCert, _, _ := selfSigned(t)
	pkcs1 := toPEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(private))
	for name, text := range map[string][]byte{
		"certificate first": concatBytes(cert, key), "key first": concatBytes(key, cert), "PKCS#1": concatBytes(cert, pkcs1),
		"a chain": concatBytes(otherCert, cert, key), "among words": concatBytes([]byte("Bag Attributes\n  friendlyName: x\n"), cert, []byte("\n\n"), key),
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestCloud(t, "")
			w.opts.ConfigFile = w.withCertificate(w.writeFile("cert.pem", string(text)))
			now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			w.opts.now = func() time.Time { return now }
			w.az.Update(func(s *testcloud.AzureState) { s.Tenant = "node-tenant" })
			w.mustGetCredentials(imageRequest("foo.azurecr.us/app"))
			want := []string{"POST login.microsoftonline.us/node-tenant/oauth2/v2.0/token", "GET foo.azurecr.us/v2/", "POST foo.azurecr.us/oauth2/exchange"}
			if diff := cmp.Diff(want, w.az.SortedRequestLines()); diff != "" {
				t.Errorf("requests (-want +got)\n%s", diff)
			}
			checkSigned(t, w.findRequest(entraPath).Form().Get("client_assertion"), cert, private, now)
		})
	}
	t.Run("refused", func(t *testing.T) {
		w := newTestCloud(t, "")
		w.opts.ConfigFile = w.withCertificate(w.writeFile("cert.pem", string(concatBytes(cert, key))))
		w.az.Inject(testcloud.Fault{Path: entraPath, Status: 401, Times: -1, Body: `{"error":"invalid_client","error_description":"AADSTS700027 ` + canary.TokenSecret + `"}`})
		w.checkError(imageRequest("foo.azurecr.us/app"), "login.microsoftonline.us/node-tenant/oauth2/v2.0/token: status 401 Unauthorized (invalid_client, AADSTS700027)", "check tenantId")
	})
	t.Run("in a region", func(t *testing.T) { // the regional endpoint accepts an assertion with the global audience
		w := newTestCloud(t, "")
		w.net.Handle("*.login.microsoft.com", w.az)
		w.env["AZURE_REGIONAL_AUTHORITY_NAME"] = "westeurope"
		w.opts.ConfigFile = w.writeFile("azure.json", `{"tenantId":"t","aadClientId":"c","aadClientCertPath":"`+w.writeFile("cert.pem", string(concatBytes(cert, key)))+`"}`)
		w.mustGetCredentials(imageRequest("foo.azurecr.io/app"))
		asked := w.findRequest(entraPath)
		if got := parseClaims(t, asked.Form().Get("client_assertion"))["aud"]; asked.Host != "westeurope.login.microsoft.com" || got != "https://login.microsoftonline.com/t/oauth2/v2.0/token" {
			t.Errorf("asked %s with a token for %v", asked.Host, got)
		}
	})
}

func concatBytes(parts ...[]byte) []byte {
	var all []byte
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

// parseClaims returns the claims of a signed token.
func parseClaims(t *testing.T, token string) map[string]any {
	t.Helper()
	var m map[string]any
	data, err := base64.RawURLEncoding.DecodeString(strings.Split(token+"..", ".")[1])
	if err != nil || json.Unmarshal(data, &m) != nil {
		t.Fatalf("claims that are none: %v", err)
	}
	return m
}

func checkSigned(t *testing.T, token string, cert []byte, key *rsa.PrivateKey, now time.Time) {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("%d parts", len(parts))
	}
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err == nil {
		err = rsa.VerifyPSS(&key.PublicKey, crypto.SHA256, digest[:], signature, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
	}
	if err != nil {
		t.Errorf("the signature: %v", err)
	}
	var header map[string]string
	data, err := base64.RawURLEncoding.DecodeString(parts[0])
	if err != nil || json.Unmarshal(data, &header) != nil {
		t.Fatalf("a header that is none: %v", err)
	}
	block, _ := pem.Decode(cert)
	thumbprint := sha256.Sum256(block.Bytes)
	if diff := cmp.Diff(map[string]string{"alg": "PS256", "typ": "JWT", "x5t#S256": base64.RawURLEncoding.EncodeToString(thumbprint[:])}, header); diff != "" {
		t.Errorf("header (-want +got)\n%s", diff)
	}
	got := parseClaims(t, token)
	if id, _ := got["jti"].(string); len(id) < 20 {
		t.Errorf("its id is %q", id)
	}
	delete(got, "jti")
	want := map[string]any{
		"iss": "node-client", "sub": "node-client", "aud": "https://login.microsoftonline.us/node-tenant/oauth2/v2.0/token",
		"nbf": float64(now.Unix()), "exp": float64(now.Unix() + 600),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("claims (-want +got)\n%s", diff)
	}
}

func TestCertificateRefused(t *testing.T) {
	cert, key, _ := selfSigned(t)
	_, otherKey, _ := selfSigned(t)
	curve := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der := must.Get(x509.MarshalPKCS8PrivateKey(curve))(t)
	const (
		none     = "not a private key in PEM format, which begins with -----BEGIN; convert the certificate and RSA key to PEM"
		unread   = "cannot parse the private key; use a complete RSA (not RSA-PSS), P-256 or Ed25519 key"
		noCert   = "no certificate matches the private key"
		password = "the private key is encrypted"
	)
	for name, tt := range map[string]struct {
		text []byte
		want string
	}{
		"empty":               {nil, none},
		"words":               {[]byte(canary.PasswordSecret), none},
		"PKCS#12":             {[]byte("\x30\x82\x09\x51\x02\x01\x03" + canary.PasswordSecret), none},
		"certificate alone":   {cert, `the PEM block type is "CERTIFICATE", not PRIVATE KEY`},
		"key alone":           {key, noCert},
		"two keys":            {concatBytes(cert, otherKey, key), noCert},
		"a curve":             {concatBytes(cert, toPEM("PRIVATE KEY", der)), "the key is for ES256; use an RSA key; "},
		"a bad key":           {concatBytes(cert, toPEM("PRIVATE KEY", []byte(canary.PasswordSecret))), unread},
		"a bad key of PKCS#1": {concatBytes(cert, toPEM("RSA PRIVATE KEY", []byte(canary.PasswordSecret))), unread},
		"a bad certificate":   {concatBytes(toPEM("CERTIFICATE", []byte(canary.PasswordSecret)), key), noCert},
		"another's key":       {concatBytes(cert, otherKey), noCert},
		"a password":          {concatBytes(cert, toPEM("ENCRYPTED PRIVATE KEY", []byte(canary.PasswordSecret))), password},
		"an old password": {concatBytes(cert, pem.EncodeToMemory(&pem.Block{
			Type: "RSA PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-256-CBC,00"}, Bytes: []byte(canary.PasswordSecret),
		})), password},
		"too large": {[]byte(strings.Repeat(" ", secretfile.MaxSize+1)), "larger than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestCloud(t, "")
			path := w.writeFile("cert.pem", string(tt.text))
			w.opts.ConfigFile = w.withCertificate(path)
			w.checkError(imageRequest("foo.azurecr.us/app"), `aadClientCertPath "`+path+`": `, tt.want)
			if strings.Contains(strings.Join(w.az.SortedRequestLines(), " "), entraPath) {
				t.Errorf("asked %q", w.az.SortedRequestLines())
			}
		})
	}
}

func federatedConfig(path string) string {
	return `{"tenantId":"t","aadClientId":"c","useFederatedWorkloadIdentityExtension":true,"aadFederatedTokenFile":"` + path + `"}`
}

func TestFederatedTokenFile(t *testing.T) {
	w := newTestCloud(t, "")
	w.opts.ConfigFile = w.writeFile("azure.json", federatedConfig(w.writeFile("token", canary.TokenSecret+"\n")))
	w.az.Update(func(s *testcloud.AzureState) { s.ClientAssertion = canary.TokenSecret })
	w.mustGetCredentials(imageRequest("foo.azurecr.io/app"))
	for text, want := range map[string]string{
		" \n": "empty or not a token", canary.TokenSecret + "\n" + canary.TokenSecret: "empty or not a token", canary.TokenSecret + "\x00": "empty or not a token",
	} {
		path := w.writeFile("token", text)
		w.opts.ConfigFile = w.writeFile("azure.json", federatedConfig(path))
		w.checkError(imageRequest("foo.azurecr.io/app"), `aadFederatedTokenFile "`+path+`": `, want)
	}
	w.opts.ConfigFile = w.writeFile("azure.json", federatedConfig("/nonexistent/token"))
	w.checkError(imageRequest("foo.azurecr.io/app"), `aadFederatedTokenFile "/nonexistent/token": no such file or directory`)
}

// TestFilePermissions verifies that a file with a secret is rejected if other users can read or
// change it. A file that determines where secrets are sent is rejected if other users can change
// it.
func TestFilePermissions(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no mode that says what others may")
	}
	cert, key, _ := selfSigned(t)
	const secret, writable = "other users can read or change it; run chmod 600", "other users can change it; run chmod o-w"
	wrote := func(w *testCloud, config string) { w.opts.ConfigFile = w.writeFile("azure.json", config) }
	for name, tt := range map[string]struct {
		place func(w *testCloud, mode os.FileMode) (path string) // creates a file with this mode
		wants [3]string                                          // for modes 0604, 0602 and 0640
		says  string
	}{
		"azure.json with a secret": {func(w *testCloud, mode os.FileMode) string {
			w.opts.ConfigFile = w.fileWithMode(mode, servicePrincipalConfig)
			return w.opts.ConfigFile
		}, [3]string{secret, secret, ""}, "cloud configuration "},
		"azure.json with a password": {func(w *testCloud, mode os.FileMode) string {
			w.opts.ConfigFile = w.fileWithMode(mode, `{"useManagedIdentityExtension":true,"aadClientCertPassword":"x"}`)
			return w.opts.ConfigFile
		}, [3]string{secret, secret, ""}, "cloud configuration "},
		"azure.json without": {func(w *testCloud, mode os.FileMode) string {
			w.opts.ConfigFile = w.fileWithMode(mode, managedIdentityConfig)
			return w.opts.ConfigFile
		}, [3]string{"", writable, ""}, "cloud configuration "},
		"azure.json of AKS": {func(w *testCloud, mode os.FileMode) string {
			w.opts.ConfigFile = w.fileWithMode(mode, `{"useManagedIdentityExtension":true,"aadClientId":"msi","aadClientSecret":"msi"}`)
			return w.opts.ConfigFile
		}, [3]string{"", writable, ""}, "cloud configuration "},
		"token file": {func(w *testCloud, mode os.FileMode) string {
			path := w.fileWithMode(mode, canary.TokenSecret)
			wrote(w, federatedConfig(path))
			return path
		}, [3]string{secret, secret, ""}, "aadFederatedTokenFile "},
		"certificate": {func(w *testCloud, mode os.FileMode) string {
			path := w.fileWithMode(mode, string(concatBytes(cert, key)))
			wrote(w, `{"tenantId":"t","aadClientId":"c","aadClientCertPath":"`+path+`"}`)
			return path
		}, [3]string{secret, secret, ""}, "aadClientCertPath "},
		"environment file": {func(w *testCloud, mode os.FileMode) string {
			wrote(w, `{"cloud":"AzureStackCloud","tenantId":"t","aadClientId":"c","aadClientSecret":"`+canary.PasswordSecret+`"}`)
			w.env["AZURE_ENVIRONMENT_FILEPATH"] = w.fileWithMode(mode, `{}`)
			return w.env["AZURE_ENVIRONMENT_FILEPATH"]
		}, [3]string{"", writable, ""}, "AZURE_ENVIRONMENT_FILEPATH: environment file "},
	} {
		for i, mode := range []os.FileMode{0o604, 0o602, 0o640} {
			w := newTestCloud(t, "")
			path := tt.place(w, mode)
			if want := tt.wants[i]; want != "" {
				w.checkError(imageRequest("foo.azurecr.io/app"), tt.says+`"`+path+`": `+want+" "+path)
			} else if _, err := w.getCredentials(imageRequest("foo.azurecr.io/app")); err != nil {
				t.Errorf("%s with %v: %v", name, mode, err)
			}
		}
	}
	for mode, want := range map[os.FileMode]string{0o644: "", 0o646: writable} {
		w := newTestCloud(t, managedIdentityConfig)
		w.serveIdentityBinding(noWrap)
		must.Do(t, os.Chmod(w.opts.Binding.CAFile, mode))
		if _, err := w.getCredentials(podRequest("foo.azurecr.io/app", identityAnnotations("c", "t"))); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("authority with %v: %v", mode, err)
		}
	}
}

// TestPipes verifies that a named pipe leads to an error, and that the provider does not wait for a
// writer.
func TestPipes(t *testing.T) {
	for says, place := range map[string]func(w *testCloud, path string){
		"cloud configuration ":   func(w *testCloud, path string) { w.opts.ConfigFile = path },
		"aadFederatedTokenFile ": func(w *testCloud, path string) { w.opts.ConfigFile = w.writeFile("azure.json", federatedConfig(path)) },
		"aadClientCertPath ":     func(w *testCloud, path string) { w.opts.ConfigFile = w.withCertificate(path) },
		"AZURE_ENVIRONMENT_FILEPATH: environment file ": func(w *testCloud, path string) {
			w.opts.ConfigFile = w.writeFile("azure.json", `{"cloud":"AzureStackCloud","tenantId":"t","aadClientId":"c","aadClientSecret":"x"}`)
			w.env["AZURE_ENVIRONMENT_FILEPATH"] = path
		},
	} {
		w := newTestCloud(t, managedIdentityConfig)
		path := makeNamedPipe(t, t.TempDir())
		place(w, path)
		w.checkError(imageRequest("foo.azurecr.us/app"), says+`"`+path+`": is a named pipe, not a regular file`)
	}
	w := newTestCloud(t, managedIdentityConfig)
	w.serveIdentityBinding(noWrap)
	w.opts.Binding.CAFile = makeNamedPipe(t, t.TempDir())
	w.checkError(podRequest("foo.azurecr.io/app", identityAnnotations("c", "t")), "read the identity binding CA ", "is a named pipe")
	w.opts.Binding.CAFile = filepath.Join(t.TempDir(), "none")
	w.checkError(podRequest("foo.azurecr.io/app", identityAnnotations("c", "t")), "read the identity binding CA ", "no such file or directory")
}
