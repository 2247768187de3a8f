package rest

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/api/op"
)

// tokenKeeper keeps the tokens of the home.
type tokenKeeper interface {
	TokenCreate(ctx context.Context, r api.TokenRequest) (*api.TokenCreated, error)
	TokenList(ctx context.Context) ([]api.TokenInfo, error)
	TokenRevoke(ctx context.Context, ref string) (*api.TokenInfo, error)
}

// addTokens adds the routes of tokens.
func (s *Server) addTokens() {
	handle(s, op.ListTokens,
		func(ctx context.Context, c *call, in *Page) (*api.List[api.TokenInfo], error) {
			list, err := c.engine.TokenList(ctx)
			if err != nil {
				return nil, err
			}
			return cut(*in, list, func(t api.TokenInfo) string { return timeKey(t.CreatedAt, t.ID) })
		})
	handle(s, op.CreateToken, s.createToken)
	handleRaw(s, op.RevokeToken, func(ctx context.Context, c *call, in *tokenInput) (*empty, error) {
		_, err := c.engine.TokenRevoke(ctx, in.Token)
		return &empty{}, err
	})
}

type tokenInput struct {
	Token string `path:"token" doc:"Name or id of the token."`
}

type createTokenInput struct {
	Body api.TokenBody
}

func (s *Server) createToken(ctx context.Context, c *call, in *createTokenInput) (*api.TokenCreated, error) {
	b := in.Body
	req := api.TokenRequest{Name: b.Name, Scopes: b.Scopes, Cells: b.Cells, Credentials: b.Credentials, AllowControl: b.AllowControl, Quota: b.Quota}
	var err error
	if req.Expires, err = duration("expires", b.Expires); err != nil {
		return nil, err
	}
	if req.Policy, err = s.policyFile(ctx, b.Policy); err != nil {
		return nil, err
	}
	return c.engine.TokenCreate(ctx, req)
}
