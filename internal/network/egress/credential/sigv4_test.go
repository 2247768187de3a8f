package credential_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/policy"
)

const (
	keyID  = "AKIDEXAMPLE000000000"
	secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
)

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

func pairSet(t *testing.T, v string) (*credential.Set, string) {
	t.Helper()
	set, err := credential.NewSet([]policy.Credential{{Name: "aws", Endpoints: at(t, "s.example", "/**"), ExposeAs: "AWS_ACCESS_KEY_ID"}},
		map[string]*credential.Value{"aws": value(t, v)})
	if err != nil {
		t.Fatal(err)
	}
	return set, set.Environment()["AWS_ACCESS_KEY_ID"]
}

// checkSigned signs what arrives once more, as a service does: with the headers
// that the signature names, and the body as it came.
func checkSigned(t *testing.T, name string, req *http.Request, service, region, hash, token string) {
	t.Helper()
	auth := req.Header.Get("Authorization")
	_, rest, _ := strings.Cut(auth, "SignedHeaders=")
	list, _, _ := strings.Cut(rest, ",")
	again := &http.Request{Method: req.Method, Host: req.Host, URL: req.URL, Header: http.Header{}}
	for h := range strings.SplitSeq(list, ";") {
		if h != "host" && h != "x-amz-date" && h != "x-amz-security-token" {
			again.Header[http.CanonicalHeaderKey(h)] = req.Header.Values(h)
		}
	}
	url := *req.URL
	again.URL = &url
	err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: keyID, SecretAccessKey: secret, SessionToken: token}, again, hash, service, region, signTime,
		func(o *v4.SignerOptions) { o.DisableURIPathEscaping = service == "s3" })
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Header.Get("Authorization"); got != auth {
		t.Errorf("%s: the signature does not hold\n%s\n%s", name, auth, got)
	}
	if !strings.Contains(auth, "Credential="+keyID+"/20260304/"+region+"/"+service+"/aws4_request") {
		t.Errorf("%s: scope: %s", name, auth)
	}
	for h, values := range req.Header {
		if strings.Contains(strings.Join(values, " "), secret) {
			t.Errorf("%s: %s holds the secret key", name, h)
		}
	}
}

