package credential

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/forkcell/forkcell/internal/policy"
)

// ErrSigning is returned when a request cannot be signed. The text after it
// explains what to change.
var ErrSigning = errors.New("cannot sign the request")

// MaxSigned bounds a body that is read as a whole to be signed.
const MaxSigned = 10 << 20

// The payload hashes of a body that the signature does not cover.
const (
	unsignedPayload = "UNSIGNED-PAYLOAD"
	unsignedTrailer = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
)

// sign signs a request in AWS's scheme, version 4. It replaces the signature
// that the cell made with its placeholders.
func (u *use) sign(ctx context.Context, req *http.Request, e *policy.Endpoint, keys aws.Credentials, now time.Time) error {
	query := req.URL.Query()
	if query.Has("X-Amz-Signature") || query.Has("X-Amz-Credential") {
		return fmt.Errorf("%w: it is signed in its query; only signatures in headers are made anew", ErrSigning)
	}
	region := e.SigningRegion
	if region == "" {
		if region = scopeRegion(req.Header.Get("Authorization")); region == "" {
			return fmt.Errorf("%w: neither signing_region nor the request names a region", ErrSigning)
		}
	}
	hash, err := u.payload(req, e)
	if err != nil {
		return err
	}
	// Sign only headers that arrive unchanged: some others are modified on the
	// way.
	signed := &http.Request{Method: req.Method, Host: req.Host, URL: cloneURL(req.URL), Header: http.Header{}}
	for name, values := range req.Header {
		switch {
		case name == "X-Amz-Date", name == "X-Amz-Security-Token", name == "X-Amz-Content-Sha256":
		case strings.HasPrefix(name, "X-Amz-"), name == "Content-Type", name == "Content-Md5":
			signed.Header[name] = values
		}
	}
	if e.SigningService == "s3" || !isHash(hash) || req.Header.Get("X-Amz-Content-Sha256") != "" {
		signed.Header.Set("X-Amz-Content-Sha256", hash)
	}
	err = u.set.signer.SignHTTP(ctx, keys, signed, hash, e.SigningService, region, now, func(o *v4.SignerOptions) {
		// Only S3 signs the path as it is sent.
		o.DisableURIPathEscaping = e.SigningService == "s3"
	})
	if err != nil {
		// The signer's error text may contain anything; leave it out.
		return ErrSigning
	}
	for _, name := range []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Content-Sha256"} {
		if v := signed.Header.Get(name); v != "" {
			setHeader(req.Header, name, v)
		} else {
			req.Header.Del(name)
		}
	}
	return nil
}

func cloneURL(u *url.URL) *url.URL {
	c := *u
	return &c
}

// payload returns the signature's hash of the body. Where the service checks
// the hash, the client's own is used: the service refuses a wrong one.
func (u *use) payload(req *http.Request, e *policy.Endpoint) (string, error) {
	given := req.Header.Get("X-Amz-Content-Sha256")
	if strings.HasPrefix(given, "STREAMING-") && given != unsignedTrailer {
		return "", fmt.Errorf("%w: the pieces of its body are signed too, with a key that the cell does not have; have the client sign no payload", ErrSigning)
	}
	switch e.Signing {
	case policy.SigV4NoBody:
		if given == unsignedTrailer {
			return given, nil
		}
		return unsignedPayload, nil
	case policy.SigV4:
		switch {
		case given == unsignedPayload, given == unsignedTrailer:
			return given, nil
		case isHash(given) && !u.replacesBody():
			return given, nil
		case e.SigningService == "s3" && req.ContentLength != 0:
			return unsignedPayload, nil
		}
	case policy.SigV4Body, policy.SigningNone:
		if given == unsignedTrailer {
			return "", fmt.Errorf("%w: the body comes in pieces with a checksum behind it, and sigv4:body wants it as a whole", ErrSigning)
		}
	}
	return u.hashBody(req)
}

func (u *use) hashBody(req *http.Request) (string, error) {
	var b []byte
	if req.Body != nil && req.Body != http.NoBody {
		var err error
		if b, err = io.ReadAll(io.LimitReader(req.Body, MaxSigned+1)); err != nil {
			return "", err
		}
		if len(b) > MaxSigned {
			return "", fmt.Errorf("%w: the body is larger than %d bytes; sigv4:no_body needs no such bound", ErrSigning, MaxSigned)
		}
		_ = req.Body.Close()
		setBody(req, b)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

func isHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size
}

// scopeRegion returns the region in the scope of a signature that the cell made.
func scopeRegion(authorization string) string {
	_, rest, ok := strings.Cut(authorization, "Credential=")
	if !ok {
		return ""
	}
	rest, _, _ = strings.Cut(rest, ",")
	parts := strings.Split(rest, "/")
	if len(parts) < 5 || parts[len(parts)-1] != "aws4_request" {
		return ""
	}
	region := parts[len(parts)-3]
	if len(region) > 32 || strings.Trim(region, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return ""
	}
	return region
}

// keys finds the keys to sign with among the credentials that may go to the
// target. Either two or three of them are exposed under AWS's own names
// (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN), or exactly one
// holds a pair: ID:SECRET, ID:SECRET:TOKEN, or on one line the JSON that AWS's
// tools print for a credential_process.
func (u *use) keys() (aws.Credentials, error) {
	var byName, pair aws.Credentials
	var named, pairs []string
	for _, e := range u.set.entries {
		if !e.covers(u.to) {
			continue
		}
		to := (*string)(nil)
		switch e.ExposeAs {
		case "AWS_ACCESS_KEY_ID":
			to = &byName.AccessKeyID
		case "AWS_SECRET_ACCESS_KEY":
			to = &byName.SecretAccessKey
		case "AWS_SESSION_TOKEN":
			to = &byName.SessionToken
		}
		if k, ok := parsePair(e.text()); ok {
			pair, pairs = k, append(pairs, e.Name)
		} else if to != nil {
			*to, named = e.text(), append(named, e.Name)
		}
	}
	complete := byName.AccessKeyID != "" && byName.SecretAccessKey != ""
	switch {
	case complete && len(pairs) == 0:
		pair, pairs = byName, named
	case complete, len(pairs) > 1:
		return aws.Credentials{}, fmt.Errorf("%w: more than one credential for this endpoint holds keys", ErrSigning)
	case len(pairs) == 0:
		return aws.Credentials{}, fmt.Errorf("%w: no credential for this endpoint holds keys (ID:SECRET, or a pair exposed as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)", ErrSigning)
	}
	for _, name := range pairs {
		u.names[name], u.withheld[name] = true, true
	}
	return pair, nil
}

// parsePair reads keys in one value. Access key ids are upper case letters and
// digits, which distinguishes a pair from a secret that contains a colon.
func parsePair(s string) (aws.Credentials, bool) {
	var k aws.Credentials
	if strings.HasPrefix(s, "{") {
		var doc struct{ AccessKeyID, SecretAccessKey, SessionToken string }
		if json.Unmarshal([]byte(s), &doc) != nil {
			return k, false
		}
		k.AccessKeyID, k.SecretAccessKey, k.SessionToken = doc.AccessKeyID, doc.SecretAccessKey, doc.SessionToken
	} else {
		var rest string
		k.AccessKeyID, rest, _ = strings.Cut(s, ":")
		k.SecretAccessKey, k.SessionToken, _ = strings.Cut(rest, ":")
	}
	id := k.AccessKeyID
	ok := len(id) >= 16 && len(id) <= 128 && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == "" && k.SecretAccessKey != ""
	return k, ok
}
