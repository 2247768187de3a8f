package preset

import (
	"bytes"
	"context"
	"slices"
	"strings"
)

// debian are Debian's own mirrors, by both protocols.
var debian = []string{"http://deb.debian.org", "https://deb.debian.org", "http://security.debian.org", "https://security.debian.org"}

// apt returns the mirrors in the sources of the host's apt, and Debian's own.
func (h *tools) apt(context.Context) answer {
	a := answer{tool: "apt"}
	names := []string{"/etc/apt/sources.list"}
	for _, pattern := range []string{"/etc/apt/sources.list.d/*.list", "/etc/apt/sources.list.d/*.sources"} {
		if found, err := h.Glob(pattern); err == nil {
			names = append(names, found...)
		}
	}
	for _, name := range names {
		text, err := h.ReadFile(name)
		if err != nil {
			continue
		}
		if strings.HasSuffix(name, ".sources") {
			a.urls = append(a.urls, aptStanzas(text)...)
		} else {
			a.urls = append(a.urls, aptLines(text)...)
		}
	}
	a.urls = h.aptMirrors(a.urls)
	if len(a.urls) > 0 {
		a.more = debian
	}
	return a
}

// aptLines returns the places in lines of "deb [options] place suite component...".
func aptLines(text []byte) (places []string) {
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) < 2 || fields[0] != "deb" && fields[0] != "deb-src" {
			continue
		}
		rest := strings.Join(fields[1:], " ")
		if strings.HasPrefix(rest, "[") {
			_, rest, _ = strings.Cut(rest, "]")
		}
		if fields = strings.Fields(rest); len(fields) > 0 {
			places = append(places, fields[0])
		}
	}
	return places
}

// aptStanzas returns the places in paragraphs of fields that are not switched off.
func aptStanzas(text []byte) (places []string) {
	var of []string
	off, key := false, ""
	end := func() {
		if !off {
			places = append(places, of...)
		}
		of, off, key = nil, false, ""
	}
	for line := range bytes.Lines(text) {
		s := string(line)
		switch {
		case strings.TrimSpace(s) == "":
			end()
			continue
		case s[0] == '#':
			continue
		case s[0] != ' ' && s[0] != '\t':
			key, s, _ = strings.Cut(s, ":")
			key = strings.ToLower(strings.TrimSpace(key))
		}
		switch value := strings.Fields(s); key {
		case "uris":
			of = append(of, value...)
		case "enabled":
			off = off || len(value) > 0 && slices.Contains([]string{"no", "false", "0", "off", "without", "disable"}, strings.ToLower(value[0]))
		}
	}
	end()
	return places
}

// aptMirrors replaces lists of mirrors in files by what they list. A list on a server
// stays: it is read, and which mirrors it names is not known here.
func (h *tools) aptMirrors(places []string) (out []string) {
	for _, place := range places {
		place = strings.TrimPrefix(place, "mirror+")
		name, inFile := strings.CutPrefix(place, "file:")
		if !inFile {
			out = append(out, place)
			continue
		}
		text, err := h.ReadFile("/" + strings.TrimLeft(name, "/"))
		if err != nil {
			continue
		}
		for line := range bytes.Lines(text) {
			if fields := strings.Fields(string(line)); len(fields) > 0 {
				out = append(out, fields[0])
			}
		}
	}
	return out
}
