package token

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// decode reads one JSON document into v. It refuses what encoding/json lets pass:
// unknown keys, keys that are repeated or spelled in another case, null, data after
// the end, and text that is not UTF-8.
func decode(data []byte, v any) error {
	if !utf8.Valid(data) {
		return errors.New("not UTF-8")
	}
	if err := checkKeys(data); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

// maxDepth bounds the nesting of a document.
const maxDepth = 8

// checkKeys checks every key of a document, and that nothing follows it.
func checkKeys(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := checkValue(dec, 0); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the end of the document")
	}
	return nil
}

func checkValue(dec *json.Decoder, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	if tok == nil {
		return errors.New("a value is null; leave its field out")
	}
	open, ok := tok.(json.Delim)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for dec.More() {
		if open == '{' {
			if err := checkKey(dec, seen); err != nil {
				return err
			}
		}
		if err := checkValue(dec, depth+1); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

func checkKey(dec *json.Decoder, seen map[string]bool) error {
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	key, ok := tok.(string)
	switch {
	case !ok || strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789_") != "":
		return fmt.Errorf("unknown field %q", tok)
	case seen[key]:
		return fmt.Errorf("the field %q is given twice", key)
	}
	seen[key] = true
	return nil
}
