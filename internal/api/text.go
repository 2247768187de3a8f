package api

import (
	"encoding/json"
	"unicode/utf8"
)

// Text is text of the operating system, such as a path. It need not be UTF-8; then
// its JSON is an object with the bytes in base64 instead of a string.
type Text string

// Texts is a list of such texts.
type Texts []string

type encodedText struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON implements json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(encodedText{[]byte(t)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var e encodedText
		err := json.Unmarshal(data, &e)
		*t = Text(e.Base64)
		return err
	}
	return json.Unmarshal(data, (*string)(t))
}

// OutputText returns what is kept of an output as text, or else as it is. If the rest was
// cut off, a character that the cut went through is left out of the text.
func OutputText(kept []byte, cut bool) (string, []byte) {
	text := kept
	if cut {
		text = WholeEnd(kept)
	}
	if utf8.Valid(text) {
		return string(text), nil
	}
	return "", kept
}

// WholeEnd cuts off the bytes of a last character that is not complete.
func WholeEnd(p []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		at := len(p) - i
		if utf8.RuneStart(p[at]) {
			if !utf8.FullRune(p[at:]) {
				return p[:at]
			}
			break
		}
	}
	return p
}

// MarshalJSON implements json.Marshaler.
func (t Texts) MarshalJSON() ([]byte, error) {
	list := make([]Text, len(t))
	for i, s := range t {
		list[i] = Text(s)
	}
	return json.Marshal(list)
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Texts) UnmarshalJSON(data []byte) error {
	var list []Text
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	*t = nil
	for _, s := range list {
		*t = append(*t, string(s))
	}
	return nil
}
