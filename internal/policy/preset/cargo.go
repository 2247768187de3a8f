package preset

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// cargo returns the registry that replaces cargo's own in its configuration, or
// else cargo's own.
func (h *tools) cargo(ctx context.Context) answer {
	a := answer{tool: "cargo"}
	if _, ok := h.ask(ctx, "cargo", "--version"); !ok {
		return a
	}
	home := cmp.Or(h.Getenv("CARGO_HOME"), h.Getenv("HOME")+"/.cargo")
	index := ""
	for _, name := range []string{"config.toml", "config"} {
		if text, err := h.ReadFile(home + "/" + name); err == nil && index == "" {
			index = cargoSource(text)
		}
	}
	if index == "" {
		index = h.cargoDefault(ctx)
	}
	if index != "" {
		a.urls = append([]string{index}, h.cargoFiles(home, index)...)
	}
	return a
}

// cargoManifest is a package that needs another one.
const cargoManifest = `[package]
name = "a"
version = "0.0.0"
edition = "2015"
[lib]
path = "lib.rs"
[workspace]
[dependencies]
b = "*"
`

// cargoDefault runs cargo with a proxy that does not exist, and reads from its
// error message which registry it wanted: no command of cargo prints that. It runs
// with a temporary home, so that nothing of the caller's is changed.
func (h *tools) cargoDefault(ctx context.Context) string {
	//nolint:forbidigo // a scratch directory of this process, gone when cargo has answered
	dir, err := os.MkdirTemp("", "forkcell-cargo-")
	if err != nil {
		return ""
	}
	defer os.RemoveAll(dir) //nolint:forbidigo // as above
	for name, text := range map[string]string{"Cargo.toml": cargoManifest, "lib.rs": ""} {
		//nolint:forbidigo // as above
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			return ""
		}
	}
	_, complaint, _ := h.Run(ctx, question{
		tool: "cargo", args: []string{"fetch", "--manifest-path", dir + "/Cargo.toml"},
		env: []string{
			"CARGO_HOME=" + dir + "/home", "CARGO_HTTP_PROXY=http://127.0.0.1:1", "NO_PROXY=", "no_proxy=",
			"CARGO_NET_RETRY=0", "CARGO_NET_OFFLINE=false", "CARGO_TERM_COLOR=never",
		},
	})
	// The second is of versions that get the index with git.
	for _, words := range []string{"failed to download from `", "failed to fetch `"} {
		if _, rest, ok := strings.Cut(complaint, words); ok {
			place, _, _ := strings.Cut(rest, "`")
			return place
		}
	}
	return ""
}

// cargoFiles returns where an index has its packages, if cargo has used the index
// on this host: cargo keeps the answer.
func (h *tools) cargoFiles(home, index string) []string {
	u, err := url.Parse(index)
	if err != nil || u.Hostname() == "" {
		return nil
	}
	names, err := h.Glob(home + "/registry/index/*/config.json")
	if err != nil {
		return nil
	}
	var places []string
	for _, name := range names {
		if !strings.HasPrefix(filepath.Base(filepath.Dir(name)), u.Hostname()+"-") {
			continue
		}
		text, err := h.ReadFile(name)
		var said struct {
			Files string `json:"dl"`
		}
		if err == nil && json.Unmarshal(text, &said) == nil && said.Files != "" {
			places = append(places, said.Files)
		}
	}
	return places
}

// cargoSource returns the registry that replaces crates.io. It reads only the few
// lines of TOML that such a file has.
func cargoSource(text []byte) string {
	places, with, section := map[string]string{}, map[string]string{}, ""
	for line := range bytes.Lines(text) {
		s := strings.TrimSpace(string(line))
		if rest, ok := strings.CutPrefix(s, "[source."); ok {
			section = strings.Trim(strings.TrimRight(rest, "] "), `"'`)
			continue
		}
		if strings.HasPrefix(s, "[") {
			section = ""
		}
		key, value, ok := strings.Cut(s, "=")
		if !ok || section == "" {
			continue
		}
		value = strings.Trim(strings.TrimSpace(value), `"'`)
		switch strings.TrimSpace(key) {
		case "registry":
			places[section] = strings.TrimPrefix(value, "sparse+")
		case "replace-with":
			with[section] = value
		}
	}
	name := "crates-io"
	for range len(with) {
		next, ok := with[name]
		if !ok {
			break
		}
		name = next
	}
	return places[name]
}
