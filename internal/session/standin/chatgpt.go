package standin

import (
	"encoding/base64"
	"net/http"
	"net/url"
)

// The tokens of a login at ChatGPT: those that it begins with, and those that replace
// them.
const (
	ChatGPTRefresh        = "rt_the-real-refresh-token-of-the-operator"
	ChatGPTRenewedRefresh = "rt_the-real-refresh-token-that-came-then"
)

// ChatGPTAccess returns an access token with a signature.
func ChatGPTAccess(signature string) string {
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return part(`{"alg":"RS256","typ":"JWT"}`) + "." + part(`{"https://api.openai.com/auth":{"chatgpt_account_id":"an-account"}}`) + "." + signature
}

// ChatGPTSignature is that of the access token after the login was renewed.
const ChatGPTSignature = "the-signature-of-the-renewed-token"

// chatgpt answers what a program asks for with a login at ChatGPT; false if it is
// something else.
func (s *Service) chatgpt(w http.ResponseWriter, r *http.Request, body []byte) bool {
	switch r.URL.Path {
	case "/oauth/token":
		q, err := url.ParseQuery(string(body))
		if err != nil || q.Get("grant_type") != "refresh_token" || q.Get("refresh_token") != ChatGPTRefresh || q.Get("client_id") == "" || len(q) != 3 {
			w.WriteHeader(http.StatusBadRequest)
			answer(w, map[string]any{"error": map[string]any{"code": "refresh_token_reused"}})
			return true
		}
		answer(w, map[string]any{"access_token": ChatGPTAccess(ChatGPTSignature), "refresh_token": ChatGPTRenewedRefresh, "expires_in": 3600, "token_type": "Bearer"})
	case "/backend-api/codex/responses":
		if r.Header.Get("Authorization") != "Bearer "+ChatGPTAccess(ChatGPTSignature) || r.Header.Get("Chatgpt-Account-Id") != "an-account" {
			http.Error(w, `{"detail": "Unauthorized"}`, http.StatusUnauthorized)
			return true
		}
		say(w, Done)
	default:
		return false
	}
	return true
}

// say answers with a text, in all the events that a strict program waits for.
func say(w http.ResponseWriter, text string) {
	item := map[string]any{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []any{map[string]any{"type": "output_text", "text": text, "annotations": []any{}}}}
	response := map[string]any{"id": "resp_1", "object": "response", "created_at": 1, "model": "a-model", "status": "completed", "output": []any{item}, "usage": map[string]any{
		"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
		"input_tokens_details": map[string]any{"cached_tokens": 0}, "output_tokens_details": map[string]any{"reasoning_tokens": 0},
	}}
	empty := map[string]any{"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []any{}}
	stream(
		w, true,
		map[string]any{"type": "response.created", "response": map[string]any{"id": "resp_1", "object": "response", "created_at": 1, "model": "a-model"}},
		map[string]any{"type": "response.output_item.added", "output_index": 0, "item": empty},
		map[string]any{"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": text},
		map[string]any{"type": "response.output_item.done", "output_index": 0, "item": item},
		map[string]any{"type": "response.completed", "response": response},
	)
}
