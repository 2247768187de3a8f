package otlp

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Config says where spans are sent.
type Config struct {
	// Endpoint is the URL that gets the spans.
	Endpoint *url.URL
	// Header has fields that are sent with them.
	Header http.Header
	// Roots are the authorities of the collector's certificate; nil are the host's.
	Roots *x509.CertPool
	// Timeout bounds the sending of one batch.
	Timeout time.Duration
}

// prefix begins the variables of the exporter.
const prefix = "OTEL_EXPORTER_OTLP_"

// defaultTimeout is the one that OpenTelemetry specifies.
const defaultTimeout = 10 * time.Second

// FromEnvironment reads the variables that OpenTelemetry specifies for an exporter of
// traces. on is false if they name no collector, or switch traces off. A value that is
// not supported is an error: spans go where the operator said, or nowhere.
func FromEnvironment(getenv func(string) string) (c Config, on bool, err error) {
	// A variable of traces replaces the one of all signals.
	value := func(name string) (key, text string) {
		for _, key = range []string{prefix + "TRACES_" + name, prefix + name} {
			if text = strings.TrimSpace(getenv(key)); text != "" {
				return key, text
			}
		}
		return key, ""
	}
	key, endpoint := value("ENDPOINT")
	if endpoint == "" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return c, false, nil
	}
	if kind := getenv("OTEL_TRACES_EXPORTER"); kind != "" && kind != "otlp" {
		return c, false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q; use otlp or none", kind)
	}
	if key, protocol := value("PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		return c, false, fmt.Errorf("%s is %q; use http/protobuf", key, protocol)
	}
	c.Timeout = defaultTimeout
	if c.Endpoint, err = readEndpoint(key, endpoint); err != nil {
		return c, false, err
	}
	key, text := value("HEADERS")
	if c.Header, err = readHeaders(key, text); err != nil {
		return c, false, err
	}
	if key, text := value("TIMEOUT"); text != "" {
		ms, err := strconv.ParseUint(text, 10, 31)
		if err != nil || ms == 0 {
			return c, false, fmt.Errorf("%s is %q; use a number of milliseconds", key, text)
		}
		c.Timeout = time.Duration(ms) * time.Millisecond
	}
	if key, file := value("CERTIFICATE"); file != "" {
		c.Roots, err = readRoots(key, file)
	}
	return c, err == nil, err
}

// readEndpoint returns the URL for traces. The variable of all signals has the URL
// below which theirs is.
func readEndpoint(key, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%s is no URL of a collector; write http://HOST:PORT or https://HOST:PORT", key)
	}
	if !strings.HasPrefix(key, prefix+"TRACES_") {
		u = u.JoinPath("v1", "traces")
	}
	return u, nil
}

// readHeaders reads a list of NAME=VALUE, separated by commas, with values as in URLs.
// Errors do not show them: they are often secret.
func readHeaders(key, text string) (http.Header, error) {
	header := http.Header{}
	for _, item := range strings.Split(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, encoded, found := strings.Cut(item, "=")
		value, err := url.PathUnescape(strings.TrimSpace(encoded))
		if name = strings.TrimSpace(name); !found || name == "" || err != nil {
			return nil, fmt.Errorf("%s is malformed; write NAME=VALUE,NAME=VALUE", key)
		}
		header.Set(name, value)
	}
	return header, nil
}

func readRoots(key, file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: the file has no certificate in PEM", key)
	}
	return roots, nil
}
