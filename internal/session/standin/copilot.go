package standin

import (
	"net/http"
	"strconv"
	"strings"
)

// copilotHost is where copilot is sent for its work.
const copilotHost = "api.individual.githubcopilot.com"

// CopilotModel is the only model that copilot is offered. The program accepts only models
// that it knows.
const CopilotModel = "gpt-5-mini"

// copilot answers what copilot asks for before and during its work; false if it is
// something else.
func (s *Service) copilot(w http.ResponseWriter, r *http.Request, q map[string]any) bool {
	switch path := r.URL.Path; {
	case path == "/copilot_internal/user":
		answer(w, map[string]any{
			"login": "ada", "access_type_sku": "monthly_subscriber_quota", "copilot_plan": "individual", "chat_enabled": true,
			"organization_list": []any{}, "endpoints": map[string]any{"api": "https://" + copilotHost},
		})
	case path == "/models":
		answer(w, map[string]any{"object": "list", "data": []any{map[string]any{
			"id": CopilotModel, "name": "GPT-5 mini", "object": "model", "vendor": "OpenAI", "version": CopilotModel, "preview": false,
			"model_picker_enabled": true, "is_chat_default": true, "is_chat_fallback": true,
			"policy": map[string]any{"state": "enabled", "terms": ""}, "billing": map[string]any{"is_premium": false, "multiplier": 0},
			"supported_endpoints": []any{"/chat/completions"},
			"capabilities": map[string]any{
				"object": "model_capabilities", "type": "chat", "family": CopilotModel, "tokenizer": "o200k_base",
				"limits":   map[string]any{"max_context_window_tokens": 128000, "max_output_tokens": 16384, "max_prompt_tokens": 111616},
				"supports": map[string]any{"streaming": true, "tool_calls": true, "parallel_tool_calls": true},
			},
		}}})
	case strings.HasSuffix(path, "/chat/completions") && r.Method == http.MethodPost:
		s.completions(w, q)
	default:
		return false
	}
	return true
}

// completions answers POST /chat/completions.
func (s *Service) completions(w http.ResponseWriter, q map[string]any) {
	results := count(q["messages"], "role", "tool")
	name, args, ok := s.step(results, tools(q["tools"]))
	id := strconv.Itoa(results)
	message, reason := map[string]any{"role": "assistant", "content": Done}, "stop"
	if ok {
		use := map[string]any{"index": 0, "id": "call_" + id, "type": "function", "function": map[string]any{"name": name, "arguments": text(args)}}
		message, reason = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{use}}, "tool_calls"
	}
	doc := map[string]any{"id": "chatcmpl-" + id, "created": 1, "model": CopilotModel, "usage": map[string]any{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
	choice := map[string]any{"index": 0, "finish_reason": reason}
	doc["choices"] = []any{choice}
	if q["stream"] != true {
		doc["object"], choice["message"] = "chat.completion", message
		answer(w, doc)
		return
	}
	doc["object"], choice["delta"] = "chat.completion.chunk", message
	stream(w, false, doc)
	_, _ = w.Write([]byte("data: [DONE]\n\n"))
}
