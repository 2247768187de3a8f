package engine

import (
	"context"
	"errors"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/token"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
)

// Tokens returns the tokens of the home.
func (e *Engine) Tokens() *token.Book {
	if e.Store == nil {
		return token.NewBook(nil, e.Now)
	}
	return token.NewBook(e.Store, e.Now)
}

// TokenCreate makes a token in the home.
func (e *Engine) TokenCreate(_ context.Context, r api.TokenRequest) (*api.TokenCreated, error) {
	if err := e.checkToken(&r); err != nil {
		return nil, err
	}
	made, err := e.Tokens().Create(r, e.Caller.Actor())
	return made, api.WithHint(tokenError(err), api.CodeNameTaken, "`forkcell token revoke "+r.Name+"` ends it")
}

// TokenEntry makes a token for the operator's file. The home does not have it.
func (e *Engine) TokenEntry(_ context.Context, r api.TokenRequest) (*api.TokenCreated, error) {
	if err := e.checkToken(&r); err != nil {
		return nil, err
	}
	made, err := e.Tokens().Make(r, e.Caller.Actor())
	return made, tokenError(err)
}

// checkToken checks the patterns of a request for a token, reads its policy, and puts the
// canonical text in its place.
func (e *Engine) checkToken(r *api.TokenRequest) error {
	if _, err := secretfiles.NewSelector(r.AllowControl, nil); err != nil {
		return api.Usagef("patterns are gitignore-style", "bad --allow-control: %v", err)
	}
	if r.Policy == nil {
		return nil
	}
	p, err := e.Caller.ParsePolicy(*r.Policy)
	if err != nil {
		return err
	}
	r.Policy = &api.PolicyFile{Name: r.Policy.Name, Text: p.Canonical()}
	return nil
}

// TokenList returns the tokens of the home, also those that have ended.
func (e *Engine) TokenList(context.Context) ([]api.TokenInfo, error) {
	list, err := e.Tokens().List()
	return list, tokenError(err)
}

// TokenRevoke ends the token with a name or an id.
func (e *Engine) TokenRevoke(_ context.Context, ref string) (*api.TokenInfo, error) {
	info, err := e.Tokens().Revoke(ref, e.Caller.Actor())
	if errors.Is(err, token.ErrNone) {
		return nil, api.Missing("token", ref, "`forkcell token list` names them")
	}
	return &info, tokenError(err)
}

// tokenError gives an error of package token its kind and code.
func tokenError(err error) error {
	if err == nil {
		return nil
	}
	e := &api.Error{Message: err.Error(), Err: err}
	switch {
	case errors.Is(err, token.ErrDamaged):
		e.Kind, e.Code, e.Hint = api.Refused, api.CodeDamaged, "put tokens.json of the state directory back, or remove it to revoke every token"
	case errors.Is(err, token.ErrInvalid):
		e.Kind, e.Code = api.Usage, api.CodeToken
	case errors.Is(err, token.ErrTaken):
		e.Kind, e.Code = api.Refused, api.CodeNameTaken
	case errors.Is(err, token.ErrFixed):
		e.Kind, e.Code, e.Hint = api.Refused, api.CodeForbidden, "take it out of the file, and send the daemon SIGHUP"
	case errors.Is(err, token.ErrFull):
		e.Kind, e.Code, e.Hint = api.Refused, api.CodeTooMany, "revoke some of those that `forkcell token list` names"
	default:
		return err
	}
	return e
}
