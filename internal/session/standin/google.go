package standin

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
)

// The tokens of a login at Google: those that it begins with, and the access token that
// renewing it gives. Google does not replace the token that renews.
const (
	GoogleRefresh = "1//the-real-refresh-token-of-the-operator"
	GoogleAccess  = "ya29.the-real-access-token-that-has-ended"
	GoogleRenewed = "ya29.the-real-access-token-that-was-renewed"
	// googleSecret begins the secret of gemini's own client, which is no secret: it is in
	// every copy of the program.
	googleSecret = "GOCSPX-"
)

const googleScopes = "https://www.googleapis.com/auth/cloud-platform https://www.googleapis.com/auth/userinfo.email openid"

// GoogleIdentity returns the token that says who has logged in.
func GoogleIdentity(signature string) string {
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return part(`{"alg":"RS256","typ":"JWT"}`) + "." + part(`{"iss":"https://accounts.google.com","email":"ada@example.com"}`) + "." + signature
}

// google answers what gemini asks for with a login; false if it is something else.
func (s *Service) google(w http.ResponseWriter, r *http.Request, q map[string]any, body []byte) bool {
	method, isWork := strings.CutPrefix(r.URL.Path, "/v1internal:")
	isWho := r.URL.Path == "/tokeninfo" || r.URL.Path == "/oauth2/v2/userinfo"
	switch {
	case r.URL.Path == "/token":
		googleToken(w, body)
	case !isWork && !isWho:
		return false
	case r.Header.Get("Authorization") != "Bearer "+GoogleRenewed:
		http.Error(w, `{"error": {"code": 401, "status": "UNAUTHENTICATED"}}`, http.StatusUnauthorized)
	case isWho:
		answer(w, map[string]any{"email": "ada@example.com", "scope": googleScopes, "expires_in": 3599})
	case method == "loadCodeAssist":
		answer(w, map[string]any{"currentTier": map[string]any{"id": "standard-tier", "name": "Standard"}, "cloudaicompanionProject": "a-project"})
	case method == "streamGenerateContent" || method == "generateContent":
		s.codeAssist(w, q, method == "streamGenerateContent")
	default:
		answer(w, map[string]any{})
	}
	return true
}

// googleToken answers a form that renews a login.
func googleToken(w http.ResponseWriter, body []byte) {
	q, err := url.ParseQuery(string(body))
	if err != nil || q.Get("grant_type") != "refresh_token" || q.Get("refresh_token") != GoogleRefresh ||
		!strings.HasSuffix(q.Get("client_id"), ".apps.googleusercontent.com") || !strings.HasPrefix(q.Get("client_secret"), googleSecret) || len(q) != 4 {
		w.WriteHeader(http.StatusBadRequest)
		answer(w, map[string]any{"error": "invalid_grant", "error_description": "Bad Request"})
		return
	}
	answer(w, map[string]any{"access_token": GoogleRenewed, "expires_in": 3599, "scope": googleScopes, "token_type": "Bearer", "id_token": GoogleIdentity("renewed-signature")})
}

// codeAssist answers as gemini does, one level deeper.
func (s *Service) codeAssist(w http.ResponseWriter, q map[string]any, streamed bool) {
	request, _ := q["request"].(map[string]any)
	doc := map[string]any{"response": s.candidate(request, streamed)}
	if !streamed {
		answer(w, doc)
		return
	}
	stream(w, false, doc)
}
