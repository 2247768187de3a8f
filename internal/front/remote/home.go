package remote

import (
	"context"
	"net/http"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Doctor reports what the host of the daemon can enforce.
func (e *Engine) Doctor(ctx context.Context) ([]driver.Check, error) {
	doc, err := get[api.Doctor[driver.Check]](ctx, e, op.Doctor.Path)
	if err != nil {
		return nil, err
	}
	return doc.Controls, nil
}

// TokenCreate makes a token.
func (e *Engine) TokenCreate(ctx context.Context, r api.TokenRequest) (*api.TokenCreated, error) {
	made := new(api.TokenCreated)
	err := e.ask(ctx, http.MethodPost, op.CreateToken.Path, api.TokenBody{
		Name: r.Name, Scopes: r.Scopes, Cells: r.Cells, Credentials: r.Credentials, AllowControl: r.AllowControl, Quota: r.Quota, Policy: policyText(r.Policy), Expires: duration(r.Expires),
	}, made)
	if err != nil {
		return nil, err
	}
	return made, nil
}

// TokenList lists the tokens.
func (e *Engine) TokenList(ctx context.Context) ([]api.TokenInfo, error) {
	return pages[api.TokenInfo](ctx, e, op.ListTokens.Path)
}

// TokenRevoke ends a token.
func (e *Engine) TokenRevoke(ctx context.Context, ref string) (*api.TokenInfo, error) {
	if err := e.ask(ctx, http.MethodDelete, op.RevokeToken.At(ref), nil, nil); err != nil {
		return nil, err
	}
	list, err := e.TokenList(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(list, func(t api.TokenInfo) bool { return t.ID == ref || t.Name == ref })
	if at < 0 {
		return nil, api.Missing("token", quote.Arg(ref), "`forkcell token list` shows them")
	}
	return &list[at], nil
}

// homeOnly refuses a verb that works on a state directory itself.
func homeOnly(verb string) error {
	return checkSupported("use it on the machine of the daemon, without --url and FORKCELL_URL", "%s works on the state directory itself, not through a daemon", verb)
}

// TokenEntry is for engines on a home.
func (e *Engine) TokenEntry(context.Context, api.TokenRequest) (*api.TokenCreated, error) {
	return nil, homeOnly("token create --print-entry")
}

// KeyInit is for engines on a home.
func (e *Engine) KeyInit(context.Context) (*api.KeyInfo, error) { return nil, homeOnly("key init") }

// KeyRotate is for engines on a home.
func (e *Engine) KeyRotate(context.Context) (*api.KeyInfo, error) { return nil, homeOnly("key rotate") }

// KeyLost is for engines on a home.
func (e *Engine) KeyLost(context.Context) (*api.KeyInfo, error) { return nil, homeOnly("key lost") }

// KeyTrust is for engines on a home.
func (e *Engine) KeyTrust(context.Context, string) (string, error) { return "", homeOnly("key trust") }

// Recover is for engines on a home.
func (e *Engine) Recover(context.Context, bool) (*api.RecoverResult, error) {
	return nil, homeOnly("recover")
}

// Expire is for engines on a home: a daemon ends expired cells by itself.
func (e *Engine) Expire(context.Context, bool) (*api.ExpireResult, error) {
	return nil, homeOnly("expire")
}

// Promote is for engines on a home.
func (e *Engine) Promote(context.Context, api.PromoteRequest) (*api.PromoteResult, error) {
	return nil, homeOnly("cache promote")
}

// Caches is for engines on a home.
func (e *Engine) Caches(context.Context) ([]api.SharedCache, error) { return nil, homeOnly("cache ls") }

// RemoveCaches is for engines on a home.
func (e *Engine) RemoveCaches(context.Context, []string, bool) ([]string, error) {
	return nil, homeOnly("cache rm")
}