func TestSign(t *testing.T) {
	t.Parallel()
	const body = "some body"
	for _, c := range []struct {
		name, value, given, body string
		endpoint                 policy.Endpoint
		region, hash, token      string
	}{
		{"auto, a service", keyID + ":" + secret, "", body, policy.Endpoint{Signing: policy.SigV4, SigningService: "bedrock", SigningRegion: "eu-west-1"}, "eu-west-1", sum(body), ""},
		{"auto, no body", keyID + ":" + secret, "", "", policy.Endpoint{Signing: policy.SigV4, SigningService: "s3", SigningRegion: "eu-west-1"}, "eu-west-1", sum(""), ""},
		{"auto, s3", keyID + ":" + secret, "", body, policy.Endpoint{Signing: policy.SigV4, SigningService: "s3", SigningRegion: "eu-west-1"}, "eu-west-1", "UNSIGNED-PAYLOAD", ""},
		{"auto, s3 with a hash", keyID + ":" + secret, sum(body), body, policy.Endpoint{Signing: policy.SigV4, SigningService: "s3", SigningRegion: "eu-west-1"}, "eu-west-1", sum(body), ""},
		{"auto, trailer", keyID + ":" + secret, "STREAMING-UNSIGNED-PAYLOAD-TRAILER", body, policy.Endpoint{Signing: policy.SigV4, SigningService: "s3", SigningRegion: "eu-west-1"}, "eu-west-1", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", ""},
		{"body", keyID + ":" + secret, "UNSIGNED-PAYLOAD", body, policy.Endpoint{Signing: policy.SigV4Body, SigningService: "s3", SigningRegion: "eu-west-1"}, "eu-west-1", sum(body), ""},
		{"no body", keyID + ":" + secret, sum(body), body, policy.Endpoint{Signing: policy.SigV4NoBody, SigningService: "execute-api", SigningRegion: "eu-west-1"}, "eu-west-1", "UNSIGNED-PAYLOAD", ""},
		{"the request's region", keyID + ":" + secret, "", body, policy.Endpoint{Signing: policy.SigV4, SigningService: "sts"}, "us-west-2", sum(body), ""},
		{"token", keyID + ":" + secret + ":to:ken", "", body, policy.Endpoint{Signing: policy.SigV4, SigningService: "sts"}, "us-west-2", sum(body), "to:ken"},
		{"JSON", `{"Version":1,"AccessKeyId":"` + keyID + `","SecretAccessKey":"` + secret + `","SessionToken":"tok"}`, "", body, policy.Endpoint{Signing: policy.SigV4, SigningService: "sts"}, "us-west-2", sum(body), "tok"},
	} {
		set, placeholder := pairSet(t, c.value)
		req := request(t, "POST", "https://s.example/a%20b/c?list-type=2&prefix=x%2Fy", c.body,
			"Authorization", "AWS4-HMAC-SHA256 Credential="+placeholder+"/20260304/us-west-2/other/aws4_request, SignedHeaders=host, Signature=00",
			"X-Amz-Date", "20200101T000000Z", "X-Amz-Security-Token", placeholder, "X-Amz-Meta-Key", "mine", "User-Agent", "aws-cli", "Content-Type", "text/plain")
		if c.given != "" {
			req.Header.Set("X-Amz-Content-Sha256", c.given)
		}
		done, err := set.Apply(t.Context(), req, target("s.example", "/a%20b/c"), &c.endpoint, signTime)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		checkSigned(t, c.name, req, c.endpoint.SigningService, c.region, c.hash, c.token)
		if got, err := readBody(t, req); err != nil || got != c.body {
			t.Errorf("%s: body %q, %v", c.name, got, err)
		}
		if got := req.Header.Get("X-Amz-Security-Token"); got != c.token {
			t.Errorf("%s: token %q", c.name, got)
		}
		if strings.Join(done.Used, " ") != "aws" {
			t.Errorf("%s: used %q", c.name, done.Used)
		}
		var misuse *credential.MisuseError
		req = request(t, "POST", "https://s.example/", "", "X-Amz-Meta-Key", placeholder)
		if _, err := set.Apply(t.Context(), req, target("s.example", "/"), &c.endpoint, signTime); !errors.As(err, &misuse) {
			t.Errorf("%s: a key in metadata: %v", c.name, err)
		}
	}
}

func TestSignByNames(t *testing.T) {
	t.Parallel()
	creds := []policy.Credential{
		{Name: "id", Endpoints: at(t, "s.example", "/**"), ExposeAs: "AWS_ACCESS_KEY_ID"},
		{Name: "key", Endpoints: at(t, "s.example", "/**"), ExposeAs: "AWS_SECRET_ACCESS_KEY"},
		{Name: "token", Endpoints: at(t, "s.example", "/**"), ExposeAs: "AWS_SESSION_TOKEN"},
	}
	set, err := credential.NewSet(creds, map[string]*credential.Value{"id": value(t, keyID), "key": value(t, secret), "token": value(t, "tok")})
	if err != nil {
		t.Fatal(err)
	}
	req := request(t, "GET", "https://s.example/", "", "X-Amz-Security-Token", set.Environment()["AWS_SESSION_TOKEN"])
	e := &policy.Endpoint{Signing: policy.SigV4, SigningService: "s3", SigningRegion: "eu-west-1"}
	done, err := set.Apply(t.Context(), req, target("s.example", "/"), e, signTime)
	if err != nil || strings.Join(done.Used, " ") != "id key token" {
		t.Fatalf("%v, %v", done, err)
	}
	checkSigned(t, "by names", req, "s3", "eu-west-1", sum(""), "tok")
}

func TestSignRefuses(t *testing.T) {
	t.Parallel()
	e := policy.Endpoint{Signing: policy.SigV4Body, SigningService: "s3", SigningRegion: "eu-west-1"}
	good, _ := pairSet(t, keyID+":"+secret)
	bare, _ := pairSet(t, keyID)
	large := request(t, "PUT", "https://s.example/", "x")
	large.Body, large.ContentLength = io.NopCloser(io.LimitReader(zeros{}, credential.MaxSigned+1)), credential.MaxSigned+1
	for _, c := range []struct {
		name   string
		set    *credential.Set
		req    *http.Request
		region string
	}{
		{"presigned", good, request(t, "GET", "https://s.example/?X-Amz-Signature=00", ""), "eu-west-1"},
		{"signed pieces", good, request(t, "PUT", "https://s.example/", "x", "X-Amz-Content-Sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), "eu-west-1"},
		{"trailer with body", good, request(t, "PUT", "https://s.example/", "x", "X-Amz-Content-Sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"), "eu-west-1"},
		{"no region", good, request(t, "GET", "https://s.example/", "", "Authorization", "AWS4-HMAC-SHA256 Credential=x/1/UP/s3/aws4_request"), ""},
		{"no keys", bare, request(t, "GET", "https://s.example/", ""), "eu-west-1"},
		{"too large", good, large, "eu-west-1"},
	} {
		at := e
		at.SigningRegion = c.region
		_, err := c.set.Apply(t.Context(), c.req, target("s.example", "/"), &at, signTime)
		if !errors.Is(err, credential.ErrSigning) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", c.name, err)
		}
		if strings.Contains(c.req.Header.Get("Authorization"), keyID) {
			t.Errorf("%s: signed", c.name)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte{'0'}, len(p))), nil }
