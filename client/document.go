package client

import (
	"errors"
	"fmt"
	"io"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/answer"
)

// maxDocument bounds an answer, so that a wrong one cannot fill the memory.
const maxDocument = 256 << 20

// readAll reads the body of an answer.
func readAll(body io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(body, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		return nil, tooLong()
	}
	return text, err
}

func tooLong() *Error {
	return &Error{Kind: api.Failed, Code: api.CodeProtocol, Message: fmt.Sprintf("more than %d bytes", maxDocument)}
}

// readDocument decodes every document that comes from a daemon, or from the program
// forkcell. The names and ids in it follow their grammars: they become arguments, parts of
// URLs and text on terminals.
func readDocument(text []byte, doc any) error {
	err := answer.Decode(text, doc)
	if wrong, ok := errors.AsType[*answer.GrammarError](err); ok {
		return &Error{Kind: api.Failed, Code: api.CodeProtocol, Message: wrong.Error(), Hint: "what answers is no daemon of forkcell, or a hostile one"}
	}
	return err
}
