package standin

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// tools returns the tools of a request by name, with their schemas. Vendors put the
// name and the schema under different keys.
func tools(v any) map[string]any {
	out := map[string]any{}
	list, _ := v.([]any)
	for _, t := range list {
		o, _ := t.(map[string]any)
		if f, ok := o["function"].(map[string]any); ok {
			o = f
		}
		if more, ok := o["functionDeclarations"]; ok {
			for k, s := range tools(more) {
				out[k] = s
			}
			continue
		}
		name, _ := o["name"].(string)
		for _, key := range []string{"input_schema", "parameters", "parametersJsonSchema"} {
			if schema, ok := o[key]; ok {
				out[name] = schema
			}
		}
		if _, ok := out[name]; !ok {
			out[name] = nil
		}
	}
	return out
}

func (s *Service) step(results int, offered map[string]any) (name string, args map[string]any, ok bool) {
	step, ok := s.next(results)
	if !ok || len(offered) == 0 {
		return "", nil, false
	}
	name, args = call(step, func(n string) bool { _, known := offered[n]; return known })
	return name, fitting(args, offered[name]), true
}

func text(args map[string]any) string {
	b, err := json.Marshal(args)
	if err != nil {
		panic(err) // the arguments are those of this package
	}
	return string(b)
}

// anthropic answers POST /v1/messages.
func (s *Service) anthropic(w http.ResponseWriter, q map[string]any) {
	results := count(q["messages"], "type", "tool_result")
	name, args, ok := s.step(results, tools(q["tools"]))
	usage := map[string]any{"input_tokens": 10, "output_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
	message := map[string]any{
		"id": "msg_" + strconv.Itoa(results), "type": "message", "role": "assistant", "model": q["model"], "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": usage,
	}
	if q["stream"] != true {
		message["content"], message["stop_reason"] = []any{map[string]any{"type": "text", "text": Done}}, "end_turn"
		answer(w, message)
		return
	}
	block, delta, reason := map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": Done}, "end_turn"
	if ok {
		block = map[string]any{"type": "tool_use", "id": "toolu_" + strconv.Itoa(results), "name": name, "input": map[string]any{}}
		delta, reason = map[string]any{"type": "input_json_delta", "partial_json": text(args)}, "tool_use"
	}
	stream(
		w, true,
		map[string]any{"type": "message_start", "message": message},
		map[string]any{"type": "content_block_start", "index": 0, "content_block": block},
		map[string]any{"type": "content_block_delta", "index": 0, "delta": delta},
		map[string]any{"type": "content_block_stop", "index": 0},
		map[string]any{"type": "message_delta", "delta": map[string]any{"stop_reason": reason, "stop_sequence": nil}, "usage": usage},
		map[string]any{"type": "message_stop"},
	)
}

// gemini answers generateContent and streamGenerateContent.
func (s *Service) gemini(w http.ResponseWriter, q map[string]any, streamed bool) {
	doc := s.candidate(q, streamed)
	if !streamed {
		answer(w, doc)
		return
	}
	stream(w, false, doc)
}

// candidate returns gemini's next answer.
func (s *Service) candidate(q map[string]any, streamed bool) map[string]any {
	name, args, ok := s.step(has(q["contents"], "functionResponse"), tools(q["tools"]))
	part := map[string]any{"text": Done}
	if ok {
		part = map[string]any{"functionCall": map[string]any{"name": name, "args": args}}
	}
	if !streamed {
		part = map[string]any{"text": `{"reasoning":"short","model_choice":"flash","complexity_score":1,"complexity_reasoning":"short"}`}
	}
	return map[string]any{
		"candidates":    []any{map[string]any{"content": map[string]any{"role": "model", "parts": []any{part}}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": map[string]any{"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
	}
}

// responses answers POST /v1/responses. The agent's tools are called from JavaScript,
// through one tool.
func (s *Service) responses(w http.ResponseWriter, q map[string]any) {
	results := count(q["input"], "type", "custom_tool_call_output") + count(q["input"], "type", "function_call_output")
	item := map[string]any{"type": "message", "id": "msg_1", "role": "assistant", "content": []any{map[string]any{"type": "output_text", "text": Done, "annotations": []any{}}}}
	if step, ok := s.next(results); ok {
		item = map[string]any{"type": "custom_tool_call", "id": "ctc_" + strconv.Itoa(results), "call_id": "call_" + strconv.Itoa(results), "name": "exec", "input": script(step)}
	}
	response := map[string]any{"id": "resp_" + strconv.Itoa(results), "object": "response", "status": "completed", "output": []any{item}, "usage": map[string]any{
		"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
		"input_tokens_details": map[string]any{"cached_tokens": 0}, "output_tokens_details": map[string]any{"reasoning_tokens": 0},
	}}
	stream(
		w, true,
		map[string]any{"type": "response.created", "response": map[string]any{"id": response["id"]}},
		map[string]any{"type": "response.output_item.done", "output_index": 0, "item": item},
		map[string]any{"type": "response.completed", "response": response},
	)
}

// script returns the JavaScript of a step: everything is a shell command.
func script(s Step) string {
	command := s.Command
	switch s.Tool {
	case "read":
		command = "cat '" + s.File + "'"
	case "write":
		command = "printf %s '" + s.Content + "' > '" + s.File + "'"
	}
	return "const r = await tools.exec_command(" + text(map[string]any{"cmd": command}) + "); text(r.output);"
}
