package login

import (
	"errors"
	"fmt"
	"net/url"
)

// fieldsOf returns the texts of a request to renew a login. The error completes "the
// request ...".
func fieldsOf(body []byte, form bool) (map[string]string, error) {
	out := map[string]string{}
	if !form {
		found, err := locate(body)
		if err != nil {
			return nil, fmt.Errorf("is not a JSON object: %w", err)
		}
		for key, v := range found {
			out[key] = v.text
		}
		return out, nil
	}
	found, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, errors.New("is not a form") // the reason would repeat a part of it
	}
	for key, list := range found {
		if len(list) > 1 {
			return nil, errors.New("is not a plain form: a key is there twice")
		}
		out[key] = list[0]
	}
	return out, nil
}

// bodyOf returns the body of a request to renew a login, and its media type.
func bodyOf(fields map[string]string, form bool) (media string, body []byte) {
	if !form {
		return "application/json", encode(fields)
	}
	values := url.Values{}
	for key, text := range fields {
		values.Set(key, text)
	}
	return "application/x-www-form-urlencoded", []byte(values.Encode())
}
