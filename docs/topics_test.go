package docs_test

import (
	"strings"
	"testing"

	"github.com/forkcell/forkcell/docs"
)

func TestTopics(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, topic := range docs.Topics() {
		if text := topic.Text(); !strings.HasPrefix(text, "# ") || seen[text] || topic.About == "" {
			t.Errorf("%s: %.60q", topic.Name, text)
		}
		seen[topic.Text()] = true
	}
}
